// Groups that can be folded. In the network: the variables that depend on the rest through one of them alone, folded into
// its card. In the factor graph: all that is connected to the rest through one wire alone, folded behind that wire.

import { edgesOf, type Plan } from "./plan";
import { blockKey, type BlockPlace, type FactorText, type GraphText } from "./protocol";

export interface Group {
  edges: readonly number[];
  blocks: readonly string[]; // by their keys
}

/** Groups by the edge that stays; an edge without one is not in it. */
export type Groups = ReadonlyMap<number, Group>;

/** What is out of sight: edges with that into which they are folded, the outermost one, and blocks. */
export interface Away {
  edges: ReadonlyMap<number, number>;
  blocks: ReadonlySet<string>;
}

/** Groups of a directed graph: a card belongs to one if all its parents are in the group or are what it is folded into. */
export function groupsOf(graph: GraphText): Groups {
  const children: number[][] = graph.cards.map(() => []);
  const parents = graph.cards.map(() => 0);
  for (const { ends: [from, to] } of graph.arcs) {
    children[from].push(to);
    parents[to]++;
  }
  const groups = new Map<number, Group>();
  graph.cards.forEach((card, root) => {
    const open = new Map<number, number>(); // parents that are not in the group, of cards below it
    const inside = [root];
    for (const one of inside)
      for (const child of children[one]) {
        const left = (open.get(child) ?? parents[child]) - 1;
        open.set(child, left);
        if (!left) inside.push(child);
      }
    if (inside.length > 1) groups.set(card.edge, { edges: inside.slice(1).map((at) => graph.cards[at].edge), blocks: [] });
  });
  return groups;
}

/** Groups of a factor graph: what cannot be reached from its topmost block but through a wire. One block alone is none. */
export function wireGroupsOf(plan: Plan, view: FactorText): Groups {
  const [blocks, top] = [new Map<string, number[]>(), topmost(view.blocks)];
  for (const block of view.blocks) blocks.set(blockKey(block), edgesOf(plan, block));
  const ends = new Map<number, string[]>(view.wires.map(({ edge }) => [edge, []]));
  for (const [key, edges] of blocks) for (const edge of edges) ends.get(edge)!.push(key);
  const groups = new Map<number, Group>();
  for (const { edge: cut } of view.wires) {
    const reached = new Set<string | number>([top, cut]);
    const open = [top];
    for (const block of open)
      for (const edge of blocks.get(block)!) {
        if (reached.has(edge)) continue;
        reached.add(edge);
        for (const next of ends.get(edge)!) if (!reached.has(next)) reached.add(next), open.push(next);
      }
    const edges = view.wires.map(({ edge }) => edge).filter((edge) => !reached.has(edge));
    if (edges.length) groups.set(cut, { edges, blocks: [...blocks.keys()].filter((key) => !reached.has(key)) });
  }
  return groups;
}

function topmost(blocks: BlockPlace[]): string {
  return blockKey(blocks.reduce((best, one) => (one.y < best.y || (one.y === best.y && one.x < best.x) ? one : best)));
}

export function foldedAway(groups: Groups, folded: ReadonlySet<number>): Away {
  const away = new Map<number, number>();
  const blocks = new Set<string>();
  for (const edge of folded) {
    for (const one of groups.get(edge)?.edges ?? []) away.set(one, edge);
    for (const one of groups.get(edge)?.blocks ?? []) blocks.add(one);
  }
  const outermost = (edge: number): number => (away.has(edge) ? outermost(away.get(edge)!) : edge);
  return { edges: new Map([...away].map(([one, into]) => [one, outermost(into)])), blocks };
}
