// The messages of a network in the order in which they can be sent: one round after the other, as blocks answer what
// has reached them. On a tree each is sent once, and is then right.

import type { Plan, Program } from "./plan";

export type Sender = "source" | "factor" | "forward" | "backward" | "diverter";

export interface Sending {
  sender: Sender;
  /** The number of the block among those of its kind. */
  block: number;
  edge: number;
  isForward: boolean;
  round: number;
}

export function sendings(plan: Plan, program: Program): Sending[] {
  const rounds = new Map<string, number>(); // of each message; those of the boundary are there from the beginning
  const round = (edge: number, isForward: boolean): number => rounds.get(`${edge}/${isForward}`) ?? 0;
  const out: Sending[] = [];
  const send = (sender: Sender, block: number, edge: number, isForward: boolean, after: number): void => {
    rounds.set(`${edge}/${isForward}`, after + 1);
    out.push({ sender, block, edge, isForward, round: after + 1 });
  };
  const { steps, targets } = program;
  for (let at = 0; at < steps.length; at += 4) {
    const [kind, block] = [steps[at], steps[at + 1]];
    if (kind === 0) send(plan.isFactor[block] ? "factor" : "source", block, plan.sourceEdge[block], true, 0);
    else if (kind === 1) send("forward", block, plan.sisoOutput[block], true, round(plan.sisoInput[block], true));
    else if (kind === 2) send("backward", block, plan.sisoInput[block], false, round(plan.sisoOutput[block], false));
    else
      for (const target of targets.subarray(steps[at + 2], steps[at + 3])) {
        let after = 0;
        for (let leg = plan.legStart[block]; leg < plan.legStart[block + 1]; leg++)
          if (leg !== target) after = Math.max(after, round(plan.legEdge[leg], plan.legIsInput[leg] === 1));
        send("diverter", block, plan.legEdge[target], plan.legIsInput[target] === 0, after);
      }
  }
  return out.map((one, at) => ({ one, at })).sort((a, b) => a.one.round - b.one.round || a.at - b.at).map(({ one }) => one);
}
