// The worker: holds the model, and answers what is believed given some evidence.

import { distribution, Messages, Model, type Evidence } from "./messages";
import { betheLogLikelihood, settled, type Round } from "./rounds";
import { ordersOf, planOf, programOf, type Program } from "./plan";
import { RefinedClass } from "./refined";
import type { AllMessages, Answer, Ask, Assignment, Explanation, Failure, Given, Start, Studied, Study } from "./protocol";

/** A smaller probability counts as this one: a state that is ruled out has finite odds. */
const FAINTEST = 1e-300;

/** Known values times cells that a search for a conflict may visit. */
const MOST_WORK = 2e8;

/** Assignments that some evidence allows: the likeliest of them, and the max-marginals of every variable. */
interface Allowed extends Assignment {
  evidence: Evidence;
  marginals: Float64Array[];
}

class Inference {
  private readonly model: Model;
  private readonly beliefs!: Program;
  private readonly inward!: Program;
  private readonly refined: RefinedClass | null = null;
  private whole: Program | null = null;

  constructor(private readonly start: Start) {
    this.model = new Model(planOf(start.buffer, start.places));
    if (start.loops) return;
    this.beliefs = programOf(start.buffer, start.places, "beliefs");
    this.inward = programOf(start.buffer, start.places, "inward");
    if (start.refined) this.refined = new RefinedClass(this.model, start.refined, start);
  }

  answer(asked: Ask): Answer {
    return this.start.loops ? this.settledAnswer(asked) : this.sweptAnswer(asked);
  }

  /** What parallel rounds end in, on loops. */
  private settledAnswer({ id, given, messages: wanted }: Ask): Answer {
    const begin = performance.now();
    const evidence = evidenceOf(given);
    const { last, rounds, count, converged, messages } = settled(this.model, this.round, evidence, wanted);
    const all = Array.from(this.model.plan.cardinality, (_, edge) => edge);
    const of = (values: Float64Array): Float64Array[] => all.map((edge) => messages.of(values, edge).slice());
    const shown = (one: Round): AllMessages => ({ ...one, forward: of(one.forward), backward: of(one.backward) });
    const [forward, backward] = [of(last.forward), of(last.backward)];
    const product = (one: Float64Array, other: Float64Array): Float64Array => {
      const out = one.map((value, state) => value * other[state]);
      const total = out.reduce((sum, value) => sum + value, 0);
      return out.map((value) => (total > 0 ? value / total : 0));
    };
    const { edges } = this.start;
    return {
      id,
      logLikelihood: betheLogLikelihood(this.model, evidence, last) + this.start.logScale,
      beliefs: edges.map((edge) => product(forward[edge], backward[edge])),
      others: edges.map((edge) => product(forward[edge], distribution(messages.of(messages.plain, edge)))),
      conflict: [],
      messages: wanted ? shown(last) : null,
      loops: { count, converged, rounds: rounds.map((one) => ({ ...shown(one), change: one.change, changed: one.changed })) },
      milliseconds: performance.now() - begin,
    };
  }

  private sweptAnswer({ id, given, messages: wanted }: Ask): Answer {
    const begin = performance.now();
    const evidence = evidenceOf(given);
    const messages = new Messages(this.model, evidence);
    const program = wanted ? this.everything : this.beliefs;
    messages.run(program);
    const logLikelihood = messages.logLikelihood(program) + this.start.logScale;
    const { edges } = this.start;
    const predicts = (edge: number): boolean => logLikelihood > -Infinity && edge === this.refined?.edge && !evidence.has(edge);
    return {
      id,
      logLikelihood,
      beliefs: inOneBuffer(edges.map((edge) => (predicts(edge) ? this.refined!.predicted(evidence) : distribution(messages.belief(edge))))),
      others: inOneBuffer(edges.map((edge) => distribution(messages.others(edge)))),
      conflict: logLikelihood === -Infinity ? this.conflict(given) : [],
      messages: wanted ? this.shown(messages) : null,
      loops: null,
      milliseconds: performance.now() - begin,
    };
  }

  private get round(): Program {
    return (this.whole ??= programOf(this.start.buffer, this.start.places, "round"));
  }

  private get everything(): Program {
    return (this.whole ??= programOf(this.start.buffer, this.start.places, "everything"));
  }

