// What was signed once is sent until it is known what became of it: the same body, which the service counts once.

const MAX_PAUSE_SECONDS = 8;

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** An answer that says nothing of what became of it: too many requests, the service's fault, or of something in between. */
export const unsure = (status) => status === 429 || status >= 500;

/** How long to wait before another try, in milliseconds: what an answer asks for, and never so long that people go away. */
export const patience = (attempt, said) => 1000 * Math.min(said?.retryAfter ?? 2 + attempt, MAX_PAUSE_SECONDS);

/** The first answer that tells. `waiting` hears why there is another try, and ends them with true: then it is null. */
export async function answered(send, waiting) {
  for (let attempt = 0; ; attempt += 1) {
    const said = await send().catch(() => null); // no answer, or none that can be read
    if (said && !unsure(said.status)) return said;
    if (waiting(said)) return null;
    await pause(patience(attempt, said));
  }
}
