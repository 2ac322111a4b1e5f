// The state of the page in its address, after the #: e=NAME,STATE for every piece of evidence, s=NAME for the selection,
// t=NAME for the target, f=NAME for a card or wire that others are folded into, w=NAME for a wire that is looked at and
// b=KIND,NUMBER for a block, m=NUMBER for the message up to which they are stepped through. A wire without a variable is
// known by the number of its edge.

import { type Evidence, kindOf, observed, withWeights, oneState } from "./evidence";
import type { Chosen, Store, Variable, View } from "./store";

function called(variable: Variable): string {
  try {
    return encodeURIComponent(variable.name);
  } catch {
    return `%23${variable.number}`; // a name that is no proper text: by its number
  }
}

function wireCalled(store: Store, edge: number): string {
  const variable = store.byEdge.get(edge);
  return variable ? called(variable) : `%23edge${edge}`;
}

/** Changes of the address within ten seconds; browsers refuse many more. */
const MOST_WRITTEN = 20;

/** The address of the page, which says what the page shows. */
export class Address {
  private written: number[] = []; // when, of late
  private writing: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly store: Store) {}

  /** Write what has changed: at once, or a second later if much has. */
  changed(): void {
    const now = performance.now();
    this.written = this.written.filter((time) => time > now - 10_000);
    if (this.written.length < MOST_WRITTEN) this.write();
    else this.writing ??= setTimeout(() => this.write(), 1000);
  }

  /** Write it now; returns the whole of it. */
  write(): string {
    if (this.writing) clearTimeout(this.writing);
    this.writing = null;
    this.written.push(performance.now());
    try {
      history.replaceState(null, "", addressOf(this.store));
    } catch {
      // a frame without an address of its own
    }
    return location.href;
  }
}

function addressOf(store: Store): string {
  const { evidence, changes, selected, view, target, folded, chosen, step } = store.seen;
  const parts = store.variables.flatMap((variable) => {
    const weights = evidence.get(variable.edge);
    if (!weights) return [];
    const value = kindOf(weights) === "value" ? String(observed(weights)) : weights.join(":");
    return [`e=${called(variable)},${value}`];
  });
  if (selected >= 0) parts.push(`s=${called(store.variables[selected])}`);
  if (target >= 0) parts.push(`t=${called(store.variables[target])}`);
  if (view === "factor") parts.push("v=factor");
  for (const edge of [...folded].sort((a, b) => a - b)) parts.push(`f=${wireCalled(store, edge)}`);
  if (chosen?.kind === "wire") parts.push(`w=${wireCalled(store, chosen.edge)}`);
  if (chosen?.kind === "block") parts.push(`b=${chosen.block.kind},${chosen.block.number}`);
  if (step !== null) parts.push(`m=${step}`);
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
  chosen: Chosen | null;
  step: number | null;
}

/** What an address says; what is in it and not in the model is left out. */
export function readAddress(address: string, store: Store): Said {
  const said: Said = {
    evidence: new Map(), changes: true, selected: -1, view: "graph", target: store.seen.target, folded: new Set(), chosen: null, step: null,
  };
  const { factor } = store.document;
  const names = new Map(store.variables.map((variable) => [called(variable), variable]));
  for (const part of address.replace(/^#/, "").split("&")) {
    const [key, value = ""] = part.split(/=(.*)/s);
    if (key === "c") said.changes = value !== "0";
    if (key === "v" && value === "factor" && factor) said.view = "factor";
    if (key === "t") said.target = names.get(value)?.number ?? said.target;
    if (key === "s") said.selected = names.get(value)?.number ?? -1;
    if (key === "f" || key === "w") {
      const edge = names.get(value)?.edge ?? factor?.wires.find((wire) => wireCalled(store, wire.edge) === value)?.edge;
      if (edge !== undefined && key === "f") said.folded.add(edge);
      if (edge !== undefined && key === "w") said.chosen = { kind: "wire", edge };
    }
    if (key === "b") {
      const block = factor?.blocks.find((one) => `${one.kind},${one.number}` === value);
      if (block) said.chosen = { kind: "block", block };
    }
    if (key === "m" && /^\d+$/.test(value)) said.step = Number(value);
    if (key !== "e") continue;
    const [name, told = ""] = value.split(",");
    const variable = names.get(name);
    const weights = variable && weightsFrom(told, variable.states.length);
    if (variable && weights) said.evidence = withWeights(said.evidence, variable.edge, weights);
  }
  return said.view === "factor" ? said : { ...said, chosen: null, step: null };
}

function weightsFrom(told: string, states: number): readonly number[] | null {
  if (/^\d+$/.test(told)) return Number(told) < states ? oneState(states, Number(told)) : null;
  const weights = told.split(":").map(Number);
  const fine = weights.length === states && weights.every((weight) => weight >= 0 && Number.isFinite(weight));
  return fine && weights.some((weight) => weight > 0) ? weights : null;
}
