// Sends one signed message of the cup at a time until its outcome is known, also after a reload. The service counts a
// message once, however often it is sent.
import { refresh } from "./live.js";
import { failed, pendingSlot } from "./pending.js";
import { sendUntilAnswered } from "./retry.js";
import { say } from "./signing.js";
import { WalletError } from "./wallet.js";

/** `sign` returns the message to send, or null when there is nothing to sign; `send` sends the message. `again` returns the
 * text for a retry, `good` and `bad` return the texts for a response. `rests` returns whether the retries end with a response
 * and the message is kept for later. */
export function submitOnce(name, status, { sign, send, again, good, bad, rests = () => false }) {
  const pending = pendingSlot(name, ({ fields }) => fields.signature);
  let open = pending.get();

  /** Sends the open message, or signs a new one if none is open. A new message next to an open one might count as a second. */
  async function go() {
    try {
      open ??= await sign();
      if (open === null) return;
      pending.keep(open);
      say(status, "Sending…");
      const reply = await sendUntilAnswered(() => send(open), (reply) => {
        say(status, reply ? reply.message : again(open), reply ? "bad" : "");
        return rests(reply);
      });
      if (reply === null) return;
      if (reply.ok) say(status, good(open, reply.receipt), "good");
      else say(status, bad(open, reply), "bad");
      pending.forget(open);
      open = null;
      if (reply.ok) await refresh();
    } catch (error) {
      say(status, error instanceof WalletError ? error.message : failed(open !== null), "bad");
    }
  }

  return { go, isOpen: () => open !== null };
}
