// What the page knows and shows: the evidence with its history, the answer of the worker, and what is selected.

import { Client, servedRow } from "./client";
import { type Evidence, kindOf, observed, oneState, toggledNot, weightsFor, withWeights } from "./evidence";
import { readable } from "./format";
import { Address, readAddress } from "./address";
import { text } from "./text";
import { foldedAway, groupsOf, wireGroupsOf, type Away, type Groups } from "./folding";
import { stateOf, tableOf, UNSEEN, type Table } from "./table";
import { planOf, programOf, type Plan } from "./plan";
import { sendings, type Sending } from "./sending";
import { Wires } from "./wires";
import type { AllMessages, Answer, BlockPlace, Document, Given, Label, Profiles, Studied, Weights } from "./protocol";

/** Likeliest assignments of all variables that are listed. */
const ASSIGNMENTS = 5;

export interface Variable {
  number: number;
  edge: number;
  name: string;
  title: string;
  labels: Label[];
  states: string[];
  hidden: boolean;
}

export interface Seen {
  evidence: Evidence;
  past: Evidence[];
  future: Evidence[];
  answer: Answer | null;
  /** What is compared with: beliefs without evidence, or those that were pinned. */
  before: Answer | null;
  pinned: boolean;
  changes: boolean;
  selected: number;
  /** The variable and state that have the keyboard. */
  focus: [number, number];
  notice: string;
  failure: string;
  help: boolean;
  busy: boolean;
  view: View;
  /** A wire or block of the factor graph. */
  chosen: Chosen | null;
  /** How many messages have been sent while stepping; null for all. */
  step: number | null;
  /** The variable that is asked about, or -1. */
  target: number;
  studied: Studied | null;
  /** Whether the likeliest assignments are looked at. */
  assigning: boolean;
  table: Table | null;
  row: number;
  /** The values of that row, as they are in the table. */
  values: string[];
  /** The edges of cards or wires into which others are folded. */
  folded: ReadonlySet<number>;
}

export type View = "graph" | "factor";
export type Chosen = { kind: "wire"; edge: number } | { kind: "block"; block: BlockPlace };

export class Store {
  readonly variables: Variable[];
  readonly byEdge: Map<number, Variable>;
  seen: Seen;
  prior: Answer | null = null;
  changed: () => void = () => {};
  readonly wires: Wires;
  readonly address = new Address(this);
  private readonly cardGroups: Groups;
  private wireGroups: Groups | null = null;
  private readonly client: Client;
  private readonly dragStart: { evidence: Evidence | null } = { evidence: null };

  constructor(
    readonly document: Document,
    arrays: string,
  ) {
    this.variables = document.variables.map((one, number) => {
      const labels = typeof one.states === "number" ? Array.from({ length: one.states }, (_, k) => k) : one.states;
      const states = labels.map(readable);
      return { number, edge: one.edge, name: one.name, title: readable(one.name), labels, states, hidden: !!one.hidden };
    });
    this.byEdge = new Map(this.variables.map((variable) => [variable.edge, variable]));
    this.wires = new Wires(this.byEdge, document.factor);
    this.cardGroups = document.kind === "markov" ? new Map() : groupsOf(document.graph);
    this.client = new Client(document, arrays);
    this.seen = {
      evidence: new Map(), past: [], future: [], answer: null, before: null, pinned: false, changes: true, selected: -1,
      focus: [0, 0], notice: "", failure: "", help: false, busy: false, view: "graph",
      chosen: null, step: null, target: this.predicted, studied: null, assigning: false, table: null, row: 0, values: [],
      folded: new Set(),
    };
  }

  /** Ask what is believed without evidence, then with what the address says. */
  async begin(address: string): Promise<void> {
    try {
      this.prior = await this.client.ask([]);
    } catch (error) {
      this.set({ failure: String(error instanceof Error ? error.message : error) });
      return;
    }
    const said = readAddress(address, this);
    const { evidence, step, ...rest } = said;
    this.set({ answer: this.prior, before: this.prior, ...rest });
    void this.study();
    if (evidence.size || said.view === "factor") await this.give(evidence, false);
    if (step !== null) this.goTo(step);
    const { table } = this.document;
    if (table) this.walk({ ...table, row: servedRow });
  }

