// A signed message is sent until its outcome is known: always the same body, which the service counts once.

const MAX_PAUSE_SECONDS = 8;

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** An answer that leaves the outcome open: too many requests, or a failure of the service or of a proxy before it. */
export const unsure = (status) => status === 429 || status >= 500;

/** How long to wait before another try, in milliseconds: what an answer asks for, and never so long that people go away. */
export const patience = (attempt, said) => 1000 * Math.min(said?.retryAfter ?? 2 + attempt, MAX_PAUSE_SECONDS);

/** Sends until an answer settles the outcome. `waiting` gets the answer before each further try; if it returns true, the
 * tries end and the result is null. */
export async function answered(send, waiting) {
  for (let attempt = 0; ; attempt += 1) {
    const said = await send().catch(() => null); // no answer, or none that can be read
    if (said && !unsure(said.status)) return said;
    if (waiting(said)) return null;
    await pause(patience(attempt, said));
  }
}
