// What has been signed and of which nobody knows yet what became: kept in the browser, so that a page loaded again goes on
// with it instead of forgetting it or signing it twice.

const name = (what) => `vpm.pending.${what}`;

export function pending(what) {
  try {
    return JSON.parse(localStorage.getItem(name(what)) ?? "null");
  } catch {
    return null;
  }
}

export function keepPending(what, value) {
  try {
    localStorage.setItem(name(what), JSON.stringify(value));
  } catch {
    // Private windows may refuse; then only this page knows of it.
  }
}

export function dropPending(what) {
  try {
    localStorage.removeItem(name(what));
  } catch {
    // It was never kept.
  }
}
