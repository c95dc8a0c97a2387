// Signed messages whose outcome is unknown: stored in the browser, so that a reloaded page carries on with them instead of
// losing them or signing twice.

/** Returns a slot for one signed message at a time; `keyOf` identifies it. */
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

  /** Does nothing if another message has taken the slot since. */
  function forget(value) {
    const there = get();
    if (!there || keyOf(there) !== keyOf(value)) return;
    refused = null;
    try {
      localStorage.removeItem(name);
    } catch {
      // It was never stored there.
    }
  }

  return { get, keep, forget };
}

/** Words an error that has no message; `isOpen`: a signed message may have been sent. */
export function failed(isOpen, what = "That did not work.") {
  return isOpen ? `${what} It is safe to try again: it counts only once.` : `${what} Nothing was sent; try again.`;
}
