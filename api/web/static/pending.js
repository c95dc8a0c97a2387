// Stores signed messages in the browser while their outcome is unknown. A reloaded page then carries on with a message
// instead of losing it or asking for a second signature.

/** Returns a slot that stores one signed message at a time. `keyOf` returns what identifies a message. */
export function pendingSlot(what, keyOf) {
  const name = `vpm.pending.${what}`;
  let refused = null; // a message the browser refused to store, as private windows may: it lasts for this page only

  function get() {
    if (refused !== null) return refused;
    try {
      return JSON.parse(localStorage.getItem(name) ?? "null");
    } catch {
      return null;
    }
  }

  function keep(value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
      refused = null;
    } catch {
      refused = value;
    }
  }

  /** Empties the slot, unless another message has taken it since. */
  function forget(value) {
    const there = get();
    if (!there || keyOf(there) !== keyOf(value)) return;
    refused = null;
    try {
      localStorage.removeItem(name);
    } catch {
      // The message was never stored there.
    }
  }

  return { get, keep, forget };
}

/** Returns the text for an error without a message. `isOpen`: whether a signed message may have been sent. */
export function failed(isOpen, what = "That did not work.") {
  return isOpen ? `${what} It is safe to try again: it counts only once.` : `${what} Nothing was sent; try again.`;
}
