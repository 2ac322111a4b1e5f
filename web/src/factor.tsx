// The factor graph: wires with their two messages, and blocks. Drawn beneath the cards.

import { fitted } from "./format";
import { text } from "./text";
import type { AllMessages, BlockPlace, FactorText, WirePlace } from "./protocol";
import type { Store } from "./store";

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

export function FactorGraph({ store, view }: { store: Store; view: FactorText }) {
  const { messages } = store;
  const sent = sentSoFar(store);
  return (
    <g class="wiring">
      {view.lines.map((points, number) => <path key={number} class="wire" d={lineOf(points)} />)}
      {view.blocks.map((block, number) => <Block key={`b${number}`} store={store} block={block} />)}
      {view.wires.map((wire) => (
        <Wire key={wire.edge} store={store} view={view} wire={wire} messages={messages} sent={sent} />
      ))}
    </g>
  );
}

function lineOf(points: [number, number][]): string {
  const [first, second, ...curve] = points;
  return `M${first}L${second}${curve.length ? `C${curve.join(" ")}` : ""}`;
}

interface WireProps {
  store: Store;
  view: FactorText;
  wire: WirePlace;
  messages: AllMessages | null;
  sent: ReturnType<typeof sentSoFar>;
}

function Wire({ store, view, wire, messages, sent }: WireProps) {
  const { title } = store.wire(wire.edge);
  const { chosen } = store.seen;
  const selected = chosen?.kind === "wire" && chosen.edge === wire.edge;
  const { label, glyph, height } = view.wire;
  const choose = (): void => store.choose(selected ? null : { kind: "wire", edge: wire.edge });
  const parts: [boolean, string, number][] = [[true, "forward", -BESIDE - GLYPH_WIDTH], [false, "backward", BESIDE]];
  return (
    <g class={`messages ${selected ? "selected" : ""}`} transform={`translate(${wire.x} ${wire.y})`} onClick={choose} data-wire={wire.edge}>
      <title>{title}</title>
      <rect class="reach" x={-view.wire.width / 2 + 2} width={view.wire.width - 4} height={height - 2} rx="6" />
      <path class="wire" d={`M0 ${wire.height ? 0 : label - 2}V${height}`} />
      {!wire.height && <text class="wirename" x="0" y={label - 5}>{fitted(title, view.wire.width - 8, 11)}</text>}
      {messages &&
        parts.map(([isForward, way, left]) => {
          const there = sent.has(wire.edge, isForward);
          const values = (isForward ? messages.forward : messages.backward)[wire.edge];
          const known = (isForward ? messages.knownForward : messages.knownBackward)[wire.edge];
          const fresh = sent.newest === `${wire.edge}/${isForward}` ? "fresh" : "";
          const flat = !known && uniform(values) ? "flat" : "";
          return (
            <g key={way} class={`message ${way} ${fresh} ${flat}`} transform={`translate(${left} ${label + 2})`} data-sent={there}>
              {there && <path d={bars(values, GLYPH_WIDTH, glyph)} />}
              <path class="base" d={`M0 ${glyph}h${GLYPH_WIDTH}`} />
            </g>
          );
        })}
    </g>
  );
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
  if (block.kind === "siso")
    return `P(${store.wire(plan.sisoOutput[block.number]).title} | ${store.wire(plan.sisoInput[block.number]).title})`;
  const name = block.kind === "diverter" ? "" : store.wire(plan.sourceEdge[block.number]).title;
  return block.kind === "source" ? `P(${name})` : block.kind === "factor" ? name : text.diverter;
}

function Block({ store, block }: { store: Store; block: BlockPlace }) {
  const { plan } = store.factor;
  const { chosen } = store.seen;
  const selected = chosen?.kind === "block" && chosen.block.kind === block.kind && chosen.block.number === block.number;
  const choose = (): void => store.choose(selected ? null : { kind: "block", block });
  const title = blockTitle(store, block);
  const note =
    block.kind === "siso"
      ? `${plan.cardinality[plan.sisoInput[block.number]]} × ${plan.cardinality[plan.sisoOutput[block.number]]}`
      : block.kind === "diverter"
        ? ""
        : text.states(plan.cardinality[plan.sourceEdge[block.number]]);
  return (
    <g class={`block ${block.kind} ${selected ? "selected" : ""}`} onClick={choose} data-block={`${block.kind} ${block.number}`}>
      <title>{title}</title>
      {block.from !== undefined && <rect class="box" x={block.x} y={block.from} width={block.height} height={block.y - block.from} />}
      <rect class="box" x={block.x} y={block.y} width={block.width} height={block.height} rx={block.kind === "diverter" ? 3 : block.kind === "siso" ? 4 : 14} />
      {block.kind !== "diverter" && (
        <>
          <text x={block.x + block.width / 2} y={block.y + 16}>{fitted(title, block.width - 14, 12)}</text>
          <text class="blocknote" x={block.x + block.width / 2} y={block.y + 30}>{note}</text>
        </>
      )}
    </g>
  );
}
