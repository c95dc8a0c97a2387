// Calls of the API, and the patience to make them again.

import { ApiError, UnexpectedAnswer, Unreachable, WrongVersion } from "./errors.js";
import type { Query } from "./operations.js";

/** `meta.version` of the API that this library speaks. */
export const API_VERSION = "service-agent-api-v1";
export const PREFIX = "/api/agent/v1";
/** How long an answer may take. A trade takes longer, as it waits for the chain. */
export const READ_SECONDS = 20;
const FIRST_PAUSE = 0.25;
const MAX_PAUSE = 5;

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
}

/** No answer: refused, cut off or timed out. Whether the request arrived is not known. */
export interface Lost {
  lost: string;
}

export const sleep = (seconds: number): Promise<void> => new Promise((done) => setTimeout(done, seconds * 1000));

/** The time there is for something, and growing pauses within it. */
export class Patience {
  private readonly ends: number;
  private pause = FIRST_PAUSE;

  constructor(seconds: number) {
    this.ends = performance.now() / 1000 + seconds;
  }

  /** How long to wait before another try, undefined when there is no time for one. `least`: what the API asked for. */
  next(least = 0): number | undefined {
    const pause = Math.max(this.pause * (0.7 + 0.6 * Math.random()), least);
    this.pause = Math.min(this.pause * 2, MAX_PAUSE);
    return performance.now() / 1000 + pause > this.ends ? undefined : pause;
  }
}

export class Http {
  constructor(
    readonly baseUrl: string,
    private readonly fetch: typeof globalThis.fetch,
  ) {}

  url(path: string, query: Query = {}): string {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    return `${this.baseUrl}${PREFIX}${path}${text ? `?${text}` : ""}`;
  }

  async ask(
    method: string,
    path: string,
    options: { query?: Query; body?: unknown; headers?: Record<string, string>; seconds?: number } = {},
  ): Promise<Reply | Lost> {
    const { query, body, headers, seconds = READ_SECONDS } = options;
    try {
      const response = await this.fetch(this.url(path, query), {
        method,
        headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        redirect: "error",
        signal: AbortSignal.timeout(seconds * 1000),
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      return { lost: why(error) };
    }
  }

  /** A stream of lines, for as long as it says something every `silence` seconds. */
  async *lines(path: string, query: Query, headers: Record<string, string>, silence: number): AsyncGenerator<string> {
    const stop = new AbortController();
    let clock = setTimeout(() => stop.abort(), silence * 1000);
    try {
      const response = await this.fetch(this.url(path, query), { headers, redirect: "error", signal: stop.signal });
      if (response.status !== 200 || response.body === null) {
        throw refusal({ status: response.status, headers: response.headers, text: await response.text() });
      }
      let kept = "";
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        clearTimeout(clock);
        clock = setTimeout(() => stop.abort(), silence * 1000);
        const parts = (kept + chunk).split(/\r?\n/);
        kept = parts.pop() ?? "";
        yield* parts;
      }
    } finally {
      clearTimeout(clock);
      stop.abort();
    }
  }

  /** The answer to a call that may be made again as often as one likes: it changes nothing. */
  async asked<T>(method: string, path: string, query: Query | undefined, patience: Patience): Promise<T> {
    for (;;) {
      const heard = await this.ask(method, path, query === undefined ? {} : { query });
      const error = "lost" in heard ? new Unreachable(`${method} ${path}: ${heard.lost}`) : wrong(heard);
      if (error === undefined) return decoded<T>((heard as Reply).text);
      if (error instanceof ApiError && !error.retriable) throw error;
      const pause = patience.next(error instanceof ApiError ? error.retryAfter : undefined);
      if (pause === undefined) throw error;
      await sleep(pause);
    }
  }
}

const wrong = (reply: Reply): ApiError | undefined =>
  reply.status >= 200 && reply.status < 300 ? undefined : refusal(reply);

/**
 * The error of a non-2xx answer. An answer not in the API's format did not come from it and gets no code: a proxy's answer
 * may have an `error` field too.
 */
export function refusal(reply: Reply): ApiError {
  let content: unknown;
  try {
    content = JSON.parse(reply.text);
  } catch {
    content = undefined;
  }
  const body = isTheApis(content) ? content : { message: `The answer has status ${reply.status} and is not the API's.` };
  return new ApiError(reply.status, reply.headers, body);
}

/** Every refusal of the API has a code and says whether the same request may succeed later. */
function isTheApis(content: unknown): content is Record<string, unknown> {
  const { error, retriable } = (content ?? {}) as Record<string, unknown>;
  return typeof error === "string" && typeof retriable === "boolean";
}

export function decoded<T>(text: string): T {
  let made: unknown;
  try {
    made = JSON.parse(text);
  } catch {
    throw new UnexpectedAnswer("The answer is not JSON.");
  }
  if (typeof made !== "object" || made === null) throw new UnexpectedAnswer("The answer is no JSON object.");
  const version = (made as { meta?: { version?: string } }).meta?.version ?? API_VERSION;
  if (version !== API_VERSION) throw new WrongVersion(`The API speaks ${version}, this library ${API_VERSION}.`);
  return made as T;
}

function why(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : `${error.name}: ${error.message}`;
}
