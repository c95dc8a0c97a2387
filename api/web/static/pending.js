// What has been signed and of which nobody knows yet what became: kept in the browser, so that a page loaded again goes on
// with it instead of forgetting it or signing it twice.

/** A place for one signed thing at a time; `keyOf` tells it from another. */
export function pendingOf(what, keyOf) {
  const name = `vpm.pending.${what}`;

  function get() {
    try {
      return JSON.parse(localStorage.getItem(name) ?? "null");
    } catch {
      return null;
    }
  }

  function keep(value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      // Private windows may refuse; then only this page knows of it.
    }
  }

  /** Unless another has been begun meanwhile. */
  function forget(value) {
    const there = get();
    if (there && keyOf(there) === keyOf(value)) localStorage.removeItem(name);
  }

  return { get, keep, forget };
}

/** What is said of an error that has no words of its own; `isOpen`: something signed may be on its way. */
export function failed(isOpen, what = "That did not work.") {
  return isOpen ? `${what} It is safe to ask again: it counts once.` : `${what} Nothing was sent; try again.`;
}