  set(part: Partial<Seen>): void {
    this.seen = { ...this.seen, ...part };
    this.changed();
  }

  /** Take evidence as what is known, and ask what follows; `kept`: what was known before can be undone to. */
  async give(evidence: Evidence, kept = true): Promise<void> {
    const { past, evidence: before } = this.seen;
    const history = kept ? { past: [...past.slice(-199), before], future: [] } : {};
    // Drawn with the answer, which comes at once, unless it does not.
    this.seen = { ...this.seen, evidence, ...history, notice: "", busy: true };
    const late = setTimeout(this.changed, 80);
    await this.ask();
    clearTimeout(late);
  }

  private async ask(): Promise<void> {
    const { evidence } = this.seen;
    try {
      const answer = await this.client.ask(this.given(evidence), this.seen.view === "factor");
      if (answer) this.set({ answer, busy: this.seen.evidence !== evidence });
      if (answer) void this.study();
    } catch (error) {
      this.set({ failure: String(error instanceof Error ? error.message : error), busy: false });
    }
    this.address.changed();
  }

  /** What is believed given other evidence than that of the page. */
  believed(given: Given): Promise<Answer | null> {
    return this.client.ask(given);
  }

  /** Evidence in the order of the variables. */
  given(evidence: Evidence): Given {
    return this.variables.flatMap(({ edge }) => (evidence.has(edge) ? [[edge, evidence.get(edge)!] as const] : []));
  }

  // A target

  /** The variable that an estimator predicts, or -1. */
  get predicted(): number {
    const { target } = this.document;
    return target ? this.variables.findIndex((one) => one.name === target) : -1;
  }

  private background: Client | null = null; // of its own, so that beliefs need not wait
  /** The profiles of the target of an estimator, once they are known. */
  profiles: { target: number; byState: Profiles } | null = null;

  aim(target: number): void {
    this.set({ target, studied: null });
    this.address.changed();
    void this.study();
  }

  /** Look at the likeliest assignments of all variables, or no longer. */
  assign(assigning: boolean): void {
    if (assigning === this.seen.assigning) return;
    this.set({ assigning });
    if (assigning) void this.study();
  }

  private async study(): Promise<void> {
    const { target, answer, evidence, assigning } = this.seen;
    if ((target < 0 && !assigning) || !answer || this.document.loops || answer.logLikelihood === -Infinity) {
      if (this.seen.studied) this.set({ studied: null });
      return;
    }
    this.background ??= new Client(this.document, this.client.buffer);
    let studied: Studied | null = null;
    try {
      const profiles = target >= 0 && this.document.kind === "estimator" && this.profiles?.target !== target;
      const wanted = { target: this.variables[target]?.edge ?? -1, assignments: assigning ? ASSIGNMENTS : 0, profiles };
      studied = await this.background.study(this.given(evidence), wanted);
      if (studied?.profiles) this.profiles = { target, byState: studied.profiles };
    } catch (error) {
      this.set({ notice: String(error instanceof Error ? error.message : error) });
    }
    if (studied && evidence === this.seen.evidence && target === this.seen.target) this.set({ studied });
  }

  // A table of rows

  /** Read a table, and take its first row as what is known. */
  open(name: string, content: string): void {
    const table = tableOf(name, content);
    this.walk(table);
  }

  /** Take the rows of a table one after the other, the first one now. */
  private walk(table: Table): void {
    const known = table.columns.filter((column) => this.variables.some((variable) => variable.name === column));
    if (!table.count || !known.length) return this.set({ notice: text.noTable(table.name) });
    this.set({ table, row: 0, values: [] });
    void this.take(0);
  }

