// Groups that can be folded into a card: the variables that depend on the rest of the network through that one alone.

import type { GraphText } from "./protocol";

/** The edges of the cards that can be folded into a card, by the edge of that card; a card without any is not in it. */
export type Groups = ReadonlyMap<number, readonly number[]>;

/** Groups of a directed graph: a card belongs to one if all its parents are in the group or are what it is folded into. */
export function groupsOf(graph: GraphText): Groups {
  const children: number[][] = graph.cards.map(() => []);
  const parents = graph.cards.map(() => 0);
  for (const { ends: [from, to] } of graph.arcs) {
    children[from].push(to);
    parents[to]++;
  }
  const groups = new Map<number, number[]>();
  graph.cards.forEach((card, root) => {
    const open = new Map<number, number>(); // parents that are not in the group, of cards below it
    const inside = [root];
    for (const one of inside)
      for (const child of children[one]) {
        const left = (open.get(child) ?? parents[child]) - 1;
        open.set(child, left);
        if (!left) inside.push(child);
      }
    if (inside.length > 1) groups.set(card.edge, inside.slice(1).map((at) => graph.cards[at].edge));
  });
  return groups;
}

/** The edges of all cards that are folded away, and into which they are: the outermost one, which is in sight. */
export function foldedAway(groups: Groups, folded: ReadonlySet<number>): Map<number, number> {
  const away = new Map<number, number>();
  for (const edge of folded) for (const one of groups.get(edge) ?? []) away.set(one, edge);
  const outermost = (edge: number): number => (away.has(edge) ? outermost(away.get(edge)!) : edge);
  return new Map([...away].map(([one, into]) => [one, outermost(into)]));
}
