// Which profiles of the target are nearest to a row: a profile is the distribution of every variable given one state.

import { kindOf } from "./evidence";
import { percent, signed } from "./format";
import { text } from "./text";
import type { Store, Variable } from "./store";

/** Profiles that are listed. */
const MOST = 5;

interface Profile {
  state: number;
  /** The mean over known variables of -log2 of the probability that the profile gives to what is known. */
  surprise: number;
  lines: Line[];
}

interface Line {
  variable: Variable;
  likeliest: number;
  share: number;
  agrees: boolean; // what is known is the likeliest state of the profile
}

/** The profiles of the target, the nearest first; none without anything known. */
export function nearestProfiles(store: Store): Profile[] {
  const { target, evidence } = store.seen;
  const known = store.variables.filter((one) => one.number !== target && !one.hidden && evidence.has(one.edge));
  if (!known.length || store.profiles?.target !== target) return [];
  const found = store.profiles.byState.map((profile, state) => {
    let bits = 0;
    const lines = known.map((variable): Line => {
      const shares = Array.from(profile[variable.number]);
      const weights = store.weights(variable)!;
      bits -= Math.log2(shares.reduce((sum, share, at) => sum + share * weights[at], 0));
      const likeliest = shares.indexOf(Math.max(...shares));
      return { variable, likeliest, share: shares[likeliest], agrees: weights[likeliest] === 1 };
    });
    return { state, surprise: bits / known.length, lines };
  });
  return found.sort((a, b) => a.surprise - b.surprise).slice(0, MOST);
}

export function Nearest({ store }: { store: Store }) {
  const found = nearestProfiles(store);
  if (!found.length) return null;
  const target = store.variables[store.seen.target];
  return (
    <>
      <h3 title={text.nearestHint}>{text.nearest}</h3>
      {found.map(({ state, surprise, lines }) => (
        <details key={state} class="profile">
          <summary dir="auto">
            {target.states[state]}: <span class="bits">{surprise === Infinity ? text.impossibleHere : signed(Number(surprise.toFixed(3)), 6)}</span>,{" "}
            {text.agrees(lines.filter((one) => one.agrees).length, lines.length)}
          </summary>
          <div class="states">
            {[...lines].sort((a, b) => Number(a.agrees) - Number(b.agrees)).map(({ variable, likeliest, share, agrees }) => [
              <span dir="auto" title={variable.title}>{variable.title}</span>,
              <span dir="auto" title={store.said(variable)}>{ownValue(store, variable)}</span>,
              <span dir="auto" class={agrees ? "" : "unlike"}>{variable.states[likeliest]} {percent(share)}</span>,
            ])}
          </div>
        </details>
      ))}
    </>
  );
}

function ownValue(store: Store, variable: Variable): string {
  const weights = store.weights(variable)!;
  if (kindOf(weights) === "soft") return `~ ${text.softState}`;
  return variable.states.filter((_, state) => weights[state] > 0).join(", ");
}
