// The page: a bar on top, the drawing, and the panel beside it.

import { Component, createRef, render } from "preact";
import { bridge } from "./bridge";
import { Graph } from "./graph";
import { probability, signed } from "./format";
import { Stepper } from "./inside";
import { openFile } from "./row";
import { Panel } from "./panel";
import { download, pngOf, svgOf } from "./share";
import { Store, type Variable } from "./store";
import { NARROW } from "./viewport";
import { text } from "./text";
import type { Document } from "./protocol";

type Theme = "light" | "dark" | "";

interface State {
  theme: Theme;
  dropping: boolean;
}

class App extends Component<{ store: Store }, State> {
  override state: State = { theme: "", dropping: false };
  private graph: Graph | null = null;
  private readonly search = createRef<HTMLInputElement>();

  override componentDidMount(): void {
    const { store } = this.props;
    store.changed = () => this.setState({});
    void store.begin(location.hash).then(() => {
      bridge(store);
      // A screen that shows only a part shows the part that was selected.
      if (store.seen.selected >= 0 && innerWidth < NARROW) this.reveal(store.variables[store.seen.selected]);
    });
    addEventListener("keydown", this.key);
    addEventListener("hashchange", () => location.reload());
  }

  private mounted = (graph: Graph): void => {
    this.graph = graph;
  };

  private key = (event: KeyboardEvent): void => {
    const { store } = this.props;
    const typing = event.target instanceof HTMLInputElement && event.target.type !== "range";
    const control = event.ctrlKey || event.metaKey;
    const name = event.key.toLowerCase();
    if (event.key === "Escape") {
      if (store.seen.help) store.set({ help: false });
      else if (store.seen.selected >= 0 && !typing) store.select(-1);
      return;
    }
    if (typing) return;
    if (control && name === "z" && !event.shiftKey) store.undo();
    else if (control && (name === "y" || (name === "z" && event.shiftKey))) store.redo();
    else if (control || event.altKey) return;
    else if (name === "/") this.search.current?.focus();
    else if (name === "?") store.set({ help: !store.seen.help });
    else if (name === "c") store.showChanges(!store.seen.changes);
    else if (name === "v" && store.document.factor) void store.show(store.seen.view === "graph" ? "factor" : "graph");
    else if (store.seen.view === "factor" && (name === "," || name === ".")) {
      store.goTo((store.seen.step ?? store.steps) + (name === "." ? 1 : -1));
    } else if (name === "f") this.graph?.viewport.fit();
    else return;
    event.preventDefault();
  };

  private picture = async (kind: "svg" | "png"): Promise<void> => {
    const { store } = this.props;
    const { box } = this.graph!;
    const svg = svgOf(this.graph!.drawing, box);
    const data = kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await pngOf(svg, box.width, box.height);
    download(data, `${store.document.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "network"}.${kind}`);
  };

  private find = (event: Event): void => {
    const { store } = this.props;
    const wanted = (event.currentTarget as HTMLInputElement).value.trim().toLowerCase();
    if (!wanted) return;
    const names = store.variables.map((variable) => variable.title.toLowerCase());
    const exact = names.indexOf(wanted);
    const begins = names.findIndex((name) => name.startsWith(wanted));
    const found = [exact, begins, names.findIndex((name) => name.includes(wanted))].find((at) => at >= 0);
    store.set({ notice: found === undefined ? text.noMatch : "" });
    if (found !== undefined) this.reveal(store.variables[found], true);
  };

  private reveal = (variable: Variable, select = false): void => {
    this.graph?.reveal(variable);
    if (select) this.props.store.select(variable.number);
    this.props.store.set({ focus: [variable.number, 0] });
  };

  private over = (event: DragEvent): void => {
    event.preventDefault();
    if (!this.state.dropping) this.setState({ dropping: true });
  };

  private out = (event: DragEvent): void => {
    if (!event.relatedTarget) this.setState({ dropping: false });
  };

  private dropped = (event: DragEvent): void => {
    event.preventDefault();
    this.setState({ dropping: false });
    void openFile(this.props.store, event.dataTransfer?.files[0]);
  };

  private turn = (): void => {
    const dark = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const theme: Theme = dark === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    this.setState({ theme });
  };

