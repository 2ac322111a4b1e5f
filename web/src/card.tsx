// The card of a variable: its name, and a bar for every state. A bar is clicked, dragged, or reached by the keyboard.

import { Component } from "preact";
import { kindOf, observed } from "./evidence";
import { differ, enlarged, fitted, percent } from "./format";
import { text } from "./text";
import type { CardPlace, Document, Weights } from "./protocol";
import { STILL, type Viewport } from "./viewport";
import type { Store, Variable } from "./store";

const INSET = 8;

interface Props {
  store: Store;
  viewport: Viewport;
  variable: Variable;
  place: CardPlace;
  size: Document["card"];
  beliefs: Float64Array | null;
  before: Float64Array | null;
  weights: Weights | undefined;
  selected: boolean;
  focus: number; // the state that Tab leads to, or -1
  near: boolean; // a neighbour of the selected variable
  group: number; // how many cards or wires can be folded into this one
  factor: boolean; // in the factor graph
  folded: string; // what is told of those that are, or ""
}

export class Card extends Component<Props> {
  private pressed: { state: number; x: number; y: number; left: number; width: number; moved: boolean } | null = null;

  override shouldComponentUpdate(next: Props): boolean {
    return differ(this.props, next);
  }

  readonly press = (state: number, event: PointerEvent): void => {
    if (event.button !== 0) return;
    event.stopPropagation();
    const row = event.currentTarget as SVGGElement;
    const box = row.querySelector(".track")!.getBoundingClientRect();
    row.setPointerCapture(event.pointerId);
    this.pressed = { state, x: event.clientX, y: event.clientY, left: box.left, width: box.width, moved: false };
  };

  readonly drag = (event: PointerEvent): void => {
    const { pressed } = this;
    if (!pressed) return;
    const [dx, dy] = [Math.abs(event.clientX - pressed.x), Math.abs(event.clientY - pressed.y)];
    if (!pressed.moved && dy > STILL && dy > dx) {
      // Up or down is no drag of a bar: the drawing moves.
      this.pressed = null;
      (event.currentTarget as Element).releasePointerCapture(event.pointerId);
      return this.props.viewport.press(event);
    }
    if (dx > STILL) pressed.moved = true;
    if (!pressed.moved) return;
    const share = Math.min(1, Math.max(0, (event.clientX - pressed.left) / pressed.width));
    this.props.store.drag(this.props.variable, pressed.state, Math.round(share * 100) / 100);
  };

  readonly release = (event: PointerEvent): void => {
    const { pressed } = this;
    const { store, variable } = this.props;
    this.pressed = null;
    if (!pressed) return;
    store.set({ focus: [variable.number, pressed.state] });
    if (pressed.moved) store.drop();
    else if (event.shiftKey) store.toggleNot(variable, pressed.state);
    else store.toggle(variable, pressed.state);
  };

  readonly cancel = (): void => {
    if (this.pressed?.moved) this.props.store.drop();
    this.pressed = null;
  };

  override render(props: Props) {
    const { variable, place, size, weights, store, group, folded } = props;
    const kind = kindOf(weights);
    const height = place.height ?? 0;
    const shown = Math.min(variable.states.length, size.most);
    const left = place.x - size.width / 2;
    const classes = ["card", kind, variable.hidden ? "latent" : "", props.selected ? "selected" : "", props.near ? "near" : ""];
    const open = (): void => store.select(variable.number);
    const handle = group ? (folded ? 14 + 7 * folded.length : 16) : 0;
    const [large, letters] = enlarged(`${folded ? "▸ " : ""}${variable.title}`, size.width - 2 * INSET, 24, kind === "none" ? 32 : 24, 600);
    return (
      <g
        class={classes.filter(Boolean).join(" ")}
        transform={`translate(${left} ${place.y})`}
        role="group"
        aria-label={text.cardLabel(variable.title, variable.hidden)}
        data-variable={variable.number}
      >
        <rect class="paper" width={size.width} height={height} rx="8" onClick={open} />
        <g class="heading" onClick={open}>
          <title>{variable.title}</title>
          <path class="head" d={headPath(size.width, size.head - 4)} />
          <text class="name" x={INSET + 2} y={size.head - 11}>
            {fitted(variable.title, size.width - 2 * INSET - (kind === "none" ? 4 : 18) - handle, 13, 600)}
          </text>
          {kind !== "none" && <circle class="mark" cx={size.width - 14 - handle} cy={size.head / 2 - 2} r="4" />}
        </g>
        {group > 0 && (
          <Handle
            label={this.foldLabel()}
            folded={folded}
            right={size.width - INSET - 2}
            width={handle + 6}
            height={size.head - 4}
            onClick={() => store.fold(variable.edge)}
          />
        )}
        {variable.states.slice(0, shown).map((_, state) => this.row(state))}
        {variable.states.length > shown && (
          <text class="rest" x={INSET + 2} y={size.head + shown * size.row + 14} onClick={open}>
            {text.more(variable.states.length - shown)}
          </text>
        )}
        <text class="large" x={INSET} y={letters - 3} style={{ fontSize: `${letters}px` }} aria-hidden="true">{large}</text>
      </g>
    );
  }

