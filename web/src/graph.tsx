// The network as a graph of cards and arcs, with pan and zoom, and keys that move between bars.

import { Component, createRef } from "preact";
import { Card } from "./card";
import { text } from "./text";
import { Viewport, type Box } from "./viewport";
import { FactorGraph, partOf, partsOf, sentSoFar, wireKey } from "./factor";
import type { Away } from "./folding";
import { blockKey, type CardPlace, type FactorText, type GraphText } from "./protocol";
import type { Seen, Store, Variable } from "./store";

/** Around the cards that are left when others are folded away. */
const MARGIN = 24;

interface State {
  /** The wire or block of the factor graph that Tab leads to; "" for the first. */
  part: string;
}

interface Props {
  store: Store;
  factor: boolean;
  mounted: (graph: Graph) => void;
}

export class Graph extends Component<Props, State> {
  override state: State = { part: "" };
  private readonly svg = createRef<SVGSVGElement>();
  private readonly group = createRef<SVGGElement>();
  private readonly places: Map<number, CardPlace>;
  private readonly paths: string[];
  readonly viewport: Viewport;
  private detach = (): void => {};
  private panned = false;

  private readonly graph: GraphText;

  constructor(props: Props) {
    super(props);
    const { graph, factor } = props.store.document;
    this.graph = props.factor && factor ? cardsOf(factor) : graph;
    const all = { x: 0, y: 0, width: this.graph.width, height: this.graph.height };
    const items = props.factor && factor ? factor.blocks.map(({ x, y, width }) => ({ x: x + width / 2, y })) : this.graph.cards;
    this.viewport = new Viewport(all, middleOfTop(items, all.width / 2));
    this.places = new Map(this.graph.cards.map((card) => [card.edge, card]));
    this.paths = this.graph.arcs.map(({ points }) => pathOf(points));
  }

  override componentDidMount(): void {
    this.detach = this.viewport.attach(this.svg.current!, this.group.current!);
    this.props.mounted(this);
  }

  private followed: Pick<Seen, "step" | "chosen"> = { step: null, chosen: null };

  /** The newest message is in sight while stepping, and so is the wire or block that is looked at. */
  override componentDidUpdate(): void {
    const { store, factor } = this.props;
    const { step, chosen } = store.seen;
    const before = this.followed;
    this.followed = { step, chosen };
    if (!factor) return;
    const newest = step && step !== before.step ? store.factor.sends[step - 1]?.edge : undefined;
    if (newest !== undefined) this.showPart(wireKey(newest));
    else if (chosen && chosen !== before.chosen) this.showPart(chosen.kind === "wire" ? wireKey(chosen.edge) : blockKey(chosen.block));
  }

  /** Bring a wire or block into sight, if it is not folded away. */
  private showPart(key: string): void {
    const { wire } = this.props.store.document.factor!;
    const part = partsOf(this.props.store.document.factor!, this.props.store.away).find((one) => one.key === key);
    if (part) this.viewport.show(part.x - wire.width / 2, part.y - wire.height / 2, wire.width, wire.height, true);
  }

  override componentWillUnmount(): void {
    this.detach();
  }

  /** The drawing, for export. */
  get drawing(): SVGSVGElement {
    return this.svg.current!;
  }

  /** Bring a variable into sight. */
  reveal(variable: Variable): void {
    this.props.store.unfold(variable);
    const place = this.places.get(variable.edge)!;
    const { width } = this.props.store.document.card;
    this.viewport.show(place.x - width / 2, place.y, width, place.height ?? 0);
  }

  /** Give a state the keyboard. */
  focusOn(number: number, state: number): void {
    const { store } = this.props;
    store.set({ focus: [number, state] });
    this.reveal(store.variables[number]);
    const selector = `[data-variable="${number}"] [data-state="${state}"]`;
    this.svg.current?.querySelector<SVGGElement>(selector)?.focus({ preventScroll: true });
  }

  /** The part of the drawing that has something in it. */
  private boxOf(away: Away): Box {
    const { graph } = this;
    if (!away.edges.size) return { x: 0, y: 0, width: graph.width, height: graph.height };
    const { card, factor } = this.props.store.document;
    const boxes = graph.cards
      .filter(({ edge }) => !away.edges.has(edge))
      .map(({ x, y, height = 20 }): Box => ({ x: x - card.width / 2, y, width: card.width, height }));
    if (this.props.factor && factor) {
      const { width, height } = factor.wire;
      for (const { edge, x, y } of factor.wires) if (!away.edges.has(edge)) boxes.push({ x: x - width / 2, y, width, height });
      boxes.push(...factor.blocks.filter((block) => !away.blocks.has(blockKey(block))));
    }
    const [left, right] = [Math.min(...boxes.map((one) => one.x)), Math.max(...boxes.map((one) => one.x + one.width))];
    const [top, bottom] = [Math.min(...boxes.map((one) => one.y)), Math.max(...boxes.map((one) => one.y + one.height))];
    return { x: left - MARGIN, y: top - MARGIN, width: right - left + 2 * MARGIN, height: bottom - top + 2 * MARGIN };
  }

