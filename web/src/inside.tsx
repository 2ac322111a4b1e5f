// Beside the factor graph: the messages of a wire in numbers, the table of a block as a heat map, and the stepping.

import { Component, createRef } from "preact";
import { blockTitle, sentSoFar } from "./factor";
import { percent } from "./format";
import { text } from "./text";
import { edgesOf } from "./plan";
import type { BlockPlace } from "./protocol";
import type { Sending } from "./sending";
import { jointState, type NamedWire } from "./wires";
import type { Chosen, Store, Variable } from "./store";

export function Inside({ store }: { store: Store }) {
  const { chosen } = store.seen;
  if (chosen?.kind === "wire") return <WireDetail key={chosen.edge} store={store} edge={chosen.edge} />;
  return chosen ? <BlockDetail key={`${chosen.block.kind}${chosen.block.number}`} store={store} block={chosen.block} /> : null;
}

/** The name of a wire or block. Who came to it by a button beside goes on from here, with the keyboard, too. */
class Heading extends Component<{ store: Store; title: string }> {
  private readonly heading = createRef<HTMLHeadingElement>();

  override componentDidMount(): void {
    if (this.props.store.fromPanel) this.heading.current?.focus();
    this.props.store.fromPanel = false;
  }

  override render({ store, title }: { store: Store; title: string }) {
    return (
      <header>
        <h2 dir="auto" tabindex={-1} ref={this.heading}>{title}</h2>
        <button class="quiet" aria-label={text.close} title={text.close} onClick={() => store.choose(null)}>×</button>
      </header>
    );
  }
}

/** A button that leads from a wire or block to another. */
function Way({ store, to, title }: { store: Store; to: Chosen; title: string }) {
  const go = (): void => {
    store.fromPanel = true;
    store.choose(to);
  };
  return <button dir="auto" onClick={go}>{title}</button>;
}

const MOST_ROWS = 60;