  /** Take a row of the table as what is known. */
  async take(row: number): Promise<void> {
    const { table } = this.seen;
    if (!table || !(row >= 0 && row < table.count)) return;
    this.set({ row });
    let values: string[];
    try {
      values = await table.row(row);
    } catch (error) {
      return this.set({ notice: String(error instanceof Error ? error.message : error) });
    }
    if (this.seen.table !== table || this.seen.row !== row) return; // another one was asked for meanwhile
    const strange: string[] = [];
    const known = new Map<number, Weights>();
    for (const variable of this.variables) {
      if (variable.number === this.predicted) continue; // it is what the row is asked for
      const at = table.columns.indexOf(variable.name);
      const value = at < 0 ? "" : (values[at] ?? "");
      const column = this.document.columns?.find((one) => one.name === variable.name);
      const state = stateOf(value, variable.labels, column);
      if (state === UNSEEN) strange.push(`${variable.title} = ${readable(value)}`);
      if (state >= 0) known.set(variable.edge, oneState(variable.states.length, state));
    }
    this.set({ values });
    await this.give(known);
    if (strange.length) this.set({ notice: text.unseen(row, strange) });
  }

  /** What the row of the table says of the variable that is predicted; "" if nothing. */
  get truth(): string {
    const { table, values } = this.seen;
    const variable = this.variables[this.predicted];
    const at = table && variable ? table.columns.indexOf(variable.name) : -1;
    const value = at >= 0 ? (values[at] ?? "").trim() : "";
    return value ? `${variable.title} = ${readable(value)}` : "";
  }

  // Folding

  /** What can be folded in this view. */
  get groups(): Groups {
    const { factor } = this.document;
    if (this.seen.view === "graph" || !factor) return this.cardGroups;
    return (this.wireGroups ??= wireGroupsOf(this.factor.plan, factor));
  }

  get away(): Away {
    return foldedAway(this.groups, this.seen.folded);
  }

  /** What a group is told of: its size, and whether something of it is known; "" if it is not folded. */
  toldOf(edge: number): string {
    const group = this.groups.get(edge);
    if (!group || !this.seen.folded.has(edge)) return "";
    return `${group.edges.length}${group.edges.some((one) => this.seen.evidence.has(one)) ? " •" : ""}`;
  }

  /** Fold a group into its card or behind its wire, or unfold it. */
  fold(edge: number): void {
    if (!this.groups.has(edge)) return;
    const folded = new Set(this.seen.folded);
    if (!folded.delete(edge)) folded.add(edge);
    this.set({ folded });
    this.address.changed();
  }

  /** Unfold all, or what a variable is folded into. */
  unfold(variable: Variable | null = null): void {
    const { folded } = this.seen;
    const kept = [...folded].filter((edge) => variable && !this.groups.get(edge)?.edges.includes(variable.edge));
    if (kept.length === folded.size) return;
    this.set({ folded: new Set(kept) });
    this.address.changed();
  }

  // The factor graph

  private planned: { plan: Plan; sends: Sending[] } | null = null;

  /** The Plan, and the messages in the order in which they are sent. */
  get factor(): { plan: Plan; sends: Sending[] } {
    if (!this.planned) {
      const plan = planOf(this.client.buffer, this.document.arrays);
      const whole = this.document.loops ? null : programOf(this.client.buffer, this.document.arrays, "everything");
      const sends = whole ? sendings(plan, whole) : [];
      this.planned = { plan, sends };
    }
    return this.planned;
  }

  /** Whether the wire or block that is looked at was come to from the panel, where the keyboard then stays. */
  fromPanel = false;

  async show(view: View): Promise<void> {
    this.set({ view, step: null, chosen: null });
    await this.ask();
  }

  choose(chosen: Chosen | null): void {
    this.set({ chosen, selected: -1 });
    this.address.changed();
  }

  /** How many steps there are: messages, or rounds on loops. */
  get steps(): number {
    const { loops } = this.seen.answer ?? {};
    return this.document.loops ? Math.max(0, (loops?.rounds.length ?? 1) - 1) : this.factor.sends.length;
  }

