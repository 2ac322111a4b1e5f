// A row of a table: a form with a field for every column, and a CSV file to walk through. Nothing leaves the browser.

import { observed } from "./evidence";
import { percent } from "./format";
import { text } from "./text";
import type { Store } from "./store";

export async function openFile(store: Store, file: File | null | undefined): Promise<void> {
  if (file) store.open(file.name, await file.text());
}

export function Row({ store }: { store: Store }) {
  const { table, row, answer } = store.seen;
  const columns = store.variables.filter((one) => !one.hidden);
  return (
    <details class="row" open={store.document.kind === "estimator"}>
      <summary>{text.row}</summary>
      <p class="note">{text.rowHint}</p>
      <div class="rows">
        <label class="file">
          {text.openFile}
          <input type="file" accept=".csv,.tsv,.txt,text/csv" onChange={(event) => void openFile(store, event.currentTarget.files?.[0])} />
        </label>
        {table && (
          <>
            <button aria-label={text.previous} disabled={row === 0} onClick={() => store.take(row - 1)}>‹</button>
            <span>{text.rowOf(row + 1, table.rows.length)}</span>
            <button aria-label={text.next} disabled={row + 1 >= table.rows.length} onClick={() => store.take(row + 1)}>›</button>
          </>
        )}
      </div>
      {store.truth && <p class="note" dir="auto">{text.inFile(store.truth)}</p>}
      <div class="form">
        {columns.map((one) => {
          const state = observed(store.weights(one));
          const beliefs = answer && answer.logLikelihood > -Infinity ? answer.beliefs[one.number] : null;
          const best = beliefs ? beliefs.indexOf(Math.max(...beliefs)) : -1;
          const open = best >= 0 && beliefs ? text.expected(one.states[best], percent(beliefs[best])) : text.unknown;
          return (
            <label key={one.number}>
              <span dir="auto" title={one.title}>{one.title}</span>
              <select
                aria-label={one.title}
                class={state < 0 ? "open" : ""}
                value={state}
                onChange={(event) => {
                  const chosen = Number(event.currentTarget.value);
                  if (chosen < 0) store.takeBack(one);
                  else if (chosen !== state) store.toggle(one, chosen);
                }}
              >
                <option value={-1}>{open}</option>
                {one.states.map((name, at) => <option key={at} value={at}>{name}</option>)}
              </select>
            </label>
          );
        })}
      </div>
    </details>
  );
}
