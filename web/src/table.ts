// A table of text: rows of a CSV file, and which state a value of it is.

import type { ColumnText, Label } from "./protocol";

export interface Table {
  name: string;
  columns: string[];
  count: number;
  /** The values of a row: here, or with the server that has the table. */
  row: (at: number) => Promise<string[]>;
}

export const MISSING = -1;
export const UNSEEN = -2;

/** The rows of delimited text: by commas, semicolons or tabs, whichever the first line has most of. */
export function tableOf(name: string, content: string): Table {
  const plain = content.replace(/^\ufeff/, "");
  const head = plain.slice(0, plain.search(/[\r\n]|$/));
  const count = (mark: string): number => head.split(mark).length;
  const mark = [",", ";", "\t"].reduce((best, one) => (count(one) > count(best) ? one : best));
  const all = records(plain, mark);
  const isEmptyLine = (row: string[]): boolean => row.length === 1 && row[0] === "";
  if (isEmptyLine(all[all.length - 1])) all.pop(); // what follows the last end of a line
  const first = all.findIndex((row) => !isEmptyLine(row));
  const columns = all[first] ?? [];
  // as in Python: an empty line is a row of a table of one column, and none of another
  const rows = all.slice(first + 1).filter((row) => columns.length === 1 || !isEmptyLine(row));
  return { name, columns: columnNames(columns), count: rows.length, row: async (at) => rows[at] };
}

/** The names of columns; one without a name is named after its place, as in Python: x0, x1, ... */
function columnNames(head: string[]): string[] {
  const names = head.map((name) => name.trim());
  const taken = new Set(names);
  return names.map((name, at) => {
    if (name) return name;
    let free = `x${at}`;
    while (taken.has(free)) free += "_";
    taken.add(free);
    return free;
  });
}

function records(content: string, mark: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let value = "";
  let quoted = false;
  for (let at = 0; at <= content.length; at++) {
    const letter = content[at];
    if (quoted) {
      if (letter === undefined) quoted = false;
      else if (letter !== '"') value += letter;
      else if (content[at + 1] === '"') (value += '"'), at++;
      else quoted = false;
      continue;
    }
    if (letter === '"' && value === "") quoted = true;
    else if (letter === mark || letter === "\n" || letter === "\r" || letter === undefined) {
      row.push(value);
      value = "";
      if (letter === mark) continue;
      rows.push(row);
      row = [];
      if (letter === "\r" && content[at + 1] === "\n") at++;
    } else value += letter;
  }
  return rows;
}

/** The state that a value of a table is, MISSING, or UNSEEN if it is none. */
export function stateOf(value: string, labels: Label[], column?: ColumnText): number {
  const word = value.trim();
  const exact = labels.findIndex((label) => typeof label === "string" && (label === value || label === word));
  if (exact >= 0 && !column?.edges) return exact;
  if (word === "" || column?.missing.includes(word)) return MISSING;
  const number = Number(word);
  if (column?.edges) return Number.isFinite(number) ? column.edges.filter((edge) => edge <= number).length : UNSEEN;
  const lower = word.toLowerCase();
  const same = labels.findIndex((label) =>
    typeof label === "boolean" ? lower === String(label) : typeof label === "number" && label === number,
  );
  return same >= 0 ? same : (column?.other ?? UNSEEN);
}