  /** The part of the drawing that is exported: all that is not folded away. */
  get box(): Box {
    return this.viewport.box;
  }

  private key = (event: KeyboardEvent): void => {
    const { store, factor } = this.props;
    const part = (event.target as Element).closest?.("[data-part]");
    if (part) return this.partKey(event, part.getAttribute("data-part")!);
    const row = (event.target as Element).closest?.("[data-state]");
    const card = row?.closest("[data-variable]");
    if (!row || !card || event.ctrlKey || event.metaKey || event.altKey) return;
    const variable = store.variables[Number(card.getAttribute("data-variable"))];
    const state = Number(row.getAttribute("data-state"));
    const shown = Math.min(variable.states.length, store.document.card.most);
    const acts: Record<string, () => void> = {
      Enter: () => store.toggle(variable, state),
      " ": () => store.toggle(variable, state),
      n: () => store.toggleNot(variable, state),
      "+": () => store.nudge(variable, state, 0.05),
      "=": () => store.nudge(variable, state, 0.05),
      "-": () => store.nudge(variable, state, -0.05),
      Delete: () => store.takeBack(variable),
      Backspace: () => store.takeBack(variable),
      i: () => store.select(variable.number),
      g: () => store.fold(variable.edge),
      m: () => {
        if (!factor) return;
        store.fromPanel = true;
        store.choose({ kind: "wire", edge: variable.edge });
      },
      ArrowDown: () => (state + 1 < shown ? this.focusOn(variable.number, state + 1) : this.go(variable, 0, 1)),
      ArrowUp: () => (state > 0 ? this.focusOn(variable.number, state - 1) : this.go(variable, 0, -1)),
      ArrowLeft: () => this.go(variable, -1, 0),
      ArrowRight: () => this.go(variable, 1, 0),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  /** A key on a wire or block. */
  private partKey(event: KeyboardEvent, key: string): void {
    const { store } = this.props;
    const view = store.document.factor!;
    const part = partOf(view, key);
    const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!part || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") store.choose(part);
    else if (event.key.toLowerCase() === "g" && part.kind === "wire") store.fold(part.edge);
    else if (arrows[event.key]) {
      const parts = partsOf(view, store.away);
      const next = nearest(parts.find((one) => one.key === key)!, parts, arrows[event.key]);
      if (next) this.goToPart(next.key);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private goToPart(key: string): void {
    this.showPart(key);
    this.setState({ part: key });
    this.svg.current?.querySelector<SVGGElement>(`[data-part="${key}"]`)?.focus({ preventScroll: true });
  }

  private focused = (event: FocusEvent): void => {
    const part = (event.target as Element).closest?.("[data-part]")?.getAttribute("data-part");
    if (part && part !== this.state.part) this.setState({ part });
  };

  /** To the nearest card in a direction. */
  private go(from: Variable, dx: number, dy: number): void {
    const { store } = this.props;
    const away = store.away.edges;
    const shown = store.variables.filter(({ edge }) => edge === from.edge || !away.has(edge));
    const places = shown.map(({ number, edge }) => ({ number, ...this.places.get(edge)! }));
    const next = nearest(places.find(({ edge }) => edge === from.edge)!, places, [dx, dy]);
    if (next) this.focusOn(next.number, 0);
  }

  /** The state that has the keyboard, or the first one that is in sight if it is folded away. */
  private inSight([number, state]: [number, number], away: Away): [number, number] {
    const { variables, byEdge } = this.props.store;
    const into = away.edges.get(variables[number].edge);
    if (into === undefined) return [number, state];
    const other = byEdge.get(into) ?? variables.find(({ edge }) => !away.edges.has(edge));
    return [other?.number ?? -1, 0];
  }

  /** The way from a card to a child of what is folded into it. */
  private shortcut(from: number, to: number): string {
    const [upper, lower] = [this.places.get(from)!, this.places.get(to)!];
    const [top, bottom] = [upper.y + (upper.height ?? 0), lower.y];
    return `M${upper.x} ${top}C${upper.x} ${top + 40} ${lower.x} ${bottom - 40} ${lower.x} ${bottom}`;
  }

  private press = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest(".state")) return;
    this.panned = false;
    this.viewport.press(event);
  };

  private move = (event: PointerEvent): void => {
    this.viewport.move(event);
    this.panned ||= this.svg.current!.hasPointerCapture(event.pointerId);
  };

  private release = (event: PointerEvent): void => {
    this.viewport.release(event);
    const empty = event.target === this.svg.current;
    const { selected, chosen } = this.props.store.seen;
    if (empty && !this.panned && (selected >= 0 || chosen)) this.props.store.select(-1);
  };

  override render({ store, factor }: Props, { part }: State) {
    const { card, kind } = store.document;
    const { graph } = this;
    const { seen } = store;
    const { answer, before, changes, selected, evidence } = seen;
    const chosen = selected >= 0 ? store.variables[selected].edge : -2;
    const edges = graph.cards.map((place) => place.edge);
    const touches = (ends: [number, number]): boolean => edges[ends[0]] === chosen || edges[ends[1]] === chosen;
    const near = new Set(graph.arcs.filter(({ ends }) => touches(ends)).flatMap(({ ends }) => ends.map((end) => edges[end])));
    const all = store.away;
    const away = all.edges;
    this.viewport.box = this.boxOf(all);
    const focus = this.inSight(seen.focus, all);
    const view = factor ? store.document.factor : null;
    const parts = view ? partsOf(view, all) : [];
    const sent = factor ? sentSoFar(store) : null;
    const arrived = (edge: number): boolean => !sent || (sent.has(edge, true) && sent.has(edge, false));
    const round = factor && store.document.loops && store.seen.step !== null ? store.messages : null;
    const then = (edge: number): Float64Array | null => round && product(round.forward[edge], round.backward[edge]);
    const impossible = answer?.logLikelihood === -Infinity;
    return (
      <svg
        ref={this.svg}
        class={`graph ${chosen >= 0 ? "chosen" : ""}`}
        role="group"
        aria-label={text.graphLabel}
        onPointerDown={this.press}
        onPointerMove={this.move}
        onPointerUp={this.release}
        onPointerCancel={this.release}
        onKeyDown={this.key}
        onFocusIn={this.focused}
      >
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path class="tip" d="M0 0.5L8 4L0 7.5z" />
          </marker>
        </defs>
        <g ref={this.group}>
          <g class="arcs" aria-hidden="true">
            {graph.arcs.map(({ ends }, number) => {
              const [from, to] = [edges[ends[0]], edges[ends[1]]];
              const path = away.has(to) ? null : away.has(from) ? this.shortcut(away.get(from)!, to) : this.paths[number];
              const near = touches(ends) ? "near" : "";
              return path && <path key={number} class={`arc ${near} ${away.has(from) ? "through" : ""}`} d={path} marker-end={kind === "markov" ? undefined : "url(#tip)"} />;
            })}
          </g>
          {view && <FactorGraph store={store} view={view} away={all} part={parts.some((one) => one.key === part) ? part : parts[0]?.key} />}
          {graph.cards.map((place, number) => {
            const variable = store.byEdge.get(place.edge);
            if (away.has(place.edge)) return null;
            if (!variable) return <rect key={`f${number}`} class="square" x={place.x - 10} y={place.y + 3} width="20" height="20" rx="3"><title>{place.factor}</title></rect>;
            return (
              <Card
                key={number}
                store={store}
                viewport={this.viewport}
                variable={variable}
                place={place}
                size={card}
                beliefs={answer && !impossible && arrived(variable.edge) ? (then(variable.edge) ?? answer.beliefs[variable.number]) : null}
                before={changes && before ? before.beliefs[variable.number] : null}
                weights={evidence.get(variable.edge)}
                selected={selected === variable.number}
                focus={focus[0] === variable.number ? focus[1] : -1}
                near={near.has(variable.edge)}
                group={store.groups.get(variable.edge)?.edges.length ?? 0}
                factor={factor}
                folded={store.toldOf(variable.edge)}
              />
            );
          })}
        </g>
      </svg>
    );
  }
}

/** Of the uppermost of some places, the one that is nearest to the middle. */
function middleOfTop(places: { x: number; y: number }[], middle: number): number {
  const top = Math.min(...places.map((one) => one.y));
  return places.filter((one) => one.y < top + 1).reduce((best, { x }) => (Math.abs(x - middle) < Math.abs(best - middle) ? x : best), Infinity);
}

/** The nearest of some places in a direction; what is aside counts three times. */
function nearest<Place extends { x: number; y: number }>(here: Place, places: Place[], [dx, dy]: [number, number]): Place | null {
  let best: Place | null = null;
  let least = Infinity;
  for (const there of places) {
    const [x, y] = [there.x - here.x, there.y - here.y];
    const ahead = dx * x + dy * y;
    const distance = ahead + 3 * Math.abs(dx ? y : x);
    if (ahead > 1 && distance < least) [least, best] = [distance, there];
  }
  return best;
}

/** Forward times backward, summing to one. */
function product(forward: Float64Array, backward: Float64Array): Float64Array {
  const out = forward.map((value, state) => value * backward[state]);
  const total = out.reduce((sum, value) => sum + value, 0);
  return total > 0 ? out.map((value) => value / total) : out;
}

/** The cards of a factor graph: below the messages of their wires. */
function cardsOf(factor: FactorText): GraphText {
  const cards = factor.wires.filter((wire) => wire.height);
  return {
    width: factor.width,
    height: factor.height,
    cards: cards.map((wire) => ({ edge: wire.edge, x: wire.x, y: wire.y + factor.wire.height, height: wire.height })),
    arcs: [],
  };
}

/** A line, then a curve of three points and a line, and so on. */
function pathOf(points: [number, number][]): string {
  const [first, second, ...rest] = points;
  let path = `M${first}L${second}`;
  for (let at = 0; at + 2 < rest.length; at += 4) {
    path += `C${rest[at]} ${rest[at + 1]} ${rest[at + 2]}`;
    if (rest[at + 3]) path += `L${rest[at + 3]}`;
  }
  return path;
}
