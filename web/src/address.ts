// The state of the page in its address, after the #: e=NAME,STATE for every piece of evidence, s=NAME for the selection,
// t=NAME for the target, f=NAME for a card that others are folded into.

import { type Evidence, kindOf, observed, withWeights, oneState } from "./evidence";
import type { Store, Variable, View } from "./store";

function called(variable: Variable): string {
  try {
    return encodeURIComponent(variable.name);
  } catch {
    return `%23${variable.number}`; // a name that is no proper text: by its number
  }
}

export function addressOf(store: Store): string {
  const { evidence, changes, selected, view, target, folded } = store.seen;
  const parts = store.variables.flatMap((variable) => {
    const weights = evidence.get(variable.edge);
    if (!weights) return [];
    const value = kindOf(weights) === "value" ? String(observed(weights)) : weights.join(":");
    return [`e=${called(variable)},${value}`];
  });
  if (selected >= 0) parts.push(`s=${called(store.variables[selected])}`);
  if (target >= 0) parts.push(`t=${called(store.variables[target])}`);
  if (view === "factor") parts.push("v=factor");
  for (const one of store.variables) if (folded.has(one.edge)) parts.push(`f=${called(one)}`);
  if (!changes) parts.push("c=0");
  return parts.length ? `#${parts.join("&")}` : location.pathname + location.search;
}

interface Said {
  evidence: Evidence;
  changes: boolean;
  selected: number;
  view: View;
  target: number;
  folded: Set<number>;
}

/** What an address says; what is in it and not in the model is left out. */
export function readAddress(address: string, store: Store): Said {
  const said: Said = { evidence: new Map(), changes: true, selected: -1, view: "graph", target: store.seen.target, folded: new Set() };
  const names = new Map(store.variables.map((variable) => [called(variable), variable]));
  for (const part of address.replace(/^#/, "").split("&")) {
    const [key, value = ""] = part.split(/=(.*)/s);
    if (key === "c") said.changes = value !== "0";
    if (key === "v" && value === "factor" && store.document.factor) said.view = "factor";
    if (key === "t") said.target = names.get(value)?.number ?? said.target;
    if (key === "s") said.selected = names.get(value)?.number ?? -1;
    if (key === "f" && store.groups.has(names.get(value)?.edge ?? -1)) said.folded.add(names.get(value)!.edge);
    if (key !== "e") continue;
    const [name, told = ""] = value.split(",");
    const variable = names.get(name);
    const weights = variable && weightsFrom(told, variable.states.length);
    if (variable && weights) said.evidence = withWeights(said.evidence, variable.edge, weights);
  }
  return said;
}

function weightsFrom(told: string, states: number): readonly number[] | null {
  if (/^\d+$/.test(told)) return Number(told) < states ? oneState(states, Number(told)) : null;
  const weights = told.split(":").map(Number);
  const fine = weights.length === states && weights.every((weight) => weight >= 0 && Number.isFinite(weight));
  return fine && weights.some((weight) => weight > 0) ? weights : null;
}
