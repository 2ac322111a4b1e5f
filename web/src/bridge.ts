// A page in the frame of a notebook: evidence comes from the widget around it, and what is believed goes there.

import { withWeights, type Evidence } from "./evidence";
import type { Store } from "./store";

interface Told {
  kind: "fgrn-given";
  given: [number, number[]][]; // weights by the number of a variable
}

export function bridge(store: Store): void {
  if (parent === window) return;
  let last = "";
  const tell = (): void => {
    const { answer, busy, evidence } = store.seen;
    if (!answer || busy) return;
    const given = store.variables.filter((one) => evidence.has(one.edge)).map((one) => [one.number, evidence.get(one.edge)]);
    const possible = answer.logLikelihood > -Infinity;
    const said = { kind: "fgrn-believed", given, beliefs: answer.beliefs.map((one) => [...one]), logLikelihood: possible ? answer.logLikelihood : null };
    const key = JSON.stringify(said);
    if (key !== last) parent.postMessage(said, "*");
    last = key;
  };
  const { changed } = store;
  store.changed = () => (changed(), tell());
  addEventListener("message", (event: MessageEvent<Told>) => {
    if (event.source !== parent || event.data?.kind !== "fgrn-given") return;
    let evidence: Evidence = new Map();
    for (const [number, weights] of event.data.given) {
      const variable = store.variables[number];
      if (variable && weights.length === variable.states.length) evidence = withWeights(evidence, variable.edge, weights);
    }
    const same = JSON.stringify(store.given(evidence)) === JSON.stringify(store.given(store.seen.evidence));
    if (!same) void store.give(evidence);
  });
  parent.postMessage({ kind: "fgrn-ready" }, "*");
}
