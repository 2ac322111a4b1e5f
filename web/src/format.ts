// Numbers and names as people read them.

/** A probability in percent; what is small or nearly certain does not look like 0 or 1. */
export function percent(share: number): string {
  if (share <= 1e-12) return "0%";
  if (share >= 1 - 1e-12) return "100%";
  if (share < 0.001) return "<0.1%";
  if (share > 0.999) return ">99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

/** A probability given by its natural logarithm, however small. */
export function probability(logarithm: number): string {
  if (logarithm === -Infinity) return "0";
  const tens = logarithm / Math.LN10;
  if (tens > -4 && tens < 6) return plain(Math.exp(logarithm));
  let exponent = Math.floor(tens);
  let mantissa = (10 ** (tens - exponent)).toFixed(2);
  if (mantissa === "10.00") [mantissa, exponent] = ["1.00", exponent + 1];
  return `${mantissa} × 10${raised(exponent)}`;
}

function plain(value: number): string {
  return String(Number(value.toPrecision(4)));
}

function raised(exponent: number): string {
  return [...String(exponent)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("");
}

/** A number with a true minus. */
export function signed(value: number, digits = 4): string {
  return Number(value.toPrecision(digits)).toString().replace("-", "−");
}

/** A name or label in one line that can be drawn. */
export function readable(value: unknown): string {
  const line = String(value).slice(0, 400).replace(/\s+/gu, " ").trim();
  return line.replace(/[\p{Cc}\p{Cs}\p{Co}\u202A-\u202E\u2066-\u2069]/gu, "\ufffd") || "(blank)";
}

const pen = document.createElement("canvas").getContext("2d");
const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';
const widths = new Map<string, number>();

function widthOf(value: string, size: number, weight: number): number {
  const key = `${size}/${weight}/${value}`;
  let found = widths.get(key);
  if (found === undefined) {
    if (pen) pen.font = `${weight} ${size}px ${FAMILY}`;
    found = pen ? pen.measureText(value).width : value.length * size * 0.6;
    widths.set(key, found);
  }
  return found;
}

const fits = new Map<string, string>();

/** A name in one line of at most this many pixels: its middle is left out, as names often end differently. */
export function fitted(value: string, width: number, size: number, weight = 400): string {
  const key = `${width}/${size}/${weight}/${value}`;
  let found = fits.get(key);
  if (found === undefined) {
    found = cut(value, width, size, weight);
    fits.set(key, found);
  }
  return found;
}

function cut(value: string, width: number, size: number, weight: number): string {
  if (widthOf(value, size, weight) <= width) return value;
  const letters = Array.from(value);
  const shortened = (kept: number): string => {
    const end = Math.floor((kept * 2) / 5);
    const tail = end ? letters.slice(letters.length - end).join("").trimStart() : "";
    return `${letters.slice(0, kept - end).join("").trimEnd()}…${tail}`;
  };
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const kept = Math.ceil((low + high) / 2);
    if (widthOf(shortened(kept), size, weight) <= width) low = kept;
    else high = kept - 1;
  }
  return shortened(low);
}

/** A name in letters between two sizes, as large as this many pixels allow; and that size. */
export function enlarged(value: string, width: number, least: number, most: number, weight = 400): [string, number] {
  const whole = Math.floor((least * width) / Math.max(widthOf(value, least, weight), 1));
  const size = Math.min(most, Math.max(least, whole));
  return [fitted(value, width, size, weight), size];
}

/** Whether any property is another one: what has not changed need not be drawn again. */
export function differ(now: object, next: object): boolean {
  const old = now as Record<string, unknown>;
  return Object.entries(next).some(([key, value]) => old[key] !== value);
}
