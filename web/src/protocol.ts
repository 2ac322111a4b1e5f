// What the page and its worker say to each other, and what the page carries.

import type { Places } from "./plan";

export type Label = string | number | boolean;

export interface VariableText {
  edge: number;
  name: string;
  states: number | Label[];
  hidden?: boolean;
}

export interface CardPlace {
  edge: number;
  x: number;
  y: number;
  height?: number;
  factor?: string;
}

export interface GraphText {
  width: number;
  height: number;
  cards: CardPlace[];
  arcs: { ends: [number, number]; points: [number, number][] }[];
}

export interface WirePlace {
  edge: number;
  x: number;
  y: number;
  height?: number; // of its card, if it has one
  name?: string;
  states?: number | Label[];
  parts?: number[]; // the edges of the variables whose joint states its states are, the slowest first
}

export interface BlockPlace {
  kind: "source" | "factor" | "siso" | "diverter";
  number: number;
  x: number;
  y: number;
  width: number;
  height: number;
  from?: number; // the bar above that this one goes on with
}

/** A block by its kind and number; a Diverter that goes on below has several places. */
export function blockKey({ kind, number }: { kind: BlockPlace["kind"]; number: number }): string {
  return `${kind} ${number}`;
}

export interface FactorText {
  width: number;
  height: number;
  wire: { width: number; label: number; glyph: number; height: number };
  box: { width: number; height: number; bar: number };
  wires: WirePlace[];
  blocks: BlockPlace[];
  /** Lines between a wire and a block, which is a number in the list of blocks. */
  lines: { edge: number; block: number; points: [number, number][] }[];
}

/** What the page carries as JSON, beside the arrays of its model: element `model`. Format 1 is the same without `refined`, 2 without `weight`. */
export interface Document {
  format: number;
  title: string;
  kind: "bayesian" | "markov" | "network" | "estimator";
  source: string;
  logScale: number;
  arrays: Places;
  /** Whether the model is with the server that the page came from. */
  served?: boolean;
  /** Whether the network has loops: beliefs are then approximations. */
  loops?: boolean;
  variables: VariableText[];
  card: { width: number; head: number; row: number; foot: number; most: number };
  graph: GraphText;
  factor: FactorText | null;
  /** Columns of numbers that the model has and the page has not. */
  continuous: string[];
  /** Of an estimator: the variable it predicts, and how the values of its columns become states. */
  target?: string | null;
  columns?: ColumnText[];
  /** Of a classifier with networks that were refined for its class. */
  refined?: RefinedText | null;
  /** A table that is with the server. */
  table?: { name: string; columns: string[]; count: number } | null;
}

/**
 * The class of a classifier, by its edge, and how many networks predict it together instead of the one that is shown. They
 * have its Plan; the array `refined.values` has their parameters, one network after the other, and the Program `refined`
 * computes the messages of the class. They are not on a page that is served.
 */
export interface RefinedText {
  edge: number;
  networks: number;
  /** How much they count where values are missing, beside the network that is shown: as RefinedWeight in Python. */
  weight?: { usual: number; power: number };
}

export interface ColumnText {
  name: string;
  missing: string[];
  /** Of a column of numbers: where its bins end. */
  edges?: number[];
  /** The state of all values that are no state of their own, if they have one. */
  other?: number;
}

/** The weight of every state of an edge. */
export type Weights = readonly number[];
export type Given = readonly (readonly [number, Weights])[];

export interface Start {
  kind: "start";
  buffer: ArrayBuffer;
  places: Places;
  logScale: number;
  edges: number[];
  loops: boolean;
  refined: RefinedText | null;
}

export interface Ask {
  kind: "ask";
  id: number;
  given: Given;
  /** Whether all messages are wanted, too. */
  messages: boolean;
}

/** Both messages of every edge, each summing to one, and whether anything is known behind them. */
export interface AllMessages {
  forward: Float64Array[];
  backward: Float64Array[];
  knownForward: Uint8Array;
  knownBackward: Uint8Array;
}

export interface LoopRound extends AllMessages {
  change: number;
  changed: number;
}

export interface Answer {
  id: number;
  /** -Infinity for evidence that cannot be. */
  logLikelihood: number;
  /** By variable of the document, in order; of a class without evidence on it, what networks refined for it predict. */
  beliefs: Float64Array[];
  /** What the rest of the network that is shown says of each variable, without the evidence on it. */
  others: Float64Array[];
  /** Edges whose evidence cannot go together; empty if it can, or if the search would take too long. */
  conflict: number[];
  messages: AllMessages | null;
  /** On loops: how many rounds there were, whether messages came to rest, and what they were in each. */
  loops: { count: number; converged: boolean; rounds: LoopRound[] } | null;
  milliseconds: number;
}

/** What is asked beside beliefs: what speaks for a target, and what to ask next. */
export interface Study {
  kind: "study";
  id: number;
  given: Given;
  target: number; // an edge, or -1 for none
  /** How many of the likeliest assignments of all variables are wanted. */
  assignments: number;
  /** Whether the profiles of the target are wanted, too. */
  profiles: boolean;
}

export interface Studied {
  id: number;
  /** By variable of the document: the expected reduction of the entropy of the target, in bits, if it were observed. */
  gains: number[];
  /** The entropy of the target, in bits. */
  entropy: number;
  /** Of the target; null if too much is known, or if what is known is `impossible` by networks refined for it. */
  explanation: Explanation | null;
  impossible?: boolean;
  /** Assignments of all variables, the likeliest first. */
  likeliest: Assignment[];
  /** If wanted: by state of the target, the distribution of every variable of the document given that state alone. */
  profiles?: Profiles;
}

/** A state of every variable of the document, and the logarithm of the probability of all of them together. */
export interface Assignment {
  states: number[];
  logProbability: number;
}

export type Profiles = ArrayLike<number>[][];

/** What speaks for the likeliest state of the target, in nats of log-odds: prior + contributions = logOdds. */
export interface Explanation {
  state: number;
  probability: number;
  prior: number;
  contributions: [number, number][]; // by edge
  logOdds: number;
}

export interface Failure {
  id: number;
  error: string;
}