function WireDetail({ store, edge }: { store: Store; edge: number }) {
  const { title, count, state: named, parts } = store.wires.of(edge);
  const { messages } = store;
  const group = store.groups.get(edge)?.edges.length ?? 0;
  const sent = sentSoFar(store);
  const { plan } = store.factor;
  if (!messages) return null;
  const [forward, backward] = [messages.forward[edge], messages.backward[edge]];
  const total = forward.reduce((sum, value, state) => sum + value * backward[state], 0);
  const ends = store.document.factor!.blocks.filter((block) => block.from === undefined && touches(plan, block, edge));
  const value = (there: boolean, share: number): string => (there ? percent(share) : "–");
  return (
    <section class="detail">
      <Heading store={store} title={title} />
      {parts.length > 1 && <p class="note" dir="auto">{text.statesOf(parts.map((one) => one.title).join(", "))}</p>}
      <table>
        <thead>
          <tr><th>{text.state}</th><th class="number forward">{text.forward}</th><th class="number backward">{text.backward}</th><th class="number">{text.product}</th></tr>
        </thead>
        <tbody>
          {Array.from({ length: Math.min(count, MOST_ROWS) }, (_, state) => (
            <tr key={state}>
              <th scope="row" dir="auto">{named(state)}</th>
              <td class="number">{value(sent.has(edge, true), forward[state])}</td>
              <td class="number">{value(sent.has(edge, false), backward[state])}</td>
              <td class="number">{value(sent.has(edge, true) && sent.has(edge, false) && total > 0, (forward[state] * backward[state]) / total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {count > MOST_ROWS && <p class="note">{text.more(count - MOST_ROWS)}</p>}
      <p class="note">{text.between}</p>
      <div class="buttons">
        {ends.map((block) => <Way key={`${block.kind}${block.number}`} store={store} to={{ kind: "block", block }} title={blockTitle(store, block)} />)}
      </div>
      {group > 0 && <button class="fold" onClick={() => store.fold(edge)}>{text.foldWire(title, group, store.toldOf(edge))}</button>}
    </section>
  );
}

function touches(plan: Store["factor"]["plan"], block: BlockPlace, edge: number): boolean {
  return edgesOf(plan, block).includes(edge);
}

const MOST_CELLS = 4000;

/** Buttons that lead from a block to its wires. */
const MOST_WAYS = 30;

type NamedStates = Pick<NamedWire, "count" | "state">;

class BlockDetail extends Component<{ store: Store; block: BlockPlace }, { sorted: boolean }> {
  override state = { sorted: false };

  override render({ store, block }: { store: Store; block: BlockPlace }) {
    const { plan } = store.factor;
    const edges = edgesOf(plan, block);
    const { parts } = store.wires.of(edges[0]);
    const joint = block.kind === "factor" && parts.length > 1;
    return (
      <section class="detail">
        <Heading store={store} title={blockTitle(store, block)} />
        <p class="note">{text.kinds[block.kind]}</p>
        {block.kind === "siso" && this.siso(store, plan, block.number)}
        {joint && this.factor(plan, block.number, parts)}
        {(block.kind === "source" || (block.kind === "factor" && !joint)) && this.prior(store, plan, block)}
        {block.kind === "diverter" && <p class="note">{text.joint(plan.diverterSize[block.number], edges.length)}</p>}
        <div class="buttons">
          {edges.slice(0, MOST_WAYS).map((edge) => <Way key={edge} store={store} to={{ kind: "wire", edge }} title={store.wires.of(edge).title} />)}
        </div>
        {edges.length > MOST_WAYS && <p class="note">{text.more(edges.length - MOST_WAYS)}</p>}
      </section>
    );
  }

  private siso(store: Store, plan: Store["factor"]["plan"], siso: number) {
    const [input, output] = [store.wires.of(plan.sisoInput[siso]), store.wires.of(plan.sisoOutput[siso])];
    const names = input.parts.map((one) => one.title);
    return (
      <>
        {names.length > 1 && <p class="note" dir="auto">{text.rowsAre(names.join(", "))}</p>}
        {this.table(plan, plan.tableOffset[plan.sisoTable[siso]], input, output)}
      </>
    );
  }

  /** The table of a factor over several variables: joint states of all but the last by states of the last. */
  private factor(plan: Store["factor"]["plan"], source: number, parts: Variable[]) {
    const [given, own] = [parts.slice(0, -1), parts[parts.length - 1]];
    const rows = { count: given.reduce((count, one) => count * one.states.length, 1), state: (at: number) => jointState(given, at) };
    const columns = { count: own.states.length, state: (at: number) => own.states[at] };
    return (
      <>
        <p class="note" dir="auto">{text.rowsAre(given.map((one) => one.title).join(", "))}</p>
        {this.table(plan, plan.sourceAt[source], rows, columns)}
      </>
    );
  }

  private table(plan: Store["factor"]["plan"], first: number, input: NamedStates, output: NamedStates) {
    const [rows, columns] = [input.count, output.count];
    if (rows * columns > MOST_CELLS) return <p class="note">{text.tooLarge(rows, columns)}</p>;
    const outputs = Array.from({ length: columns }, (_, column) => output.state(column));
    const values = Array.from({ length: rows }, (_, row) => Array.from(plan.values.subarray(first + row * columns, first + (row + 1) * columns)));
    const order = values.map((_, row) => row);
    const peak = (row: number): number => values[row].indexOf(Math.max(...values[row]));
    if (this.state.sorted) order.sort((a, b) => peak(a) - peak(b) || values[b][peak(b)] - values[a][peak(a)]);
    return (
      <>
        <button aria-pressed={this.state.sorted} onClick={() => this.setState({ sorted: !this.state.sorted })}>{text.sorted}</button>
        <div class="scroll">
          <table class="heat">
            <thead><tr><th /> {outputs.map((name, column) => <th key={column} dir="auto">{name}</th>)}</tr></thead>
            <tbody>
              {order.map((row) => (
                <tr key={row}>
                  <th scope="row" dir="auto">{input.state(row)}</th>
                  {values[row].map((value, column) => <Cell key={column} value={value} />)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </>
    );
  }

  private prior(store: Store, plan: Store["factor"]["plan"], block: BlockPlace) {
    const edge = plan.sourceEdge[block.number];
    const first = plan.sourceAt[block.number];
    const values = plan.values.subarray(first, first + plan.cardinality[edge]);
    const { state: named } = store.wires.of(edge);
    return (
      <div class="scroll">
        <table class="heat">
          <tbody>
            {Array.from(values.subarray(0, MOST_ROWS), (value, state) => (
              <tr key={state}><th scope="row" dir="auto">{named(state)}</th><Cell value={value} /></tr>
            ))}
          </tbody>
        </table>
        {values.length > MOST_ROWS && <p class="note">{text.more(values.length - MOST_ROWS)}</p>}
      </div>
    );
  }
}

function Cell({ value }: { value: number }) {
  const shade = Math.round(Math.min(1, Math.max(0, value)) * 10);
  return <td class={`number heat${shade}`}>{value === 0 ? "0" : value < 0.005 ? "<.01" : value.toFixed(2)}</td>;
}

/** In words, what the last message was. */
export function sentence(store: Store, sending: Sending): string {
  const { plan } = store.factor;
  const messages = store.seen.answer?.messages;
  const wire = store.wires.of(sending.edge).title;
  const known = messages && (sending.isForward ? messages.knownForward : messages.knownBackward)[sending.edge];
  if (sending.sender === "source") return text.sentSource(wire);
  if (sending.sender === "factor") return text.sentFactor(wire);
  if (sending.sender === "diverter") {
    const others = plan.legStart[sending.block + 1] - plan.legStart[sending.block] - 1;
    return text.sentDiverter(wire, sending.isForward, others) + (known || sending.isForward ? "" : ` ${text.ones}`);
  }
  const [input, output] = [plan.sisoInput[sending.block], plan.sisoOutput[sending.block]].map((edge) => store.wires.of(edge).title);
  if (sending.isForward) return text.sentForward(input, output);
  return text.sentBackward(input, output) + (known ? "" : ` ${text.ones}`);
}

/** In words, where the stepping is. */
function Told({ store, at }: { store: Store; at: number }) {
  const { sends } = store.factor;
  const { evidence, answer } = store.seen;
  if (at === 0) return <><b>{text.start}</b> {text.boundary(evidence.size)}</>;
  if (answer?.loops) {
    const { count, rounds } = answer.loops;
    const { change, changed } = rounds[at];
    return <><b>{text.roundCount(at, count)}</b> {text.roundChange(changed, change)}</>;
  }
  const last = sends[at - 1];
  return <><b>{text.sentCount(last.round, sends[sends.length - 1].round, at, sends.length)}</b> {sentence(store, last)}</>;
}

export class Stepper extends Component<{ store: Store }> {
  private timer: ReturnType<typeof setInterval> | null = null;

  override componentWillUnmount(): void {
    this.stop();
  }

  private stop(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
  }

  private play = (): void => {
    const { store } = this.props;
    if (this.timer) this.stop();
    else {
      const { steps } = store;
      if (store.seen.step === null || store.seen.step >= steps) store.goTo(0);
      this.timer = setInterval(() => {
        store.goTo((store.seen.step ?? 0) + 1);
        if ((store.seen.step ?? 0) >= steps) this.stop();
        this.setState({});
      }, Math.max(60, Math.min(900, 20_000 / steps)));
    }
    this.setState({});
  };

  override render({ store }: { store: Store }) {
    const { step } = store.seen;
    const { steps } = store;
    const at = step ?? steps;
    const go = (to: number | null): void => (this.stop(), store.goTo(to), this.setState({}));
    return (
      <section class="stepper" aria-label={text.step}>
        <div class="buttons">
          <button aria-label={text.stepBack} title={text.stepBack} disabled={at === 0} onClick={() => go(at - 1)}>‹</button>
          <button onClick={this.play}>{this.timer ? text.pause : text.play}</button>
          <button aria-label={text.stepOn} title={text.stepOn} disabled={at === steps} onClick={() => go(at + 1)}>›</button>
          <input type="range" min="0" max={steps} value={at} aria-label={text.step} onInput={(event) => go(Number(event.currentTarget.value))} />
          <button disabled={step === null} onClick={() => go(null)}>{text.allSent}</button>
        </div>
        <p dir="auto" role="status">
          <Told store={store} at={at} />
        </p>
      </section>
    );
  }
}
