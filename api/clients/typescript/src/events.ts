// A wallet's events without gaps and without doubles, through every break of the stream.

import { ApiError, Unreachable } from "./errors.js";
import { type Http, Patience, READ_SECONDS, sleep } from "./http.js";
import type { AgentEvent, AgentReplayAnswer } from "./models.js";

/** The service says something every 15 s; a stream that says nothing for so long is dead. */
const SILENCE_SECONDS = 40;
const PAUSE_SECONDS = 0.5;
const MAX_PAUSE_SECONDS = 10;

/** Where a reader is in a wallet's events: `nextSeq` is the first it has not had. Keep that, and go on from there. */
export class Cursor {
  constructor(public nextSeq = 0) {}

  get headers(): Record<string, string> {
    return this.nextSeq > 0 ? { "Last-Event-ID": String(this.nextSeq - 1) } : {};
  }

  /** Whether this event is new; it counts as had then. */
  take(event: AgentEvent): boolean {
    if (event.seq < this.nextSeq) return false;
    this.nextSeq = event.seq + 1;
    return true;
  }

  /** Whether events lie between what was had and this one. */
  misses(event: AgentEvent): boolean {
    return event.seq > this.nextSeq;
  }
}

/** Each event once and in order, for ever: `break` to end it. */
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
    if (tradeId === undefined && cursor.misses(event)) yield* between(http, wallet, cursor, event);
    if (cursor.take(event)) yield event;
  }
}

async function* between(http: Http, wallet: string, cursor: Cursor, event: AgentEvent): AsyncGenerator<AgentEvent> {
  while (cursor.misses(event)) {
    const query = { wallet, fromSeq: cursor.nextSeq };
    const page = await http.asked<AgentReplayAnswer>("GET", "/events/replay", query, new Patience(READ_SECONDS));
    for (const each of page.events) if (cursor.take(each)) yield each;
    if (page.events.length === 0) return;
  }
}

/** What fetch throws when a connection cannot be made, or ends in the middle. */
const isBroken = (error: unknown): boolean =>
  error instanceof TypeError || (error instanceof Error && error.name === "AbortError");
