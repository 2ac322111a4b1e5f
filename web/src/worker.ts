// The worker: holds the model, and answers what is believed given some evidence.

import { distribution, Messages, Model, type Evidence } from "./messages";
import { planOf, programOf, type Program } from "./plan";
import type { AllMessages, Answer, Ask, Failure, Given, Start } from "./protocol";

/** Known values times cells that a search for a conflict may visit. */
const MOST_WORK = 2e8;

class Inference {
  private readonly model: Model;
  private readonly beliefs: Program;
  private readonly inward: Program;
  private whole: Program | null = null;

  constructor(private readonly start: Start) {
    this.model = new Model(planOf(start.buffer, start.places));
    this.beliefs = programOf(start.buffer, start.places, "beliefs");
    this.inward = programOf(start.buffer, start.places, "inward");
  }

  answer({ id, given, messages: wanted }: Ask): Answer {
    const begin = performance.now();
    const messages = new Messages(this.model, evidenceOf(given));
    const program = wanted ? this.everything : this.beliefs;
    messages.run(program);
    const logLikelihood = messages.logLikelihood(program) + this.start.logScale;
    const { edges } = this.start;
    return {
      id,
      logLikelihood,
      beliefs: edges.map((edge) => distribution(messages.belief(edge))),
      others: edges.map((edge) => distribution(messages.others(edge))),
      conflict: logLikelihood === -Infinity ? this.conflict(given) : [],
      messages: wanted ? this.shown(messages) : null,
      milliseconds: performance.now() - begin,
    };
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

function evidenceOf(given: Given): Evidence {
  return new Map(given.map(([edge, weights]) => [edge, Float64Array.from(weights, Math.log)]));
}

let inference: Inference | null = null;

self.onmessage = (event: MessageEvent<Start | Ask>) => {
  const said = event.data;
  const id = said.kind === "ask" ? said.id : -1;
  try {
    if (said.kind === "start") inference = new Inference(said);
    else if (inference) self.postMessage(inference.answer(said));
  } catch (error) {
    const failure: Failure = { id, error: error instanceof Error ? error.message : String(error) };
    self.postMessage(failure);
  }
};
