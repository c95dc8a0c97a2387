// A wallet's events without gaps or duplicates, however often the stream breaks.

import { ApiError, Unreachable } from "./errors.js";
import { type Http, Backoff, READ_SECONDS, sleep } from "./http.js";
import type { AgentEvent, AgentReplayAnswer } from "./models.js";

/** The service sends a heartbeat every 15 s; a stream that is silent for this long is dead. */
const SILENCE_SECONDS = 40;
const PAUSE_SECONDS = 0.5;
const MAX_PAUSE_SECONDS = 10;

/** A reader's place in a wallet's events. `nextSeq` is the first event not yet received: save it to resume. */
export class Cursor {
  constructor(public nextSeq = 0) {}

  get headers(): Record<string, string> {
    return this.nextSeq > 0 ? { "Last-Event-ID": String(this.nextSeq - 1) } : {};
  }

  /** Marks an event as received; returns whether it is new. */
  take(event: AgentEvent): boolean {
    if (event.seq < this.nextSeq) return false;
    this.nextSeq = event.seq + 1;
    return true;
  }

  /** Returns whether events before this one have not been received. */
  isGapBefore(event: AgentEvent): boolean {
    return event.seq > this.nextSeq;
  }
}

/** Yields each event once and in order, until the caller breaks. */
export async function* events(
  http: Http,
  wallet: string,
  cursor: Cursor,
  tradeId: string | undefined,
): AsyncGenerator<AgentEvent> {
  let pause = PAUSE_SECONDS;
  for (;;) {
    try {
      for await (const event of stream(http, wallet, cursor, tradeId)) {
        pause = PAUSE_SECONDS;
        yield event;
      }
    } catch (error) {
      const passes = error instanceof ApiError ? error.retriable : error instanceof Unreachable || isBroken(error);
      if (!passes) throw error;
    }
    await sleep(pause);
    pause = Math.min(pause * 2, MAX_PAUSE_SECONDS);
  }
}

async function* stream(
  http: Http,
  wallet: string,
  cursor: Cursor,
  tradeId: string | undefined,
): AsyncGenerator<AgentEvent> {
  let data: string[] = [];
  for await (const line of http.lines("/events", { wallet, tradeId }, cursor.headers, SILENCE_SECONDS)) {
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    if (line !== "" || data.length === 0) continue;
    const event = JSON.parse(data.join("\n")) as AgentEvent;
    data = [];
    if (tradeId === undefined && cursor.isGapBefore(event)) yield* missing(http, wallet, cursor, event);
    if (cursor.take(event)) yield event;
  }
}

async function* missing(http: Http, wallet: string, cursor: Cursor, event: AgentEvent): AsyncGenerator<AgentEvent> {
  while (cursor.isGapBefore(event)) {
    const query = { wallet, fromSeq: cursor.nextSeq };
    const page = await http.sendWithRetries<AgentReplayAnswer>("GET", "/events/replay", query, new Backoff(READ_SECONDS));
    for (const each of page.events) if (cursor.take(each)) yield each;
    if (page.events.length === 0) return;
  }
}

/** Returns whether `error` is what fetch throws when a connection cannot be made or breaks. */
const isBroken = (error: unknown): boolean =>
  error instanceof TypeError || (error instanceof Error && error.name === "AbortError");
