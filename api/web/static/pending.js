// What has been signed and of which nobody knows yet what became: kept in the browser, so that a page loaded again goes on
// with it instead of forgetting it or signing it twice.

/** A place for one signed thing at a time; `keyOf` tells it from another. */
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

  /** Unless another has been begun meanwhile. */
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

/** What is said of an error that has no words of its own; `isOpen`: something signed may be on its way. */
export function failed(isOpen, what = "That did not work.") {
  return isOpen ? `${what} It is safe to ask again: it counts once.` : `${what} Nothing was sent; try again.`;
}
