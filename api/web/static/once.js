// One signed message of the cup at a time: it is sent, also by a page that is loaded again, until it is known what became of
// it. However often it is sent, it counts once.
import { refresh } from "./live.js";
import { failed, pendingOf } from "./pending.js";
import { answered } from "./resend.js";
import { say } from "./signing.js";
import { WalletError } from "./wallet.js";

/** `sign` gives what is sent, or null when there is nothing to sign; `send` sends it. `again` says that no answer came and that
 * it is sent once more, `good` and `bad` what the answer means; `rests` is whether an answer leaves it for later. */
export function once(name, status, { sign, send, again, good, bad, rests = () => false }) {
  const kept = pendingOf(name, ({ fields }) => fields.signature);
  let open = kept.get();

  /** Signs, unless something is open still: that comes first, for a new one might be its double. */
  async function go() {
    try {
      open ??= await sign();
      if (open === null) return;
      kept.keep(open);
      say(status, "Sending…");
      const said = await answered(() => send(open), (held) => {
        say(status, held ? held.message : again(open), held ? "bad" : "");
        return rests(held);
      });
      if (said === null) return;
      if (said.ok) say(status, good(open, said.receipt), "good");
      else say(status, bad(open, said), "bad");
      kept.forget(open);
      open = null;
      if (said.ok) await refresh();
    } catch (error) {
      say(status, error instanceof WalletError ? error.message : failed(open !== null), "bad");
    }
  }

  return { go, isOpen: () => open !== null };
}
