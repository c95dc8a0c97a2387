// Amounts have two decimals. Pressing one that has more, or the button at the end of the page, shows all decimals of all
// amounts.

const KEPT = "vpm.exact";
const root = document.documentElement;
const button = document.getElementById("exact");

function show(exact) {
  root.toggleAttribute("data-exact", exact);
  button?.setAttribute("aria-pressed", String(exact));
}

function turn() {
  const exact = !root.hasAttribute("data-exact");
  show(exact);
  try {
    localStorage.setItem(KEPT, exact ? "1" : "");
  } catch {
    // Private windows may refuse; then only this page knows.
  }
}

function kept() {
  try {
    return Boolean(localStorage.getItem(KEPT));
  } catch {
    return false;
  }
}

show(kept());
button?.addEventListener("click", turn);
document.addEventListener("click", (event) => {
  if (event.target.closest(".amount.more") && !event.target.closest("a, button, label")) turn();
});
