// The factor graph: wires with their two messages, and blocks. Drawn beneath the cards.

import { Component } from "preact";
import { Handle } from "./card";
import type { Away } from "./folding";
import { differ, enlarged, fitted, percent } from "./format";
import { text } from "./text";
import { blockKey, type BlockPlace, type FactorText, type WirePlace } from "./protocol";
import type { Chosen, Store } from "./store";

const GLYPH_WIDTH = 38;
const BESIDE = 6;
const MOST_BARS = 38;

/** What has been sent: everything, or while stepping only the first messages. */
export function sentSoFar(store: Store): { has: (edge: number, isForward: boolean) => boolean; newest: string } {
  const { step } = store.seen;
  if (step === null || store.document.loops) return { has: () => true, newest: "" };
  const { plan, sends } = store.factor;
  const key = (edge: number, isForward: boolean): string => `${edge}/${isForward}`;
  const sent = new Set(sends.slice(0, step).map((one) => key(one.edge, one.isForward)));
  const last = step > 0 ? sends[step - 1] : null;
  const has = (edge: number, isForward: boolean): boolean =>
    sent.has(key(edge, isForward)) || (isForward ? !plan.driver[edge] : !plan.reader[edge]);
  return { has, newest: last ? key(last.edge, last.isForward) : "" };
}

interface FactorProps {
  store: Store;
  view: FactorText;
  away: Away;
  /** The wire or block that Tab leads to. */
  part: string;
}

export function FactorGraph({ store, view, away, part }: FactorProps) {
  const { messages } = store;
  const { chosen } = store.seen;
  const sent = sentSoFar(store);
  const picked = chosen && (chosen.kind === "wire" ? wireKey(chosen.edge) : blockKey(chosen.block));
  const gone = view.blocks.map((block) => away.blocks.has(blockKey(block)));
  const one = (edge: number, isForward: boolean): Float64Array | null =>
    messages && sent.has(edge, isForward) ? (isForward ? messages.forward : messages.backward)[edge] : null;
  return (
    <g class="wiring">
      {view.lines.map(({ edge, block, points }, number) => !gone[block] && !away.edges.has(edge) && <path key={number} class="wire" d={lineOf(points)} />)}
      {view.blocks.map((block, number) => {
        const key = blockKey(block);
        return !gone[number] && <Block key={`b${number}`} store={store} block={block} selected={picked === key} focused={part === key} />;
      })}
      {view.wires.map((wire) => {
        const { edge } = wire;
        if (away.edges.has(edge)) return null;
        const key = wireKey(edge);
        return (
          <Wire
            key={edge}
            store={store}
            view={view}
            wire={wire}
            forward={one(edge, true)}
            backward={one(edge, false)}
            knownForward={!!messages?.knownForward[edge]}
            knownBackward={!!messages?.knownBackward[edge]}
            newest={sent.newest.startsWith(`${edge}/`) ? sent.newest : ""}
            group={wire.height ? 0 : (store.groups.get(edge)?.edges.length ?? 0)}
            folded={store.toldOf(edge)}
            selected={picked === key}
            focused={part === key}
          />
        );
      })}
    </g>
  );
}

/** A wire among the wires and blocks of a factor graph. */
export function wireKey(edge: number): string {
  return `wire ${edge}`;
}

/** All wires and blocks that are in sight, by key, and where their middles are. */
export function partsOf(view: FactorText, away: Away): { key: string; x: number; y: number }[] {
  const wires = view.wires.filter(({ edge }) => !away.edges.has(edge));
  const blocks = view.blocks.filter((block) => block.from === undefined && !away.blocks.has(blockKey(block)));
  return [
    ...blocks.map((block) => ({ key: blockKey(block), x: block.x + block.width / 2, y: block.y + block.height / 2 })),
    ...wires.map((wire) => ({ key: wireKey(wire.edge), x: wire.x, y: wire.y + view.wire.height / 2 })),
  ];
}

/** What a wire or block is, by its key. */
export function partOf(view: FactorText, key: string): Chosen | null {
  const block = view.blocks.find((one) => blockKey(one) === key);
  if (block) return { kind: "block", block };
  const wire = view.wires.find(({ edge }) => wireKey(edge) === key);
  return wire ? { kind: "wire", edge: wire.edge } : null;
}

function lineOf(points: [number, number][]): string {
  const [first, second, ...curve] = points;
  return `M${first}L${second}${curve.length ? `C${curve.join(" ")}` : ""}`;
}

interface WireProps {
  store: Store;
  view: FactorText;
  wire: WirePlace;
  forward: Float64Array | null; // that has been sent
  backward: Float64Array | null;
  knownForward: boolean;
  knownBackward: boolean;
  newest: string;
  group: number;
  folded: string;
  selected: boolean;
  focused: boolean;
}

class Wire extends Component<WireProps> {
  override shouldComponentUpdate(next: WireProps): boolean {
    return differ(this.props, next);
  }

  private choose = (): void => {
    const { store, wire, selected } = this.props;
    store.choose(selected ? null : { kind: "wire", edge: wire.edge });
  };

  private label(): string {
    const { store, wire } = this.props;
    const { title, state } = store.wires.of(wire.edge);
    const said = (way: string, values: Float64Array | null, known: boolean): string => {
      if (!values) return text.notSent(way);
      if (!known && uniform(values)) return text.saysNothing(way);
      const best = values.indexOf(values.reduce((most, value) => Math.max(most, value), 0));
      return text.likeliestState(way, state(best), percent(values[best]));
    };
    const { forward, backward, knownForward, knownBackward } = this.props;
    return text.wireLabel(title, said(text.forward, forward, knownForward), said(text.backward, backward, knownBackward));
  }

