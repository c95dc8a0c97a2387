// What was signed once is sent until it is known what became of it: the same body, which the service counts once.

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Says nothing of what became of it: too many requests, the service's fault, or something that stands between. */
export const unsure = (status) => status === 429 || status >= 500;

/** The first answer that tells; null after so many tries. `waiting` hears before each further one why there is one. */
export async function answered(send, tries, waiting) {
  for (let attempt = 0; attempt < tries; attempt += 1) {
    let said = null;
    try {
      said = await send();
    } catch {
      // No answer, or none that can be read.
    }
    if (said && !unsure(said.status)) return said;
    waiting(said);
    await pause(1000 * (said?.retryAfter ?? 2));
  }
  return null;
}
