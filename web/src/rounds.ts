// Parallel rounds for networks with loops: every block answers what reached it in the round before, until messages no
// longer change. Beliefs are then approximations, and so is the likelihood (that of Bethe).

import { distribution, logSum, Messages, type Evidence, type Model } from "./messages";
import type { Program } from "./plan";

const DAMPING = 0.5;
const TOLERANCE = 1e-9;
const MOST_ROUNDS = 500;

/** Numbers that are kept of all rounds, to be stepped through. */
const MOST_KEPT = 4e6;

/** All messages after a round, each summing to one. */
export interface Round {
  forward: Float64Array;
  backward: Float64Array;
  knownForward: Uint8Array;
  knownBackward: Uint8Array;
  /** The largest change of an entry in this round, before damping, and how many messages changed. */
  change: number;
  changed: number;
}

export interface Settled {
  last: Round;
  rounds: Round[]; // all of them, if they were asked for and are not too many
  count: number;
  converged: boolean;
  /** The last messages as the interpreter has them. */
  messages: Messages;
}

/** Rounds until nothing changes; `keep` all of them to be looked at. */
export function settled(model: Model, program: Program, evidence: Evidence, keep: boolean): Settled {
  let now = boundary(model, evidence);
  const rounds = keep ? [now] : [];
  let messages = new Messages(model, evidence);
  for (let count = 1; count <= MOST_ROUNDS; count++) {
    messages = new Messages(model, evidence, false, logarithms(model, now));
    messages.run(program);
    const next = damped(model, now, messages);
    if (keep && (count + 1) * 2 * next.forward.length <= MOST_KEPT) rounds.push(next);
    now = next;
    if (now.change <= TOLERANCE) return { last: now, rounds, count, converged: true, messages };
  }
  return { last: now, rounds, count: MOST_ROUNDS, converged: false, messages };
}

/** Round 0: priors and evidence are in place, every other message is uniform. */
function boundary({ plan }: Model, evidence: Evidence): Round {
  const edges = plan.cardinality.length;
  const states = plan.offset[edges];
  const round: Round = {
    forward: new Float64Array(states), backward: new Float64Array(states),
    knownForward: new Uint8Array(edges), knownBackward: new Uint8Array(edges), change: 0, changed: 0,
  };
  for (let edge = 0; edge < edges; edge++) {
    const [from, to] = [plan.offset[edge], plan.offset[edge + 1]];
    round.forward.fill(1 / plan.cardinality[edge], from, to);
    const soft = evidence.get(edge);
    round.backward.set(distribution(soft ?? new Float64Array(plan.cardinality[edge])), from);
    round.knownBackward[edge] = soft ? 1 : 0;
  }
  plan.sourceEdge.forEach((edge, source) => {
    const first = plan.sourceAt[source];
    round.forward.set(plan.values.subarray(first, first + plan.cardinality[edge]), plan.offset[edge]);
  });
  return round;
}

function logarithms({ plan }: Model, round: Round): Round {
  const backward = round.backward.map(Math.log);
  round.knownBackward.forEach((known, edge) => known || backward.fill(0, plan.offset[edge], plan.offset[edge + 1]));
  return { ...round, forward: round.forward.map(Math.log), backward };
}

function damped({ plan }: Model, now: Round, messages: Messages): Round {
  let change = 0;
  let changed = 0;
  const mixed = (old: Float64Array, logs: Float64Array): Float64Array => {
    const out = new Float64Array(old.length);
    plan.cardinality.forEach((_, edge) => {
      const next = distribution(messages.of(logs, edge));
      let most = 0;
      next.forEach((value, state) => {
        const before = old[plan.offset[edge] + state];
        most = Math.max(most, Math.abs(value - before));
        out[plan.offset[edge] + state] = DAMPING * before + (1 - DAMPING) * value;
      });
      change = Math.max(change, most);
      if (most > TOLERANCE) changed++;
    });
    return out;
  };
  const forward = mixed(now.forward, messages.forward);
  const backward = mixed(now.backward, messages.backward);
  const { knownForward, knownBackward } = messages;
  return { forward, backward, knownForward, knownBackward, change, changed };
}

/** Sum over blocks of log Z_block - sum over edges of log Z_edge. */
export function betheLogLikelihood(model: Model, evidence: Evidence, round: Round): number {
  const { plan } = model;
  const part = (values: Float64Array, edge: number): Float64Array => values.subarray(plan.offset[edge], plan.offset[edge + 1]);
  const dot = (one: ArrayLike<number>, other: ArrayLike<number>): number => {
    let sum = 0;
    for (let at = 0; at < one.length; at++) sum += one[at] * other[at];
    return sum;
  };
  const into = Array.from(plan.cardinality, (_, edge) => {
    const soft = evidence.get(edge);
    return part(round.forward, edge).map((value, state) => value * (soft ? Math.exp(soft[state]) : 1));
  });
  let total = 0;
  plan.cardinality.forEach((_, edge) => {
    if (!plan.driver[edge]) return;
    total -= Math.log(dot(part(round.forward, edge), part(round.backward, edge)));
    if (!plan.reader[edge]) total += Math.log(into[edge].reduce((sum, value) => sum + value, 0));
  });
  plan.sourceEdge.forEach((edge, source) => {
    const first = plan.sourceAt[source];
    total += Math.log(dot(plan.values.subarray(first, first + plan.cardinality[edge]), part(round.backward, edge)));
  });
  plan.sisoTable.forEach((table, siso) => {
    const [rows, columns] = [plan.tableShape[2 * table], plan.tableShape[2 * table + 1]];
    const back = part(round.backward, plan.sisoOutput[siso]);
    let sum = 0;
    for (let row = 0; row < rows; row++) {
      const first = plan.tableOffset[table] + row * columns;
      sum += into[plan.sisoInput[siso]][row] * dot(plan.values.subarray(first, first + columns), back);
    }
    total += Math.log(sum);
  });
  plan.diverterSize.forEach((size, diverter) => {
    const product = new Float64Array(size);
    for (let leg = plan.legStart[diverter]; leg < plan.legStart[diverter + 1]; leg++) {
      const edge = plan.legEdge[leg];
      const message = plan.legIsInput[leg] ? into[edge] : part(round.backward, edge);
      const [start, run] = [plan.legMap[leg], plan.diverterRun[diverter]];
      for (let cell = 0; cell < size; cell++) {
        const state = start < 0 ? cell : plan.maps[start + Math.floor(cell / run)] + plan.maps[start + size / run + (cell % run)];
        product[cell] += Math.log(message[state]);
      }
    }
    total += logSum(product);
  });
  return Number.isNaN(total) ? -Infinity : total;
}
