// The interpreter: runs the steps of a Program in the log domain. A message is never normalised on the way, an exact
// zero is -Infinity, and an unknown backward message stands for ones (zeros here) and is skipped in products.

import type { Plan, Program } from "./plan";

const SOURCE = 0;
const FORWARD = 1;
const BACKWARD = 2;

/** A sum of terms relative to the largest that is below this may have lost some: it is made again, by itself. */
const DOUBTFUL = 1e-280;

/** The logarithm of the weight of every state, by edge. */
export type Evidence = Map<number, Float64Array>;

export function logSum(values: Float64Array): number {
  let most = -Infinity;
  for (const value of values) if (value > most) most = value;
  if (most === -Infinity) return most;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - most);
  return most + Math.log(sum);
}

/** exp(values), divided by their sum; all zeros if all are. */
export function distribution(values: Float64Array): Float64Array {
  const total = logSum(values);
  const out = new Float64Array(values.length);
  if (total !== -Infinity) for (let i = 0; i < values.length; i++) out[i] = Math.exp(values[i] - total);
  return out;
}

/** What does not depend on evidence: logarithms of all parameters, and room for products. */
export class Model {
  readonly logs: Float64Array;
  private readonly rooms: Float64Array[] = [];

  constructor(readonly plan: Plan) {
    this.logs = plan.values.map(Math.log);
  }

  /** A buffer of at least this size, the same for the same number. */
  room(number: number, size: number): Float64Array {
    const found = this.rooms[number];
    if (found && found.length >= size) return found;
    return (this.rooms[number] = new Float64Array(size));
  }
}

/** Messages that blocks read, as logarithms; an unknown backward one is zeros. */
export interface Before {
  forward: Float64Array;
  backward: Float64Array;
  knownForward: Uint8Array;
  knownBackward: Uint8Array;
}

/** All messages of one row of evidence, as logarithms. */
export class Messages {
  readonly forward: Float64Array;
  /** Backward messages without the evidence on their own edge. */
  readonly plain: Float64Array;
  /** Backward messages with it. */
  readonly backward: Float64Array;
  readonly knownForward: Uint8Array;
  readonly knownBackward: Uint8Array;
  /** Where blocks read: here, or in a parallel round the messages of the round before. */
  private readonly old: Before;
  private readonly plan: Plan;

  constructor(
    private readonly model: Model,
    private readonly evidence: Evidence,
    /** Take the largest where others add: messages are then those of the likeliest states of everything else. */
    private readonly largest = false,
    before: Before | null = null,
  ) {
    const plan = (this.plan = model.plan);
    const edges = plan.cardinality.length;
    const states = plan.offset[edges];
    this.forward = new Float64Array(states);
    this.plain = new Float64Array(states);
    this.backward = new Float64Array(states);
    this.knownForward = new Uint8Array(edges);
    this.knownBackward = new Uint8Array(edges);
    this.old = before ?? this;
    for (let edge = 0; edge < edges; edge++)
      if (!plan.driver[edge]) this.of(this.forward, edge).fill(-Math.log(plan.cardinality[edge]));
  }

  /** The part of an array of messages that belongs to an edge. */
  of(messages: Float64Array, edge: number): Float64Array {
    return messages.subarray(this.plan.offset[edge], this.plan.offset[edge + 1]);
  }

  run(program: Program): void {
    for (const edge of program.boundary) this.writeBackward(edge, null, this.largest);
    const { steps, targets } = program;
    for (let at = 0; at < steps.length; at += 4) {
      const kind = steps[at];
      const block = steps[at + 1];
      if (kind === SOURCE) this.source(block);
      else if (kind === FORWARD) this.sisoForward(block);
      else if (kind === BACKWARD) this.sisoBackward(block);
      else this.divert(block, targets.subarray(steps[at + 2], steps[at + 3]));
    }
  }

  /** The logarithm of the sum, over everything unknown, of the product of all tables and the evidence. */
  logLikelihood(program: Program): number {
    let total = 0;
    for (const edge of program.roots) total += this.largest ? Math.max(...this.belief(edge)) : logSum(this.belief(edge));
    return total;
  }

  /** The logarithm of forward times backward. */
  belief(edge: number): Float64Array {
    const backward = this.of(this.backward, edge);
    return this.of(this.forward, edge).map((value, state) => value + backward[state]);
  }

  /** The same without the evidence on the edge itself: what the rest of the network says of it. */
  others(edge: number): Float64Array {
    const plain = this.of(this.plain, edge);
    return this.of(this.forward, edge).map((value, state) => value + plain[state]);
  }

