// A row of a table: a form with a field for every column, and a CSV file to walk through. Nothing leaves the browser.

import { Component } from "preact";
import { observed } from "./evidence";
import { differ, percent } from "./format";
import { text } from "./text";
import { stateOf } from "./table";
import type { ColumnText } from "./protocol";
import type { Store, Variable } from "./store";

export async function openFile(store: Store, file: File | null | undefined): Promise<void> {
  if (file) store.open(file.name, await file.text());
}

export class Row extends Component<{ store: Store }, { open: boolean }> {
  override state = { open: this.props.store.document.kind === "estimator" || !!this.props.store.document.table };

  override render({ store }: { store: Store }) {
    const { table, row } = store.seen;
    return (
      <details class="row" open={this.state.open} onToggle={(event) => this.setState({ open: event.currentTarget.open })}>
        <summary>{text.row}</summary>
        <p class="note">{text.rowHint}</p>
        <div class="rows">
          <label class="file">
            {text.openFile}
            <input type="file" accept=".csv,.tsv,.txt,text/csv" onChange={(event) => void openFile(store, event.currentTarget.files?.[0])} />
          </label>
          {table && (
            <>
              <button aria-label={text.previous} disabled={row === 0} onClick={() => void store.take(row - 1)}>‹</button>
              <span>{text.rowOf(row, table.count)}</span>
              <button aria-label={text.next} disabled={row + 1 >= table.count} onClick={() => void store.take(row + 1)}>›</button>
            </>
          )}
        </div>
        {table && table.count > 10 && (
          <label class="jump">
            {text.goToRow}
            <input type="number" min="0" max={table.count - 1} value={row} onChange={(event) => void store.take(Math.round(Number(event.currentTarget.value)))} />
          </label>
        )}
        {store.truth && <p class="note" dir="auto">{text.inFile(store.truth)}</p>}
        {this.state.open && <Form store={store} />}
      </details>
    );
  }
}

function Form({ store }: { store: Store }) {
  const { answer } = store.seen;
  const possible = answer && answer.logLikelihood > -Infinity;
  return (
    <div class="form">
      {store.variables.filter((one) => !one.hidden).map((one) => {
        const beliefs = possible ? answer.beliefs[one.number] : null;
        const best = beliefs ? beliefs.indexOf(Math.max(...beliefs)) : -1;
        const expected = beliefs ? text.expected(one.states[best], percent(beliefs[best])) : text.unknown;
        const column = store.document.columns?.find((each) => each.name === one.name);
        return <Field key={one.number} store={store} variable={one} column={column} state={observed(store.weights(one))} expected={expected} />;
      })}
    </div>
  );
}

interface FieldProps {
  store: Store;
  variable: Variable;
  column: ColumnText | undefined;
  state: number; // that is known, or -1
  expected: string;
}

class Field extends Component<FieldProps, { typed: string }> {
  override state = { typed: "" };
  private draft: string | null = null; // what is being typed and not entered yet: an answer that comes meanwhile leaves it alone
  private shown = ""; // the number in the field before that

  override shouldComponentUpdate(next: FieldProps, state: { typed: string }): boolean {
    return differ(this.props, next) || state.typed !== this.state.typed;
  }

  private type = (event: { currentTarget: HTMLInputElement }): void => {
    this.draft = event.currentTarget.value;
  };

  /** Take what was typed as a number of a column that is divided into bins; what is no number is as if nothing had been typed. */
  private enter = (): void => {
    const { store, variable, column } = this.props;
    const typed = this.draft;
    this.draft = null;
    if (typed === null || typed === this.shown) return;
    this.shown = typed;
    this.setState({ typed });
    const found = stateOf(typed, variable.labels, column);
    if (found < 0) store.takeBack(variable);
    else if (found !== observed(store.weights(variable))) store.toggle(variable, found);
  };

  private key = (event: { key: string }): void => {
    if (event.key === "Enter") this.enter();
  };

  private choose = (event: { currentTarget: HTMLSelectElement }): void => {
    const { store, variable, state } = this.props;
    const chosen = Number(event.currentTarget.value);
    if (chosen < 0) store.takeBack(variable);
    else if (chosen !== state) store.toggle(variable, chosen);
  };

  override render({ store, variable, column, state, expected }: FieldProps, { typed }: { typed: string }) {
    const now = observed(store.weights(variable)); // newer than `state` if a number was entered a moment ago
    this.shown = typed && stateOf(typed, variable.labels, column) === now ? typed : "";
    return (
      <label class={column?.edges ? "binned" : ""}>
        <span dir="auto" title={variable.title}>{variable.title}</span>
        {column?.edges && <input type="text" inputMode="decimal" value={this.draft ?? this.shown} placeholder={text.number} aria-label={text.typeNumber(variable.title)} onInput={this.type} onKeyDown={this.key} onBlur={this.enter} />}
        <select aria-label={variable.title} class={state < 0 ? "open" : ""} value={state} onChange={this.choose}>
          <option value={-1}>{expected}</option>
          {variable.states.map((name, at) => <option key={at} value={at}>{name}</option>)}
        </select>
      </label>
    );
  }
}