  private foldLabel(): string {
    const { variable, group, folded, factor } = this.props;
    return factor ? text.foldWire(variable.title, group, folded) : text.foldCard(variable.title, group, folded);
  }

  private row(state: number) {
    const { variable, size, beliefs, before, weights, focus } = this.props;
    const kind = kindOf(weights);
    const share = beliefs ? beliefs[state] : null;
    const full = size.width - 2 * INSET;
    const own = kind === "value" ? (observed(weights) === state ? "on" : "other") : weights?.[state] === 0 ? "off" : kind === "soft" ? "soft" : "";
    const moved = before && share !== null && Math.abs(before[state] - share) > 5e-4;
    return (
      <StateRow
        key={state}
        card={this}
        title={variable.title}
        name={variable.states[state]}
        state={state}
        size={size}
        said={share === null ? "–" : percent(share)}
        bar={halves((share ?? 0) * full)}
        ghost={moved ? halves(before[state] * full) : -1}
        own={share === null && own === "on" ? "" : own}
        focused={focus === state}
      />
    );
  }
}

interface HandleProps {
  label: string;
  folded: string;
  right: number; // where its sign ends
  width: number;
  height: number;
  onClick: () => void;
}

/** What folds a group, or unfolds it. */
export function Handle({ label, folded, right, width, height, onClick }: HandleProps) {
  const act = (event: Event): void => (event.stopPropagation(), onClick());
  return (
    <g class={`fold ${folded ? "closed" : ""}`} role="button" aria-expanded={!folded} aria-label={label} onClick={act}>
      <title>{label}</title>
      <rect class="head" x={right + INSET - width + 2} width={width} height={height} />
      <text x={right} y={height / 2 + 5}>{folded ? `${folded} ▸` : "▾"}</text>
    </g>
  );
}

interface RowProps {
  card: Card;
  title: string;
  name: string;
  state: number;
  size: Document["card"];
  said: string;
  bar: number; // its length in pixels
  ghost: number; // where the bar ended before, or -1
  own: "" | "on" | "off" | "soft" | "other"; // what the evidence says of this state
  focused: boolean;
}

/** Pixels that a bar changes by at once: a movement of so few would not be seen, and hundreds of them take time. */
const AT_ONCE = 3;

/** One state of a card. What a person would not see change is not drawn again: with a click the bars of all cards move a little. */
class StateRow extends Component<RowProps> {
  private before = 0; // the length of the bar

  override shouldComponentUpdate(next: RowProps): boolean {
    return differ(this.props, next);
  }

  private press = (event: PointerEvent): void => this.props.card.press(this.props.state, event);

  override render({ card, title, name, state, size, said, bar, ghost, own, focused }: RowProps) {
    const known = { on: text.observedState, off: text.excludedState, soft: text.softState, other: "", "": "" }[own];
    const full = size.width - 2 * INSET;
    const label = fitted(name, full - 58, 12);
    const moving = Math.abs(bar - this.before) > AT_ONCE;
    this.before = bar;
    return (
      <g
        class={`state ${own}`}
        transform={`translate(${INSET} ${size.head + state * size.row})`}
        role="button"
        tabindex={focused ? 0 : -1}
        aria-pressed={own === "on" ? "true" : own === "soft" ? "mixed" : "false"}
        aria-label={text.stateLabel(title, name, said, known)}
        data-state={state}
        onPointerDown={this.press}
        onPointerMove={card.drag}
        onPointerUp={card.release}
        onPointerCancel={card.cancel}
      >
        {label !== name && <title>{name}</title>}
        <rect class="track" y="1" width={full} height={size.row - 2} rx="4" />
        <rect class={moving ? "bar moving" : "bar"} y="1" width={bar} height={size.row - 2} rx={bar ? 4 : 0} />
        {ghost >= 0 && <path class="ghost" d={`M${ghost} ${size.row - 5}v4`} />}
        <text class="label" x="6" y={size.row / 2 + 4}>
          {label}
        </text>
        <text class="share" x={full - 5} y={size.row / 2 + 4}>
          {said}
        </text>
      </g>
    );
  }
}

/** To half a pixel. */
function halves(length: number): number {
  return Math.round(2 * length) / 2;
}

function headPath(width: number, height: number): string {
  return `M0 ${height}V8a8 8 0 0 1 8-8h${width - 16}a8 8 0 0 1 8 8v${height - 8}z`;
}
