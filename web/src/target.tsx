// What is asked of one variable: why it is believed to be as it is, what to ask next, and the likeliest states of all.

import { Component } from "preact";
import { percent, probability, signed } from "./format";
import { Nearest } from "./profiles";
import { text } from "./text";
import type { Assignment, Explanation } from "./protocol";
import type { Store, Variable } from "./store";

const MOST_LINES = 12;

export function Target({ store, reveal }: { store: Store; reveal: (v: Variable) => void }) {
  const { target, studied } = store.seen;
  const variable = target >= 0 ? store.variables[target] : null;
  return (
    <section class="target">
      <label>
        <h2>{text.target}</h2>
        <select value={target} onChange={(event) => store.aim(Number(event.currentTarget.value))}>
          <option value={-1}>{text.noTarget}</option>
          <Names store={store} />
        </select>
      </label>
      {!variable && <p class="note">{text.targetHint}</p>}
      {variable && studied && (
        <>
          {studied.explanation ? (
            <Fall store={store} variable={variable} explanation={studied.explanation} />
          ) : (
            <p class="note" dir="auto">{studied.impossible ? text.impossibleForClass(variable.title) : text.tooManyKnown(store.seen.evidence.size)}</p>
          )}
          <Nearest store={store} />
          <Next store={store} reveal={reveal} />
        </>
      )}
      <Likeliest store={store} />
    </section>
  );
}

/** An option for every variable, drawn once: names do not change. */
export class Names extends Component<{ store: Store }> {
  override shouldComponentUpdate(): boolean {
    return false;
  }

  override render({ store }: { store: Store }) {
    return store.variables.map((one) => <option key={one.number} value={one.number}>{one.title}</option>);
  }
}

function Fall({ store, variable, explanation }: { store: Store; variable: Variable; explanation: Explanation }) {
  const { state, prior, contributions, logOdds, probability: share } = explanation;
  const ranked = [...contributions].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  let at = prior;
  const lines: [string, number, number, number][] = [[text.baseline, 0, prior, prior]];
  for (const [edge, value] of ranked) {
    lines.push([store.said(store.byEdge.get(edge)!), at, at + value, value]);
    at += value;
  }
  lines.push([text.total, 0, logOdds, logOdds]);
  const ends = lines.flatMap(([, from, to]) => [from, to]);
  const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const place = (value: number): number => (90 * (value - least)) / Math.max(most - least, 1e-9);
  return (
    <>
      <h3 dir="auto">{text.why(`${variable.title} = ${variable.states[state]} (${percent(share)})`)}</h3>
      <div class="fall">
        {lines.map(([name, from, to, value], number) => {
          const last = number === lines.length - 1 ? "total" : "";
          return [
            <span class={last} dir="auto" title={name}>{name}</span>,
            <svg viewBox="0 0 90 14" aria-hidden="true">
              <path class="zero" d={`M${place(0)} 0v14`} />
              <rect class={value < 0 ? "against" : "for"} x={Math.min(place(from), place(to))} y="2" width={Math.max(1, Math.abs(place(to) - place(from)))} height="10" rx="2" />
            </svg>,
            <span class={`number ${last}`} data-adds={value}>{value > 0 ? "+" : ""}{signed(Number(value.toFixed(3)), 6)}</span>,
          ];
        })}
      </div>
    </>
  );
}

function Next({ store, reveal }: { store: Store; reveal: (v: Variable) => void }) {
  const { studied, target, evidence } = store.seen;
  if (!studied) return null;
  const open = store.variables.filter((one) => one.number !== target && !evidence.has(one.edge) && !one.hidden);
  const ranked = open.map((one) => ({ one, gain: Math.max(0, studied.gains[one.number]) })).sort((a, b) => b.gain - a.gain);
  const most = Math.max(ranked[0]?.gain ?? 0, 1e-12);
  if (!ranked.length) return null;
  return (
    <>
      <h3 title={text.askHint(signed(studied.entropy, 3))}>{text.askNext}</h3>
      <div class="fall next">
        {ranked.slice(0, MOST_LINES).map(({ one, gain }) => [
          <button dir="auto" title={one.title} data-gain={gain} onClick={() => (store.select(one.number), reveal(one))}>{one.title}</button>,
          <svg viewBox="0 0 90 14" aria-hidden="true"><rect class="gain" y="2" width={(90 * gain) / most} height="10" rx="2" /></svg>,
          <span class="number">{gain < 0.0005 ? "0" : gain.toFixed(3)}</span>,
        ])}
      </div>
    </>
  );
}

/** The likeliest assignments of all variables: the first, and those that follow by where they differ from it. */
function Likeliest({ store }: { store: Store }) {
  const { studied, evidence } = store.seen;
  const [first, ...others] = studied?.likeliest ?? [];
  const unknown = store.variables.filter((one) => !evidence.has(one.edge));
  const said = (one: Assignment): string => probability(one.logProbability - (store.prior?.logLikelihood ?? 0));
  return (
    <details class="likeliest" onToggle={(event) => store.assign(event.currentTarget.open)}>
      <summary>{text.likeliest}</summary>
      {first && (
        <>
          <p class="note">{text.likeliestHint(said(first))}</p>
          <div class="states">
            {unknown.map((one) => [
              <span dir="auto" title={one.title}>{one.title}</span>,
              <span dir="auto">{one.states[first.states[one.number]]}</span>,
            ])}
          </div>
        </>
      )}
      {others.length > 0 && (
        <>
          <p class="note">{text.likeliestNext}</p>
          <dl class="others">
            {others.map((other, at) => (
              <div key={at}>
                <dt>{said(other)}</dt>
                <dd dir="auto">{unknown.filter(({ number }) => other.states[number] !== first.states[number]).map((one) => `${one.title} = ${one.states[other.states[one.number]]}`).join(", ")}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </details>
  );
}