  private writeBackward(edge: number, message: Float64Array | null, known: boolean): void {
    const plain = this.of(this.plain, edge);
    const backward = this.of(this.backward, edge);
    const soft = this.evidence.get(edge);
    for (let state = 0; state < plain.length; state++) {
      plain[state] = message ? message[state] : 0;
      backward[state] = plain[state] + (soft ? soft[state] : 0);
    }
    this.knownBackward[edge] = known || soft ? 1 : 0;
  }

  /** What the block that reads an edge receives: forward times the evidence on it. */
  private intoReader(edge: number): Float64Array {
    const forward = this.of(this.old.forward, edge);
    const soft = this.evidence.get(edge);
    return soft ? forward.map((value, state) => value + soft[state]) : forward;
  }

  private knownInto(edge: number): boolean {
    return this.old.knownForward[edge] === 1 || this.evidence.has(edge);
  }

  private source(source: number): void {
    const edge = this.plan.sourceEdge[source];
    const first = this.plan.sourceAt[source];
    this.of(this.forward, edge).set(this.model.logs.subarray(first, first + this.plan.cardinality[edge]));
    this.knownForward[edge] = this.plan.isFactor[source];
  }

  /** f(out) = sum over the input of f(in) T(in, out). */
  private sisoForward(siso: number): void {
    const input = this.plan.sisoInput[siso];
    const output = this.plan.sisoOutput[siso];
    const { first, rows, columns } = this.tableOf(siso);
    sumProducts(this.model, this.intoReader(input), first, rows, columns, columns, 1, this.of(this.forward, output), this.largest);
    this.knownForward[output] = this.knownInto(input) ? 1 : 0;
  }

  /** b(in) = sum over the output of T(in, out) b(out); ones where nothing is known behind it. */
  private sisoBackward(siso: number): void {
    const input = this.plan.sisoInput[siso];
    const output = this.plan.sisoOutput[siso];
    const known = this.old.knownBackward[output] === 1;
    if (!known) return this.writeBackward(input, null, false);
    const { first, rows, columns } = this.tableOf(siso);
    const message = new Float64Array(rows);
    sumProducts(this.model, this.of(this.old.backward, output), first, columns, rows, 1, columns, message, this.largest);
    this.writeBackward(input, message, true);
  }

  private tableOf(siso: number): { first: number; rows: number; columns: number } {
    const table = this.plan.sisoTable[siso];
    const rows = this.plan.tableShape[2 * table];
    return { first: this.plan.tableOffset[table], rows, columns: this.plan.tableShape[2 * table + 1] };
  }

  /** The outgoing messages of a Diverter on some legs: the product of what comes in on all others, never a division. */
  private divert(diverter: number, targets: Int32Array): void {
    const { plan } = this;
    const size = plan.diverterSize[diverter];
    const begin = plan.legStart[diverter];
    const end = plan.legStart[diverter + 1];
    const known: boolean[] = [];
    for (let leg = begin; leg < end; leg++) {
      const edge = plan.legEdge[leg];
      known.push(plan.legIsInput[leg] ? this.knownInto(edge) : this.old.knownBackward[edge] === 1);
    }
    const tally = known.filter(Boolean).length;
    // From the left: before each target, the product of all legs before it.
    const before = new Map<number, Float64Array | null>();
    const last = targets[targets.length - 1];
    let running: Float64Array | null = null;
    for (let leg = begin, next = 0; leg <= last; leg++) {
      if (leg === targets[next]) {
        before.set(leg, leg < last && running ? running.slice(0, size) : running);
        next++;
      }
      if (leg < last) running = this.times(diverter, leg, known[leg - begin], running, 2);
    }
    // From the right, with one running product.
    let after: Float64Array | null = null;
    for (let leg = end - 1; leg >= targets[0]; leg--) {
      if (before.has(leg)) this.sendOut(diverter, leg, before.get(leg) ?? null, after, tally > Number(known[leg - begin]));
      if (leg > targets[0]) after = this.times(diverter, leg, known[leg - begin], after, 0);
    }
  }

  /** A product (null for ones) times what comes in on a leg; a new one is made in the room of this number. */
  private times(
    diverter: number,
    leg: number,
    known: boolean,
    product: Float64Array | null,
    room: number,
  ): Float64Array | null {
    const { plan } = this;
    const edge = plan.legEdge[leg];
    const isInput = plan.legIsInput[leg] === 1;
    if (!isInput && !known) return product;
    const message = isInput ? this.intoReader(edge) : this.of(this.old.backward, edge);
    const size = plan.diverterSize[diverter];
    const out = product ?? this.model.room(room, size);
    if (!product) out.fill(0, 0, size);
    const start = plan.legMap[leg];
    if (start < 0) {
      for (let cell = 0; cell < size; cell++) out[cell] += message[cell];
      return out;
    }
    const run = plan.diverterRun[diverter];
    const runs = size / run;
    const inner = plan.maps.subarray(start + runs, start + runs + run);
    for (let part = 0, cell = 0; part < runs; part++) {
      const base = plan.maps[start + part];
      for (let i = 0; i < run; i++, cell++) out[cell] += message[base + inner[i]];
    }
    return out;
  }