  private shown(messages: Messages): AllMessages {
    const edges = Array.from(this.model.plan.cardinality, (_, edge) => edge);
    return {
      forward: edges.map((edge) => distribution(messages.of(messages.forward, edge))),
      backward: edges.map((edge) => distribution(messages.of(messages.backward, edge))),
      knownForward: messages.knownForward,
      knownBackward: messages.knownBackward,
    };
  }

  /** What speaks for the target, what to ask next, and the likeliest states of all. */
  study(asked: Study): Studied {
    const likeliest = this.likeliest(asked.given, asked.assignments).map(({ states, logProbability }) => ({ states, logProbability }));
    const nothing = { gains: [], entropy: 0, explanation: null };
    return { id: asked.id, likeliest, ...(asked.target < 0 ? nothing : this.aimed(asked)) };
  }

  private aimed({ given, target, profiles }: Study): Omit<Studied, "id" | "likeliest"> {
    const known = given.filter(([edge]) => edge !== target);
    const { edges } = this.start;
    const now = this.believed(known);
    const beliefs = edges.map((edge) => distribution(now.belief(edge)));
    const aim = distribution(now.belief(target));
    const gains = edges.map(() => 0);
    aim.forEach((share, state) => {
      if (share <= 0) return;
      const weights = Array.from(aim, (_, other) => (other === state ? 1 : 0));
      const then = this.believed([...known, [target, weights]]);
      edges.forEach((edge, at) => {
        distribution(then.belief(edge)).forEach((value, other) => {
          if (value > 0) gains[at] += (share * value * Math.log(value / beliefs[at][other])) / Math.LN2;
        });
      });
    });
    const entropy = -aim.reduce((sum, share) => sum + (share > 0 ? share * Math.log2(share) : 0), 0);
    const impossible = target === this.refined?.edge && this.refined.isImpossible(evidenceOf(known));
    const found = { gains, entropy, explanation: impossible ? null : this.explained(known, target), impossible };
    return profiles ? { ...found, profiles: this.profilesOf(target, aim.length) } : found;
  }

  private profilesOf(target: number, states: number): Float64Array[][] {
    return Array.from({ length: states }, (_, state) => {
      const then = this.believed([[target, Array.from({ length: states }, (_, other) => (other === state ? 1 : 0))]]);
      return this.start.edges.map((edge) => distribution(then.belief(edge)));
    });
  }

  private believed(given: Given): Messages {
    const messages = new Messages(this.model, evidenceOf(given));
    messages.run(this.beliefs);
    return messages;
  }

  /** What is believed of a variable without evidence on it: of a class, what networks refined for it predict. */
  private predicted(given: Given, edge: number): Float64Array {
    return edge === this.refined?.edge ? this.refined.predicted(evidenceOf(given)) : distribution(this.believed(given).belief(edge));
  }

  /** How much each piece of evidence adds to the log-odds of a state: the mean over orders in which they become known. */
  private explained(known: Given, target: number): Explanation | null {
    const orders = ordersOf(this.start.buffer, this.start.places, known.length);
    if (!orders) return null;
    const aim = this.predicted(known, target);
    const state = aim.indexOf(Math.max(...aim));
    const odds = (some: Given): number => {
      const belief = this.predicted(some, target);
      const others = belief.reduce((sum, share, at) => (at === state ? sum : sum + share), 0);
      return Math.log(Math.max(belief[state], FAINTEST)) - Math.log(Math.max(others, FAINTEST));
    };
    const [prior, logOdds] = [odds([]), odds(known)];
    const sums = new Float64Array(known.length);
    const ways = orders.flatMap((way) => [[...way], [...way].reverse()]);
    for (const way of ways) {
      let before = prior;
      way.forEach((one, at) => {
        const after = at + 1 < way.length ? odds(way.slice(0, at + 1).sort((a, b) => a - b).map((k) => known[k])) : logOdds;
        sums[one] += after - before;
        before = after;
      });
    }
    const contributions = known.map(([edge], at): [number, number] => [edge, sums[at] / ways.length]);
    return { state, probability: aim[state], prior, contributions, logOdds };
  }

