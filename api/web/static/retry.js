// Sends a signed message until its outcome is known. Every try has the same body, so the service counts it once.

const MAX_PAUSE_SECONDS = 8;

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Returns whether a response leaves the outcome unknown: rate limited, or a failure of the service or of a proxy. */
export const isOutcomeUnknown = (status) => status === 429 || status >= 500;

/** Returns the milliseconds to wait before the next try: as the response asks, but never so long that people leave. */
export const retryDelay = (attempt, reply) => 1000 * Math.min(reply?.retryAfter ?? 2 + attempt, MAX_PAUSE_SECONDS);

/** Sends until a response settles the outcome. `waiting` gets the response before each retry; if it returns true, the retries
 * end and the result is null. */
export async function sendUntilAnswered(send, waiting) {
  for (let attempt = 0; ; attempt += 1) {
    const reply = await send().catch(() => null); // no response, or an unreadable one
    if (reply && !isOutcomeUnknown(reply.status)) return reply;
    if (waiting(reply)) return null;
    await pause(retryDelay(attempt, reply));
  }
}
