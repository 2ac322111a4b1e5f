// The page's side of the worker: one question at a time, and of those that wait only the last is asked.

import { text } from "./text";
import type { Places } from "./plan";
import type { AllMessages, Answer, Document, Failure, Given, Start, Studied, Study } from "./protocol";

declare const WORKER_SOURCE: string;

function bytes(base64: string): ArrayBuffer {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) out[at] = text.charCodeAt(at);
  return out.buffer;
}

type Said = Answer | Studied | Failure;

interface Asked {
  kind: "ask" | "study";
  id: number;
}

function arrays(values: number[][]): Float64Array[] {
  return values.map((one) => Float64Array.from(one));
}

/** Messages as a server sends them; one that is the same for all states tells nothing. */
function messagesOf<Sent extends { forward: number[][]; backward: number[][] }>(sent: Sent): Sent & AllMessages {
  const known = (values: number[][]): Uint8Array => Uint8Array.from(values, (one) => Number(one.some((value) => Math.abs(value - one[0]) > 1e-12)));
  const [forward, backward] = [arrays(sent.forward), arrays(sent.backward)];
  return { ...sent, forward, backward, knownForward: known(sent.forward), knownBackward: known(sent.backward) };
}

/** Ask the server that the page came from. */
async function asked(question: Asked): Promise<Said> {
  try {
    const response = await fetch(question.kind, { method: "POST", body: JSON.stringify(question) });
    if (!response.ok) throw new Error(await response.text());
    const said = await response.json();
    if (said.error || question.kind === "study") return { ...said, id: question.id };
    const logLikelihood = said.logLikelihood ?? -Infinity;
    const loops = said.loops ? { ...said.loops, rounds: said.loops.rounds.map(messagesOf) } : null;
    const messages = said.messages ? messagesOf(said.messages) : null;
    return { ...said, id: question.id, logLikelihood, messages, loops, beliefs: arrays(said.beliefs), others: arrays(said.others) };
  } catch (error) {
    return { id: question.id, error: error instanceof Error ? error.message : String(error) };
  }
}

/** The values of a row of the table that the server has. */
export async function servedRow(row: number): Promise<string[]> {
  const response = await fetch("row", { method: "POST", body: JSON.stringify({ row }) });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()).values;
}

interface Question {
  said: object;
  resolve: (answer: Answer | Studied | null) => void;
  reject: (error: Error) => void;
}

export class Client {
  private readonly worker: Pick<Worker, "postMessage">;
  private asked: Question | null = null;
  private waiting: Question | null = null;
  private count = 0;

  readonly buffer: ArrayBuffer;

  constructor(about: Document, data: string | ArrayBuffer) {
    if (about.served) {
      this.buffer = typeof data === "string" ? bytes(data) : data;
      this.worker = { postMessage: (question: Asked) => void asked(question).then((said) => this.answered(said)) };
      return;
    }
    const address = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
    const worker = new Worker(address);
    this.worker = worker;
    worker.onmessage = (event: MessageEvent<Said>) => this.answered(event.data);
    worker.onerror = (event) => this.answered({ id: this.count, error: event.message || text.workerFailed });
    const buffer = (this.buffer = typeof data === "string" ? bytes(data) : data);
    const places: Places = about.arrays;
    const edges = about.variables.map((variable) => variable.edge);
    const { logScale, loops = false, refined = null } = about;
    const start: Start = { kind: "start", buffer, places, logScale, edges, loops, refined };
    this.worker.postMessage(start);
  }

  /** The answer; null if a later question took the place of this one before it was asked. */
  ask(given: Given, messages = false): Promise<Answer | null> {
    return this.put({ kind: "ask", given, messages }) as Promise<Answer | null>;
  }

  /** What speaks for a target, and what to ask next. */
  study(given: Given, wanted: Pick<Study, "target" | "assignments" | "profiles">): Promise<Studied | null> {
    return this.put({ kind: "study", given, ...wanted }) as Promise<Studied | null>;
  }

  private put(said: object): Promise<Answer | Studied | null> {
    return new Promise((resolve, reject) => {
      this.waiting?.resolve(null);
      this.waiting = { said, resolve, reject };
      this.next();
    });
  }

  private next(): void {
    if (this.asked || !this.waiting) return;
    this.asked = this.waiting;
    this.waiting = null;
    this.worker.postMessage({ ...this.asked.said, id: ++this.count });
  }

  private answered(said: Said): void {
    const asked = this.asked;
    this.asked = null;
    if ("error" in said) asked?.reject(new Error(said.error));
    else asked?.resolve(said);
    this.next();
  }
}
