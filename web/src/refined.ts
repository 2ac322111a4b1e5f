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
  private readonly completeness: RefinedText["completeness"];

  constructor(private readonly shown: Model, { edge, networks, completeness }: RefinedText, { buffer, places }: Pick<Start, "buffer" | "places">) {
    this.edge = edge;
    this.completeness = completeness;
    const { plan } = shown;
    const all = parametersOf(buffer, places, "refined.values");
    const size = plan.values.length;
    this.models = Array.from({ length: networks }, (_, at) => new Model({ ...plan, values: all.subarray(at * size, (at + 1) * size) }));
    this.program = programOf(buffer, places, "refined");
  }

  /** The probabilities of the class; what they are without evidence if this evidence is impossible by one of the networks. */
  predicted(evidence: Evidence): Float64Array {
    const share = this.share(evidence);
    const found: Float64Array[] = [];
    for (const model of share < 1 ? [...this.models, this.shown] : this.models) {
      const messages = new Messages(model, evidence);
      messages.run(this.program);
      if (evidence.size && messages.logLikelihood(this.program) === -Infinity) return this.predicted(new Map());
      found.push(distribution(messages.belief(this.edge)));
    }
    const refined = found.slice(0, this.models.length);
    const mean = geometricMean(refined, refined.map(() => 1 / refined.length));
    return share < 1 ? geometricMean([mean, found[refined.length]], [share, 1 - share]) : mean;
  }

  /** The weight of the refined networks: 1 with as many known values as usual. */
  private share(evidence: Evidence): number {
    if (!this.completeness) return 1;
    const known = evidence.size - (evidence.has(this.edge) ? 1 : 0);
    return Math.min(known / this.completeness.usual, 1) ** this.completeness.power;
  }

  /** Whether evidence is impossible by one of the networks, so that the class is predicted without it. */
  isImpossible(evidence: Evidence): boolean {
    return (this.completeness ? [...this.models, this.shown] : this.models).some((model) => {
      const messages = new Messages(model, evidence);
      messages.run(this.program);
      return evidence.size > 0 && messages.logLikelihood(this.program) === -Infinity;
    });
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
