// Evidence: the weight of every state of a variable, the largest of them 1. One alone is a value that was observed.

import type { Weights } from "./protocol";

export type Evidence = ReadonlyMap<number, Weights>;
export type EvidenceKind = "none" | "value" | "not" | "soft";

export function kindOf(weights: Weights | undefined): EvidenceKind {
  if (!weights) return "none";
  const some = weights.filter((weight) => weight > 0);
  if (some.length === 1) return "value";
  return some.every((weight) => weight === 1) ? "not" : "soft";
}

export function observed(weights: Weights | undefined): number {
  return kindOf(weights) === "value" ? weights!.findIndex((weight) => weight > 0) : -1;
}

export function withWeights(evidence: Evidence, edge: number, weights: Weights | null): Evidence {
  const next = new Map(evidence);
  const kept = weights && scaled(weights);
  // Weights that are all alike say nothing.
  if (!kept || kept.every((weight) => weight === 1)) next.delete(edge);
  else next.set(edge, kept);
  return next;
}

export function oneState(states: number, state: number): Weights {
  return Array.from({ length: states }, (_, other) => (other === state ? 1 : 0));
}

/** The same evidence without a state, or with it again; never without all of them. */
export function toggledNot(weights: Weights | undefined, states: number, state: number): Weights | null {
  const before = weights && kindOf(weights) !== "value" ? weights : oneState(states, -1).map(() => 1);
  const after = before.map((weight, other) => (other === state ? (weight > 0 ? 0 : 1) : weight));
  return after.some((weight) => weight > 0) ? after : null;
}

/**
 * Weights that bring the belief in a state to a share, the others keeping their proportions; null if none can.
 * `rest` is what all but the evidence on the variable says of it.
 */
export function weightsFor(rest: ArrayLike<number>, state: number, share: number): Weights | null {
  const own = rest[state];
  const other = 1 - own;
  if (share >= 1) return own > 0 ? oneState(rest.length, state) : null;
  if ((own <= 0 && share > 0) || (other <= 1e-12 && share < 1)) return null;
  return scaled(Array.from(rest, (_, at) => (at === state ? (share > 0 ? share / own : 0) : (1 - share) / other)));
}

function scaled(weights: Weights): Weights | null {
  const most = Math.max(...weights);
  if (!(most > 0) || !Number.isFinite(most)) return null;
  return weights.map((weight) => Number((weight / most).toPrecision(6)));
}
