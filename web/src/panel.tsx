// Beside the drawing: the selected variable with all its states, the evidence, and what can be shared.

import { Component } from "preact";
import { kindOf, observed } from "./evidence";
import { percent, readable } from "./format";
import { Row } from "./row";
import { Target } from "./target";
import { Inside } from "./inside";
import { commandLine, predictionLine, pythonLine } from "./share";
import { text } from "./text";
import type { Store, Variable } from "./store";

export interface Sharing {
  picture: (kind: "svg" | "png") => void;
}

export function Panel({ store, sharing, reveal }: { store: Store; sharing: Sharing; reveal: (v: Variable) => void }) {
  const { selected, answer } = store.seen;
  const loops = answer?.loops;
  const rows = store.document.kind === "estimator"; // its rows come first
  return (
    <aside class={`panel ${selected >= 0 || store.seen.chosen ? "open" : ""}`} aria-label={text.evidence}>
      {loops && <p class="note loops">{text.loops(loops.count, loops.converged)}</p>}
      {store.document.continuous.length > 0 && <p class="note" dir="auto">{text.continuous(store.document.continuous.map(readable))}</p>}
      <Refined store={store} />
      {store.seen.chosen && <Inside store={store} />}
      {selected >= 0 && <Detail store={store} variable={store.variables[selected]} />}
      {!rows && <Known store={store} reveal={reveal} />}
      {!store.document.loops && <Target store={store} reveal={reveal} />}
      <Row store={store} />
      {rows && <Known store={store} reveal={reveal} />}
      <Share store={store} sharing={sharing} />
      <p class="note">{store.document.served ? text.served : text.localOnly}</p>
    </aside>
  );
}

/** Where the probabilities of a class come from, if not from the network that is shown. */
function Refined({ store }: { store: Store }) {
  const { refined } = store.document;
  const variable = refined && store.byEdge.get(refined.edge);
  if (!refined || !variable) return null;
  const said = store.weights(variable) ? text.refinedKnown(variable.title) : text.refined(variable.title, refined.networks, !!refined.weight);
  return <p class="note refined" dir="auto">{said}</p>;
}

function Detail({ store, variable }: { store: Store; variable: Variable }) {
  const { answer, before, changes } = store.seen;
  const weights = store.weights(variable);
  const impossible = answer?.logLikelihood === -Infinity;
  const beliefs = answer && !impossible ? answer.beliefs[variable.number] : null;
  const old = changes && before ? before.beliefs[variable.number] : null;
  const kind = kindOf(weights);
  return (
    <section class="detail">
      <header>
        <h2 dir="auto">{variable.title}</h2>
        <button class="quiet" onClick={() => store.select(-1)} aria-label={text.close} title={text.close}>
          ×
        </button>
      </header>
      {variable.hidden && <p class="tag">{text.hidden}</p>}
      <table>
        <thead>
          <tr>
            <th>{text.state}</th>
            <th class="number">{text.belief}</th>
            {old && <th class="number">{text.before}</th>}
            <th>{text.evidence}</th>
          </tr>
        </thead>
        <tbody>
          {variable.states.map((name, state) => (
            <tr key={state}>
              <th scope="row" dir="auto">{name}</th>
              <td class="number">{beliefs ? percent(beliefs[state]) : "–"}</td>
              {old && <td class="number faint">{percent(old[state])}</td>}
              <td class="acts">
                <button
                  aria-pressed={observed(weights) === state}
                  aria-label={text.isHint(variable.title, name)}
                  onClick={() => store.toggle(variable, state)}
                >
                  {text.is}
                </button>
                <button
                  aria-pressed={kind !== "value" && weights?.[state] === 0}
                  aria-label={text.notHint(variable.title, name)}
                  onClick={() => store.toggleNot(variable, state)}
                >
                  {text.not}
                </button>
                <input
                  type="range"
                  min="0"
                  max="100"
                  value={Math.round((weights ? weights[state] : 1) * 100)}
                  aria-label={text.weightHint(variable.title, name)}
                  title={text.weight}
                  onChange={(event) => store.weigh(variable, state, Number(event.currentTarget.value) / 100)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {kind !== "none" && (
        <button class="wide" onClick={() => store.takeBack(variable)}>
          {text.takeBack(store.said(variable))}
        </button>
      )}
    </section>
  );
}

function Known({ store, reveal }: { store: Store; reveal: (v: Variable) => void }) {
  const known = store.variables.filter((variable) => store.seen.evidence.has(variable.edge));
  return (
    <section class="known">
      <h2>{text.evidence}</h2>
      {!known.length && <p class="note">{text.nothingKnown}</p>}
      <ul>
        {known.map((variable) => (
          <li key={variable.number} class={kindOf(store.weights(variable))}>
            <button class="said" dir="auto" onClick={() => (store.select(variable.number), reveal(variable))}>
              {store.said(variable)}
            </button>
            <button class="quiet" aria-label={text.takeBack(store.said(variable))} title={text.clearOne} onClick={() => store.takeBack(variable)}>
              ×
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

class Share extends Component<{ store: Store; sharing: Sharing }, { copied: string }> {
  override state = { copied: "" };

  private async copy(name: string, value: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      // Without a secure context: through a field, as browsers did before.
      const field = document.createElement("textarea");
      field.value = value;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    this.setState({ copied: name });
    setTimeout(() => this.setState({ copied: "" }), 1500);
  }

  override render({ store, sharing }: { store: Store; sharing: Sharing }) {
    const lines: [string, string | null][] = [
      [text.python, pythonLine(store)],
      [text.pythonClass(store.variables[store.predicted]?.title ?? ""), predictionLine(store)],
      [text.command, commandLine(store)],
    ];
    return (
      <details class="share">
        <summary>{text.share}</summary>
        <div class="buttons">
          <button onClick={() => void this.copy(text.link, store.address.write())}>
            {this.state.copied === text.link ? text.copied : text.link}
          </button>
          <button onClick={() => sharing.picture("svg")}>SVG</button>
          <button onClick={() => sharing.picture("png")}>PNG</button>
        </div>
        {lines.map(
          ([name, line]) =>
            line && (
              <div key={name} class="line">
                <span>{name}</span>
                <button class="quiet" onClick={() => void this.copy(name, line)}>
                  {this.state.copied === name ? text.copied : text.copy}
                </button>
                <code>{line}</code>
              </div>
            ),
        )}
      </details>
    );
  }
}
