// The class of a classifier: the geometric mean of what networks that were refined for it predict, and, where values are
// missing, of what the network that is shown predicts.

import { distribution, Messages, Model, type Evidence } from "./messages";
import { parametersOf, programOf, type Program } from "./plan";
import type { RefinedText, Start } from "./protocol";

/** A smaller probability counts as this one beside another that is larger: there is a mean of any distributions. */
const FAINTEST = 1e-100;

export class RefinedClass {
  readonly edge: number;
  private readonly models: Model[];
  private readonly program: Program;
  private readonly weight: RefinedText["weight"];

  constructor(private readonly shown: Model, { edge, networks, weight }: RefinedText, { buffer, places }: Pick<Start, "buffer" | "places">) {
    this.edge = edge;
    this.weight = weight;
    const { plan } = shown;
    const all = parametersOf(buffer, places, "refined.values");
    const size = plan.values.length;
    this.models = Array.from({ length: networks }, (_, at) => new Model({ ...plan, values: all.subarray(at * size, (at + 1) * size) }));
    this.program = programOf(buffer, places, "refined");
  }

  /** The probabilities of the class; what they are without evidence if this evidence is impossible by one of the networks. */
  predicted(evidence: Evidence): Float64Array {
    const share = this.share(evidence);
    const refined = this.models.map((model) => this.told(model, evidence));
    if (refined.includes(null)) return this.predicted(new Map());
    const mean = geometricMean(refined as Float64Array[], refined.map(() => 1 / refined.length));
    const shown = share < 1 ? this.told(this.shown, evidence) : null;
    return shown ? geometricMean([mean, shown], [share, 1 - share]) : mean;
  }

  /** The probabilities of the class by one network; null if the evidence is impossible by it. */
  private told(model: Model, evidence: Evidence): Float64Array | null {
    const messages = new Messages(model, evidence);
    messages.run(this.program);
    const isImpossible = evidence.size > 0 && messages.logLikelihood(this.program) === -Infinity;
    return isImpossible ? null : distribution(messages.belief(this.edge));
  }

  /** The weight of the refined networks: 1 with as many known values as usual, apart from variables with one state. */
  private share(evidence: Evidence): number {
    if (!this.weight) return 1;
    const { cardinality } = this.shown.plan;
    const known = [...evidence.keys()].filter((edge) => edge !== this.edge && cardinality[edge] > 1).length;
    return Math.min(known / this.weight.usual, 1) ** this.weight.power;
  }

  /** Whether evidence is impossible by one of the networks, so that the class is predicted without it. */
  isImpossible(evidence: Evidence): boolean {
    return this.models.some((model) => this.told(model, evidence) === null);
  }
}

/** The distribution with the mean logarithm of some distributions; of one, itself. What is zero in all of them is zero. */
function geometricMean(found: Float64Array[], weights: number[]): Float64Array {
  if (found.length === 1) return found[0];
  const logs = found[0].map((_, state) => {
    if (found.every((one) => one[state] === 0)) return -Infinity;
    return found.reduce((sum, one, at) => sum + weights[at] * Math.log(Math.max(one[state], FAINTEST)), 0);
  });
  return distribution(logs);
}
