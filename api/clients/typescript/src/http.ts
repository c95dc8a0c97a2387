// API requests, with retries.

import { ApiError, UnexpectedAnswer, Unreachable, WrongVersion } from "./errors.js";
import type { Query } from "./operations.js";

/** The `meta.version` of the API that this library supports. */
export const API_VERSION = "service-agent-api-v1";
export const PREFIX = "/api/agent/v1";
/** The default timeout of a request. A trade has a longer timeout, since it waits for the chain. */
export const READ_SECONDS = 20;
const FIRST_PAUSE = 0.25;
const MAX_PAUSE = 5;

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * A request without a response: the connection was refused, cut off or timed out. The request may or may not have
 * arrived.
 */
export interface Lost {
  lost: string;
}

export const sleep = (seconds: number): Promise<void> => new Promise((done) => setTimeout(done, seconds * 1000));

/** Growing pauses between retries, within a deadline. */
export class Backoff {
  private readonly ends: number;
  private pause = FIRST_PAUSE;

  constructor(seconds: number) {
    this.ends = performance.now() / 1000 + seconds;
  }

  /**
   * Returns the seconds to wait before the next try, or undefined if the deadline is too near. `least`: the API's
   * Retry-After.
   */
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

  async send(
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

  /** Streams lines, and aborts after `silence` seconds without data. */
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

  /** Makes a call that changes nothing, until there is a response. */
  async sendWithRetries<T>(method: string, path: string, query: Query | undefined, backoff: Backoff): Promise<T> {
    for (;;) {
      const response = await this.send(method, path, query === undefined ? {} : { query });
      const error = "lost" in response ? new Unreachable(`${method} ${path}: ${response.lost}`) : wrong(response);
      if (error === undefined) return decode<T>((response as Reply).text);
      if (error instanceof ApiError && !error.retriable) throw error;
      const pause = backoff.next(error instanceof ApiError ? error.retryAfter : undefined);
      if (pause === undefined) throw error;
      await sleep(pause);
    }
  }
}

const wrong = (reply: Reply): ApiError | undefined =>
  reply.status >= 200 && reply.status < 300 ? undefined : refusal(reply);

/** Returns the error of a non-2xx response. One in another format did not come from the API and gets no code. */
export function refusal(reply: Reply): ApiError {
  let content: unknown;
  try {
    content = JSON.parse(reply.text);
  } catch {
    content = undefined;
  }
  const body = isTheApis(content) ? content : { message: `The response with status ${reply.status} did not come from the API.` };
  return new ApiError(reply.status, reply.headers, body);
}

/** Returns whether `content` is a refusal by the API, which has a code and `retriable`. */
function isTheApis(content: unknown): content is Record<string, unknown> {
  const { error, retriable } = (content ?? {}) as Record<string, unknown>;
  return typeof error === "string" && typeof retriable === "boolean";
}

export function decode<T>(text: string): T {
  let made: unknown;
  try {
    made = JSON.parse(text);
  } catch {
    throw new UnexpectedAnswer("The response is not JSON.");
  }
  if (typeof made !== "object" || made === null) throw new UnexpectedAnswer("The response is not a JSON object.");
  const version = (made as { meta?: { version?: string } }).meta?.version ?? API_VERSION;
  if (version !== API_VERSION) throw new WrongVersion(`The API has version ${version}; this library supports ${API_VERSION}.`);
  return made as T;
}

function why(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : `${error.name}: ${error.message}`;
}
