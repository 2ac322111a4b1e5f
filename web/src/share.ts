// What leaves the page: its address, the evidence as a line of Python and a command line, and the drawing as a picture.

import { kindOf, observed } from "./evidence";
import { text } from "./text";
import type { Label } from "./protocol";
import type { Store, Variable } from "./store";
import type { Box } from "./viewport";

function literal(label: Label): string {
  if (typeof label === "boolean") return label ? "True" : "False";
  return typeof label === "number" ? String(label) : quoted(label);
}

/** A string of Python: JSON but for halves of surrogate pairs and what cannot be seen, which JSON may leave as they are. */
function quoted(value: string): string {
  const escaped = JSON.stringify(value).replace(/[^\x20-\x7e]/gu, (letter) => {
    if (/\p{L}|\p{N}|\p{P}|\p{S}|\p{M}/u.test(letter)) return letter;
    const code = letter.codePointAt(0)!;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return escaped;
}

function shell(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** `model.propagate({...})`, with the evidence of the page; an estimator has a network that does it. */
export function pythonLine(store: Store): string {
  const known = store.variables.flatMap((variable) => {
    const weights = store.weights(variable);
    if (!weights) return [];
    const state = observed(weights);
    const value = state >= 0 ? literal(variable.labels[state]) : `[${weights.join(", ")}]`;
    return [`${quoted(variable.name)}: [${value}]`];
  });
  const model = store.document.kind === "estimator" ? "model.network_" : "model";
  return `${model}.propagate({${known.join(", ")}})`;
}

/** A number in a bin of a column of an estimator; null for a column without bins. */
function inBin(store: Store, variable: Variable, state: number): number | null {
  const edges = store.document.columns?.find((one) => one.name === variable.name)?.edges;
  return edges ? (state > 0 ? edges[state - 1] : (edges[0] ?? 1) - 1) : null;
}

/** `model.predict_proba({...})`, for a class with refined networks; null where it cannot be asked so. */
export function predictionLine(store: Store): string | null {
  const { refined } = store.document;
  const columns = store.variables.filter((one) => !one.hidden && one.edge !== refined?.edge);
  const known = columns.filter((one) => store.weights(one));
  if (!refined || !columns.length || known.length < store.seen.evidence.size) return null; // other evidence than on columns
  if (known.some((one) => observed(store.weights(one)) < 0)) return null;
  const values = known.map((one) => {
    const state = observed(store.weights(one));
    return `${quoted(one.name)}: [${inBin(store, one, state) ?? literal(one.labels[state])}]`;
  });
  return `model.predict_proba({${values.join(", ") || `${quoted(columns[0].name)}: [None]`}})`;
}

/** The question to `fgrn query`, or to `fgrn draw` for a model that was learnt; null for evidence that cannot be written so. */
export function commandLine(store: Store): string | null {
  const { kind, source } = store.document;
  const asked = kind === "bayesian" || kind === "markov";
  const given = store.variables.filter((variable) => store.weights(variable));
  const unsayable = (one: Variable): boolean => observed(store.weights(one)) < 0 || (kind === "estimator" && one.hidden);
  if (!asked && given.some(unsayable)) return null;
  const known = given.flatMap((variable) => {
    const weights = store.weights(variable)!;
    const state = observed(weights);
    if (state >= 0) return [`${variable.name}=${inBin(store, variable, state) ?? variable.labels[state]}`];
    if (kindOf(weights) !== "not") return [`${variable.name}=[${weights.join(",")}]`];
    return weights.flatMap((weight, other) => (weight ? [] : [`${variable.name}!=${variable.labels[other]}`]));
  });
  const words = [asked ? "fgrn query" : "fgrn draw", shell(source || "MODEL"), ...known.map((one) => `--given ${shell(one)}`)];
  return [...words, ...(asked ? [] : ["-o beliefs.svg"])].join(" ");
}

const DRAWN = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-family", "font-size",
  "font-weight", "text-anchor", "text-decoration", "display", "visibility",
];

/** The drawing as a picture of its own: styles are written into it, and all of it is in sight. */
export function svgOf(drawing: SVGSVGElement, { x, y, width, height }: Box): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [drawing, copy].map((one) => [...one.querySelectorAll("*")]);
  to.forEach((element, at) => {
    const style = getComputedStyle(from[at]);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-pressed"]) element.removeAttribute(name);
  });
  copy.removeAttribute("class");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.querySelector("g")?.removeAttribute("transform");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: getComputedStyle(document.body).backgroundColor }))
    paper.setAttribute(name, String(value));
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

const MOST_PIXELS = 4e7;

/** The same as pixels, twice as many each way where that is not too many. */
export async function pngOf(svg: string, width: number, height: number): Promise<Blob> {
  const scale = Math.min(2, Math.sqrt(MOST_PIXELS / (width * height)));
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(text.noPicture))), "image/png"),
    );
  } finally {
    URL.revokeObjectURL(address);
  }
}

export function download(data: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