  /**
   * The assignments of all variables that are likeliest together, the likeliest first (Yanover and Weiss, 2004). Those
   * that are left are parted, each time where the next one differs from one that was found.
   */
  private likeliest(given: Given, count: number): Allowed[] {
    const found: Allowed[] = [];
    let next = count ? this.best(evidenceOf(given)) : null;
    while (next) {
      found.push(next);
      if (found.length === count) break;
      const ahead = found.map((one) => ({ one, ...runnerUp(one) })).reduce((best, one) => (one.value > best.value ? one : best));
      if (ahead.value === -Infinity) break;
      const { one, at, state } = ahead;
      next = this.best(this.limited(one.evidence, at, (other) => other === state));
      one.evidence = this.limited(one.evidence, at, (other) => other !== state);
      one.marginals = this.maxMarginals(one.evidence);
    }
    return found;
  }

  /** The likeliest assignment: by max-marginals; of several such assignments the first. */
  private best(evidence: Evidence): Allowed | null {
    const marginals = this.maxMarginals(evidence);
    const peak = (values: Float64Array): number => values.indexOf(Math.max(...values));
    let decided = marginals;
    for (let fixed = evidence; ; ) {
      const states = decided.map(peak);
      const logProbability = decided[0][states[0]] + this.start.logScale;
      if (logProbability === -Infinity) return null;
      const tied = decided.findIndex((values, at) => values.some((value, state) => state !== states[at] && value > values[states[at]] - 1e-9));
      if (tied < 0) return { evidence, marginals, states, logProbability };
      fixed = this.limited(fixed, tied, (other) => other === states[tied]);
      decided = this.maxMarginals(fixed);
    }
  }

  /** By variable: for each state, the logarithm of the largest probability of all variables together. */
  private maxMarginals(evidence: Evidence): Float64Array[] {
    const messages = new Messages(this.model, evidence, true);
    messages.run(this.beliefs);
    const scale = messages.logLikelihood(this.beliefs);
    return this.start.edges.map((edge) => {
      const values = messages.belief(edge);
      const most = Math.max(...values);
      // Several roots are several parts of the network: the largest of each part is added.
      return values.map((value) => (most === -Infinity ? most : value - most + scale));
    });
  }

  /** Evidence that allows a variable, by its place in the document, only some of its states. */
  private limited(evidence: Evidence, at: number, allowed: (state: number) => boolean): Evidence {
    const edge = this.start.edges[at];
    const old = evidence.get(edge) ?? new Float64Array(this.model.plan.cardinality[edge]);
    return new Map(evidence).set(edge, old.map((weight, state) => (allowed(state) ? weight : -Infinity)));
  }

  /** Edges whose evidence is impossible together, and possible without any one of them: found by leaving out. */
  private conflict(given: Given): number[] {
    const { diverterSize, values } = this.model.plan;
    const cells = values.length + diverterSize.reduce((sum, size) => sum + size, 0);
    if (cells * given.length > MOST_WORK) return [];
    let kept = given;
    for (const one of given) {
      const rest = kept.filter((other) => other !== one);
      const messages = new Messages(this.model, evidenceOf(rest));
      messages.run(this.inward);
      if (messages.logLikelihood(this.inward) === -Infinity) kept = rest;
    }
    return kept.map(([edge]) => edge);
  }
}

/** The likeliest of the assignments that are allowed but for the first: its value, and where it differs. */
function runnerUp({ marginals, states }: Allowed): { at: number; state: number; value: number } {
  const found = { at: -1, state: -1, value: -Infinity };
  marginals.forEach((values, at) =>
    values.forEach((value, state) => {
      if (state !== states[at] && value > found.value) Object.assign(found, { at, state, value });
    }),
  );
  return found;
}

/** The same arrays one after the other in memory: they travel to the page as one. */
function inOneBuffer(arrays: Float64Array[]): Float64Array[] {
  const all = new Float64Array(arrays.reduce((sum, one) => sum + one.length, 0));
  let first = 0;
  return arrays.map((one) => {
    all.set(one, first);
    first += one.length;
    return all.subarray(first - one.length, first);
  });
}

function evidenceOf(given: Given): Evidence {
  return new Map(given.map(([edge, weights]) => [edge, Float64Array.from(weights, Math.log)]));
}

let inference: Inference | null = null;

self.onmessage = (event: MessageEvent<Start | Ask | Study>) => {
  const said = event.data;
  const id = said.kind === "start" ? -1 : said.id;
  try {
    if (said.kind === "start") inference = new Inference(said);
    else if (said.kind === "study") self.postMessage(inference?.study(said));
    else if (inference) self.postMessage(inference.answer(said));
  } catch (error) {
    const failure: Failure = { id, error: error instanceof Error ? error.message : String(error) };
    self.postMessage(failure);
  }
};
