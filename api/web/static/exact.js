// Amounts show two decimals. Pressing one that has more, or the button in the footer, shows all decimals of all amounts.

const STORAGE_KEY = "vpm.exact";
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
    localStorage.setItem(STORAGE_KEY, exact ? "1" : "");
  } catch {
    // Private windows may refuse to store; then the choice lasts for this page only.
  }
}

function stored() {
  try {
    return Boolean(localStorage.getItem(STORAGE_KEY));
  } catch {
    return false;
  }
}

show(stored());
button?.addEventListener("click", turn);
document.addEventListener("click", (event) => {
  if (event.target.closest(".amount.more") && !event.target.closest("a, button, label")) turn();
});