  /** The messages that are shown: those of a round while stepping through loops. */
  get messages(): AllMessages | null {
    const { answer, step } = this.seen;
    if (this.document.loops && step !== null) return answer?.loops?.rounds[step] ?? null;
    return answer?.messages ?? null;
  }

  goTo(step: number | null): void {
    const last = this.steps;
    this.set({ step: step === null ? null : Math.min(last, Math.max(0, step)) });
    this.address.changed();
  }

  // What people do

  weights(variable: Variable): Weights | undefined {
    return this.seen.evidence.get(variable.edge);
  }

  private put(variable: Variable, weights: Weights | null, kept = true): void {
    void this.give(withWeights(this.seen.evidence, variable.edge, weights), kept);
  }

  toggle(variable: Variable, state: number): void {
    const same = observed(this.weights(variable)) === state;
    this.put(variable, same ? null : oneState(variable.states.length, state));
  }

  toggleNot(variable: Variable, state: number): void {
    this.put(variable, toggledNot(this.weights(variable), variable.states.length, state));
  }

  takeBack(variable: Variable): void {
    if (this.seen.evidence.has(variable.edge)) this.put(variable, null);
  }

  /** Change the weight of one state; others that have none yet weigh 1. */
  weigh(variable: Variable, state: number, weight: number): void {
    const before = this.weights(variable) ?? variable.states.map(() => 1);
    this.put(variable, before.map((one, other) => (other === state ? weight : one)));
  }

  /** Bring the belief in a state to a share, by soft evidence. */
  pull(variable: Variable, state: number, share: number, kept = true): void {
    const rest = this.seen.answer?.others[variable.number];
    const weights = rest && weightsFor(rest, state, share);
    if (weights) this.put(variable, weights, kept);
    else this.set({ notice: text.cannotReach(variable.states[state]) });
  }

  /** While a bar is dragged nothing is remembered; when it is let go, what was before can be undone to. */
  drag(variable: Variable, state: number, share: number): void {
    this.dragStart.evidence ??= this.seen.evidence;
    this.pull(variable, state, share, false);
  }

  drop(): void {
    const { evidence } = this.dragStart;
    this.dragStart.evidence = null;
    if (evidence && evidence !== this.seen.evidence)
      this.set({ past: [...this.seen.past.slice(-199), evidence], future: [] });
  }

  nudge(variable: Variable, state: number, by: number): void {
    const now = this.seen.answer?.beliefs[variable.number][state] ?? 0;
    const share = Math.min(1, Math.max(0, Math.round((now + by) * 100) / 100));
    this.pull(variable, state, share);
  }

  undo(): void {
    const { past, future, evidence } = this.seen;
    if (!past.length) return;
    this.set({ past: past.slice(0, -1), future: [evidence, ...future] });
    void this.give(past[past.length - 1], false);
  }

  redo(): void {
    const { past, future, evidence } = this.seen;
    if (!future.length) return;
    this.set({ past: [...past, evidence], future: future.slice(1) });
    void this.give(future[0], false);
  }

  clear(): void {
    if (this.seen.evidence.size) void this.give(new Map());
  }

  pin(): void {
    const pinned = !this.seen.pinned;
    this.set({ pinned, before: pinned ? this.seen.answer : this.prior, changes: true });
  }

  showChanges(changes: boolean): void {
    this.set({ changes });
    this.address.changed();
  }

  select(number: number): void {
    this.set({ selected: number, chosen: null });
    this.address.changed();
  }

  /** The evidence on a variable in words. */
  said(variable: Variable): string {
    const weights = this.weights(variable);
    const kind = kindOf(weights);
    if (kind === "value") return `${variable.title} = ${variable.states[observed(weights)]}`;
    if (kind === "not") {
      const out = variable.states.filter((_, state) => weights![state] === 0);
      return `${variable.title} ≠ ${out.join(", ")}`;
    }
    return kind === "soft" ? `${variable.title} ~ ${text.softState}` : variable.title;
  }
}
