// The wires of a factor graph: what they are called, and what their states are.

import { readable } from "./format";
import type { FactorText, WirePlace } from "./protocol";
import type { Variable } from "./store";

export interface NamedWire {
  title: string;
  count: number; // of states
  state: (at: number) => string;
  /** The variables whose joint states its states are; none for a wire with states of its own. */
  parts: Variable[];
}

export class Wires {
  private readonly found = new Map<number, NamedWire>();
  private readonly places: Map<number, WirePlace>;

  constructor(
    private readonly byEdge: ReadonlyMap<number, Variable>,
    factor: FactorText | null,
  ) {
    this.places = new Map(factor?.wires.map((wire) => [wire.edge, wire]));
  }

  /** Any edge, those of copies and product spaces included. */
  of(edge: number): NamedWire {
    let wire = this.found.get(edge);
    if (!wire) this.found.set(edge, (wire = this.made(edge)));
    return wire;
  }

  private made(edge: number): NamedWire {
    const variable = this.byEdge.get(edge);
    if (variable) return { title: variable.title, count: variable.states.length, state: (at) => variable.states[at], parts: [] };
    const { name, states = 0, parts: edges = [] } = this.places.get(edge) ?? {};
    const title = readable(name ?? `#${edge}`);
    const parts = edges.map((one) => this.byEdge.get(one)!);
    if (typeof states !== "number") return { title, count: states.length, state: (at) => readable(states[at]), parts };
    return { title, count: states, state: (at) => (parts.length ? jointState(parts, at) : String(at)), parts };
  }
}

/** A joint state by the states of its variables, of which the last changes fastest. */
export function jointState(parts: Variable[], at: number): string {
  const names: string[] = [];
  for (const { states } of [...parts].reverse()) {
    names.unshift(states[at % states.length]);
    at = Math.floor(at / states.length);
  }
  return names.join(", ");
}