  override render({ store }: { store: Store }) {
    const { seen, document: about } = store;
    return (
      <div class={`page ${this.state.dropping ? "dropping" : ""}`} onDragOver={this.over} onDragLeave={this.out} onDrop={this.dropped}>
        <header class="top">
          <h1 dir="auto" title={about.title}>{about.title}</h1>
          <input
            ref={this.search}
            type="search"
            list="names"
            placeholder={text.search}
            aria-label={text.search}
            onChange={this.find}
            onKeyDown={(event) => {
              if (event.key === "Enter") this.find(event), this.graph?.focusOn(...store.seen.focus);
            }}
          />
          <NameList store={store} />
          {about.factor && (
            <div class="buttons joined" role="group" aria-label={text.viewLabel}>
              <button aria-pressed={seen.view === "graph"} onClick={() => void store.show("graph")}>{text.network}</button>
              <button aria-pressed={seen.view === "factor"} onClick={() => void store.show("factor")}>{text.factorGraph}</button>
            </div>
          )}
          <div class="buttons">
            <button onClick={() => store.undo()} disabled={!seen.past.length}>{text.undo}</button>
            <button onClick={() => store.redo()} disabled={!seen.future.length}>{text.redo}</button>
            <button onClick={() => store.clear()} disabled={!seen.evidence.size} title={text.clearHint}>{text.clear}</button>
          </div>
          <div class="buttons">
            <button aria-pressed={seen.changes} title={text.changesHint} onClick={() => store.showChanges(!seen.changes)}>{text.changes}</button>
            <button aria-pressed={seen.pinned} title={seen.pinned ? text.unpin : text.pinHint} onClick={() => store.pin()}>{text.pin}</button>
          </div>
          <Probability store={store} />
          <div class="buttons end">
            <button aria-label={text.theme} title={text.theme} onClick={this.turn}>◐</button>
            <button aria-label={text.help} title={text.help} onClick={() => store.set({ help: !seen.help })}>?</button>
          </div>
        </header>
        <main>
          <div class="drawing">
          <Graph key={seen.view} store={store} factor={seen.view === "factor"} mounted={this.mounted} />
          <div class="zoom">
            <button aria-label={text.zoomIn} title={text.zoomIn} onClick={() => this.graph?.viewport.zoom(1.25)}>+</button>
            <button aria-label={text.zoomOut} title={text.zoomOut} onClick={() => this.graph?.viewport.zoom(0.8)}>−</button>
            {store.away.edges.size > 0 && <button onClick={() => store.unfold()}>{text.unfoldAll}</button>}
            <button aria-label={text.fitHint} title={text.fitHint} onClick={() => this.graph?.viewport.fit()}>{text.fit}</button>
          </div>
          <Notices store={store} />
          </div>
          {seen.view === "factor" && seen.answer?.messages && <Stepper store={store} />}
        </main>
        <Panel store={store} sharing={{ picture: (kind) => void this.picture(kind) }} reveal={this.reveal} />
        {seen.help && <Help store={store} />}
      </div>
    );
  }
}

/** The names that the search field offers, drawn once. */
class NameList extends Component<{ store: Store }> {
  override shouldComponentUpdate(): boolean {
    return false;
  }

  override render({ store }: { store: Store }) {
    return <datalist id="names">{store.variables.map((one) => <option key={one.number} value={one.title} />)}</datalist>;
  }
}

function Probability({ store }: { store: Store }) {
  const { answer, busy } = store.seen;
  if (!answer || !store.prior) return <output class="probability">{text.computing}</output>;
  const relative = answer.logLikelihood - store.prior.logLikelihood;
  const said = probability(relative);
  const markov = store.document.kind === "markov";
  const hint = `${text.logarithm} ${signed(answer.logLikelihood, 6)}${markov ? `; ${text.relative} ${signed(relative, 6)}` : ""}`;
  return (
    <output class={`probability ${busy ? "busy" : ""}`} title={hint} aria-label={text.announce(said)}>
      <span>{text.probability}</span> <b>{store.document.loops ? "≈ " : ""}{said}</b>
    </output>
  );
}

function Notices({ store }: { store: Store }) {
  const { answer, failure, notice } = store.seen;
  const clash = (answer?.conflict ?? []).flatMap((edge) => store.byEdge.get(edge) ?? []).filter((one) => store.weights(one));
  return (
    <div class="notices" role="status">
      {failure && <p class="failure">{text.failed} {failure}</p>}
      {notice && <p>{notice}</p>}
      {answer?.logLikelihood === -Infinity && (
        <div class="impossible">
          <p dir="auto">
            {text.impossible} {clash.length ? text.cannotGo(clash.map((one) => store.said(one))) : text.together}
          </p>
          <div class="buttons">
            {clash.slice(0, 4).map((one) => (
              <button key={one.number} dir="auto" onClick={() => store.takeBack(one)}>{text.takeBack(store.said(one))}</button>
            ))}
          </div>
        </div>
      )}
    </div>
  );
}

function Help({ store }: { store: Store }) {
  return (
    <div class="help" role="dialog" aria-label={text.help}>
      <header>
        <h2>{text.help}</h2>
        <button class="quiet" aria-label={text.close} onClick={() => store.set({ help: false })}>×</button>
      </header>
      <dl>
        {text.keys.map(([keys, what]) => (
          <div key={keys}><dt>{keys}</dt><dd>{what}</dd></div>
        ))}
      </dl>
    </div>
  );
}

function read(id: string): string {
  return document.getElementById(id)?.textContent ?? "";
}

function start(): void {
  const store = new Store(JSON.parse(read("model")) as Document, read("arrays"));
  const root = document.getElementById("page")!;
  root.replaceChildren();
  render(<App store={store} />, root);
  // For the console, and for tests: what is believed, given weights by the number of a variable.
  const ask = (given: [number, number[]][]) => store.believed(given.map(([number, weights]) => [store.variables[number].edge, weights]));
  Object.assign(window, { fgrn: { store, ask } });
}

/** The name of a frame whose page begins when it comes into sight: a notebook may have many that nobody opens. */
const WHEN_SEEN = "fgrn-when-seen";

if (window.name !== WHEN_SEEN) start();
else {
  const observer = new IntersectionObserver((found) => {
    if (!found.some((one) => one.isIntersecting)) return;
    observer.disconnect();
    start();
  });
  observer.observe(document.documentElement);
}
