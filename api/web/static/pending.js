// Signed messages whose outcome is not known yet: kept in the browser, so that a reloaded page goes on with them instead of
// forgetting them or signing twice.

/** A slot for one signed message at a time, which `keyOf` identifies. */
export function pendingOf(what, keyOf) {
  const name = `vpm.pending.${what}`;
  let refused = null; // what the browser would not keep, as private windows may: then only this page knows of it

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
      // It was never kept there.
    }
  }

  return { get, keep, forget };
}

/** The message for an error that brings none; `isOpen`: something signed may be on its way. */
export function failed(isOpen, what = "That did not work.") {
  return isOpen ? `${what} It is safe to ask again: it counts once.` : `${what} Nothing was sent; try again.`;
}