  override render({ store, view, wire, forward, backward, knownForward, knownBackward, newest, group, folded, selected, focused }: WireProps) {
    const { title } = store.wires.of(wire.edge);
    const { label, glyph, height, width } = view.wire;
    const handle = group ? (folded ? 16 + 7 * folded.length : 18) : 0;
    const parts: [string, Float64Array | null, boolean, number][] = [
      ["forward", forward, knownForward, -BESIDE - GLYPH_WIDTH], ["backward", backward, knownBackward, BESIDE],
    ];
    return (
      <g
        class={`messages ${selected ? "selected" : ""}`}
        transform={`translate(${wire.x} ${wire.y})`}
        role="button"
        tabindex={focused ? 0 : -1}
        aria-pressed={selected}
        aria-label={this.label()}
        onClick={this.choose}
        data-wire={wire.edge}
        data-part={wireKey(wire.edge)}
      >
        <title>{title}</title>
        <rect class="reach" x={-width / 2 + 2} width={width - 4} height={height - 2} rx="6" />
        <path class="wire" d={`M0 ${wire.height ? 0 : label - 2}V${height}`} />
        {!wire.height && <text class="wirename" x={-handle / 2} y={label - 5}>{fitted(title, width - 8 - handle, 11)}</text>}
        {group > 0 && (
          <Handle
            label={text.foldWire(title, group, folded)}
            folded={folded}
            right={width / 2 - 8}
            width={handle}
            height={label}
            onClick={() => store.fold(wire.edge)}
          />
        )}
        {parts.map(([way, values, known, left]) => {
          const fresh = newest === `${wire.edge}/${way === "forward"}` ? "fresh" : "";
          const flat = values && !known && uniform(values) ? "flat" : "";
          return (
            <g key={way} class={`message ${way} ${fresh} ${flat}`} transform={`translate(${left} ${label + 2})`} data-sent={!!values}>
              {values && <path d={bars(values, GLYPH_WIDTH, glyph)} />}
              <path class="base" d={`M0 ${glyph}h${GLYPH_WIDTH}`} />
            </g>
          );
        })}
      </g>
    );
  }
}

function uniform(values: Float64Array): boolean {
  return values.every((value) => Math.abs(value - values[0]) < 1e-9);
}

/** Upright bars, the largest as high as there is room: a message is the same at any scale. */
function bars(values: Float64Array, width: number, height: number): string {
  const count = Math.min(values.length, MOST_BARS);
  const heights = new Float64Array(count);
  values.forEach((value, at) => {
    const bar = Math.floor((at * count) / values.length);
    heights[bar] = Math.max(heights[bar], value);
  });
  const most = Math.max(...heights, 1e-300);
  const step = width / count;
  let path = "";
  heights.forEach((value, at) => {
    const high = (value / most) * height;
    path += `M${(at * step).toFixed(1)} ${height}v${(-high).toFixed(1)}h${(step * 0.82).toFixed(1)}v${high.toFixed(1)}z`;
  });
  return path;
}

/** What a block is called: P(Y | S) of a SISO block, by the edges at its ends. */
export function blockTitle(store: Store, block: BlockPlace): string {
  const { plan } = store.factor;
  const name = (edge: number): string => store.wires.of(edge).title;
  if (block.kind === "siso") return `P(${name(plan.sisoOutput[block.number])} | ${name(plan.sisoInput[block.number])})`;
  if (block.kind === "diverter") return text.diverter;
  const own = name(plan.sourceEdge[block.number]);
  return block.kind === "source" ? `P(${own})` : own;
}

interface BlockProps {
  store: Store;
  block: BlockPlace;
  selected: boolean;
  focused: boolean;
}

class Block extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    return differ(this.props, next);
  }

  private choose = (): void => {
    const { store, block, selected } = this.props;
    store.choose(selected ? null : { kind: "block", block });
  };

  override render({ store, block, selected, focused }: BlockProps) {
    const { kind, number, x, y, width, height, from } = block;
    const title = blockTitle(store, block);
    const label = text.blockLabel(text.blockNames[kind], title).trim();
    return (
      <g
        class={`block ${kind} ${selected ? "selected" : ""}`}
        role="button"
        tabindex={focused && from === undefined ? 0 : -1}
        aria-pressed={selected}
        aria-label={label}
        onClick={this.choose}
        data-block={`${kind} ${number}`}
        data-part={from === undefined ? blockKey(block) : undefined}
      >
        <title>{title}</title>
        {from !== undefined && <rect class="box" x={x} y={from} width={height} height={y - from} />}
        <rect class="box" x={x} y={y} width={width} height={height} rx={kind === "diverter" ? 3 : kind === "siso" ? 4 : 14} />
        {kind !== "diverter" && this.names(title)}
      </g>
    );
  }

  private names(title: string) {
    const { store, block: { kind, number, x, y, width, height } } = this.props;
    const { plan } = store.factor;
    const size = (edge: number): number => plan.cardinality[edge];
    const note = kind === "siso" ? `${size(plan.sisoInput[number])} × ${size(plan.sisoOutput[number])}` : text.states(size(plan.sourceEdge[number]));
    const [large, letters] = enlarged(title.replace(/^P\((.*?)( \| .*)?\)$/s, "$1"), width - 10, 20, 30, 600);
    return (
      <>
        <text x={x + width / 2} y={y + 16}>{fitted(title, width - 14, 12)}</text>
        <text class="blocknote" x={x + width / 2} y={y + 30}>{note}</text>
        <text class="large" x={x + width / 2} y={y + height / 2 + letters / 3} style={{ fontSize: `${letters}px` }} aria-hidden="true">{large}</text>
      </>
    );
  }
}