  private sendOut(
    diverter: number,
    leg: number,
    before: Float64Array | null,
    after: Float64Array | null,
    known: boolean,
  ): void {
    const { plan, model } = this;
    const edge = plan.legEdge[leg];
    const isInput = plan.legIsInput[leg] === 1;
    if (isInput && !known) return this.writeBackward(edge, null, false);
    const size = plan.diverterSize[diverter];
    let product = before ?? after;
    if (before && after) {
      product = model.room(1, size);
      for (let cell = 0; cell < size; cell++) product[cell] = before[cell] + after[cell];
    }
    if (!product) {
      product = model.room(1, size);
      product.fill(0, 0, size);
    }
    const message = isInput ? new Float64Array(plan.cardinality[edge]) : this.of(this.forward, edge);
    if (plan.legMap[leg] < 0) message.set(product.subarray(0, size));
    else this.sumTo(diverter, leg, product, message);
    if (isInput) this.writeBackward(edge, message, known);
    else this.knownForward[edge] = known ? 1 : 0;
  }

  /** Add the joint states that share a state of a leg, or take the largest of them. */
  private sumTo(diverter: number, leg: number, product: Float64Array, out: Float64Array): void {
    const { plan } = this;
    const size = plan.diverterSize[diverter];
    const run = plan.diverterRun[diverter];
    const runs = size / run;
    const start = plan.legMap[leg];
    const inner = plan.maps.subarray(start + runs, start + runs + run);
    if (this.largest) {
      out.fill(-Infinity);
      for (let part = 0, cell = 0; part < runs; part++)
        for (let i = 0; i < run; i++, cell++) {
          const state = plan.maps[start + part] + inner[i];
          if (product[cell] > out[state]) out[state] = product[cell];
        }
      return;
    }
    let most = -Infinity;
    for (let cell = 0; cell < size; cell++) if (product[cell] > most) most = product[cell];
    out.fill(0);
    if (most !== -Infinity)
      for (let part = 0, cell = 0; part < runs; part++) {
        const base = plan.maps[start + part];
        for (let i = 0; i < run; i++, cell++) {
          const value = product[cell];
          if (value !== -Infinity) out[base + inner[i]] += Math.exp(value - most);
        }
      }
    let doubtful = false;
    for (let state = 0; state < out.length; state++) {
      if (out[state] < DOUBTFUL) doubtful = true;
      out[state] = out[state] < DOUBTFUL ? -Infinity : most + Math.log(out[state]);
    }
    if (!doubtful || most === -Infinity) return;
    // States that are far below the largest, by a largest of their own.
    const largest = new Float64Array(out.length).fill(-Infinity);
    const sums = new Float64Array(out.length);
    for (let pass = 0; pass < 2; pass++)
      for (let part = 0, cell = 0; part < runs; part++) {
        const base = plan.maps[start + part];
        for (let i = 0; i < run; i++, cell++) {
          const state = base + inner[i];
          const value = product[cell];
          if (out[state] !== -Infinity || value === -Infinity) continue;
          if (pass) sums[state] += Math.exp(value - largest[state]);
          else if (value > largest[state]) largest[state] = value;
        }
      }
    for (let state = 0; state < out.length; state++)
      if (largest[state] !== -Infinity) out[state] = largest[state] + Math.log(sums[state]);
  }
}

/** out[j] = log sum over i of exp(message[i]) times the value at first + i * along + j * across, or the largest. */
function sumProducts(
  model: Model,
  message: Float64Array,
  first: number,
  terms: number,
  count: number,
  along: number,
  across: number,
  out: Float64Array,
  largest: boolean,
): void {
  const { values } = model.plan;
  if (largest) {
    out.fill(-Infinity);
    for (let j = 0; j < count; j++)
      for (let i = 0, at = first + j * across; i < terms; i++, at += along)
        out[j] = Math.max(out[j], message[i] + model.logs[at]);
    return;
  }
  let most = -Infinity;
  for (const value of message) if (value > most) most = value;
  out.fill(-Infinity);
  if (most === -Infinity) return;
  const weights = message.map((value) => Math.exp(value - most));
  for (let j = 0; j < count; j++) {
    let sum = 0;
    for (let i = 0, at = first + j * across; i < terms; i++, at += along) sum += weights[i] * values[at];
    if (sum >= DOUBTFUL) {
      out[j] = most + Math.log(sum);
      continue;
    }
    const parts = new Float64Array(terms);
    for (let i = 0, at = first + j * across; i < terms; i++, at += along) parts[i] = message[i] + model.logs[at];
    out[j] = logSum(parts);
  }
}
