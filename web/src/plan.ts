// The Plan of a network and its Programs, as the exporter packed them: index arrays and parameters in one buffer.

import type { BlockPlace } from "./protocol";

export type Kind = "f8" | "i4" | "i2" | "u1";
export type Places = Record<string, [Kind, number, number]>;

export interface Program {
  steps: Int32Array; // rows of (kind, block, first target, last target)
  targets: Int32Array; // legs
  boundary: Int32Array;
  roots: Int32Array;
}

export interface Plan {
  values: Float64Array;
  cardinality: Int32Array;
  offset: Int32Array;
  driver: Uint8Array;
  reader: Uint8Array;
  sourceEdge: Int32Array;
  sourceAt: Int32Array;
  isFactor: Uint8Array;
  sisoInput: Int32Array;
  sisoOutput: Int32Array;
  sisoTable: Int32Array;
  tableOffset: Int32Array;
  tableShape: Int32Array;
  legStart: Int32Array;
  legEdge: Int32Array;
  legIsInput: Uint8Array;
  legMap: Int32Array;
  maps: Int32Array;
  diverterSize: Int32Array;
  diverterRun: Int32Array;
}

function array(buffer: ArrayBuffer, places: Places, name: string): Float64Array | Int32Array | Int16Array | Uint8Array {
  const place = places[name];
  if (!place) throw new Error(`The page has no array ${name}.`);
  const [kind, first, count] = place;
  if (kind === "f8") return new Float64Array(buffer, first, count);
  if (kind === "i2") return new Int16Array(buffer, first, count);
  return kind === "i4" ? new Int32Array(buffer, first, count) : new Uint8Array(buffer, first, count);
}

/** An array of parameters. */
export function parametersOf(buffer: ArrayBuffer, places: Places, name: string): Float64Array {
  return array(buffer, places, name) as Float64Array;
}

export function planOf(buffer: ArrayBuffer, places: Places): Plan {
  const whole = (name: string): Int32Array => Int32Array.from(array(buffer, places, name));
  const flags = (name: string): Uint8Array => Uint8Array.from(array(buffer, places, name));
  return {
    values: parametersOf(buffer, places, "values"),
    cardinality: whole("cardinality"),
    offset: whole("offset"),
    driver: flags("driver"),
    reader: flags("reader"),
    sourceEdge: whole("source_edge"),
    sourceAt: whole("source_at"),
    isFactor: flags("is_factor"),
    sisoInput: whole("siso_input"),
    sisoOutput: whole("siso_output"),
    sisoTable: whole("siso_table"),
    tableOffset: whole("table_offset"),
    tableShape: whole("table_shape"),
    legStart: whole("leg_start"),
    legEdge: whole("leg_edge"),
    legIsInput: flags("leg_is_input"),
    legMap: whole("leg_map"),
    maps: whole("maps"),
    diverterSize: whole("diverter_size"),
    diverterRun: whole("diverter_run"),
  };
}

/** The edges at a block. */
export function edgesOf(plan: Plan, block: BlockPlace): number[] {
  if (block.kind === "siso") return [plan.sisoInput[block.number], plan.sisoOutput[block.number]];
  if (block.kind !== "diverter") return [plan.sourceEdge[block.number]];
  return Array.from(plan.legEdge.subarray(plan.legStart[block.number], plan.legStart[block.number + 1]));
}

/** Orders in which so many values become known, as in Python; null for more values than the page has orders of. */
export function ordersOf(buffer: ArrayBuffer, places: Places, known: number): Int16Array[] | null {
  const counts = array(buffer, places, "order_counts") as Int16Array;
  if (known >= counts.length) return null;
  const all = array(buffer, places, "orders") as Int16Array;
  const first = counts.subarray(0, known).reduce((sum, count, size) => sum + count * size, 0);
  return Array.from({ length: counts[known] }, (_, at) => all.subarray(first + at * known, first + (at + 1) * known));
}

export function programOf(buffer: ArrayBuffer, places: Places, name: string): Program {
  const part = (what: string): Int32Array => array(buffer, places, `${name}.${what}`) as Int32Array;
  return { steps: part("steps"), targets: part("targets"), boundary: part("boundary"), roots: part("roots") };
}
