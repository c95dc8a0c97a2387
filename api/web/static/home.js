// Finds and sorts markets on the home page: by words, by kind, by how soon they end. The choice survives refreshes.
import { chainNow } from "./live.js";

const HOUR = 3600;
const finder = document.getElementById("finder");
const input = document.getElementById("find");
const order = document.getElementById("sort");

function fits(each, words, kind) {
  const over = Boolean(each.closest("[data-over]"));
  const text = each.textContent.toLowerCase();
  if (!words.every((word) => text.includes(word))) return false;
  if (kind === "over") return over;
  if (kind === "soon") return !over && Number(each.dataset.ends) > chainNow() && Number(each.dataset.ends) - chainNow() < HOUR;
  return !kind || (!over && each.dataset.market === kind);
}

/** Sorts the cards: ending first, or the largest value first. */
function arrange() {
  const by = order.value;
  for (const list of document.querySelectorAll("main .cards")) {
    const worth = (each) => Number(each.dataset[by]) * (by === "ends" ? 1 : -1);
    const cards = [...list.children];
    const wanted = [...cards].sort((one, other) => worth(one) - worth(other));
    if (wanted.some((each, at) => each !== cards[at])) list.append(...wanted);
  }
}

/** Hides each section without a match, and its heading. */
function tidy(asked) {
  for (const list of document.querySelectorAll("main .cards, main .scroll:has([data-over])")) {
    const empty = asked && !list.querySelector(".card:not([hidden]), tbody tr:not([hidden])");
    list.hidden = empty;
    if (list.previousElementSibling) list.previousElementSibling.hidden = empty;
  }
  for (const part of document.querySelectorAll("#stock, #agents")) {
    part.hidden = asked && !part.querySelector(".card:not([hidden]), [data-over] tbody tr:not([hidden])");
  }
}

function find() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = new FormData(finder).get("kind");
  const all = [...document.querySelectorAll("main .card, main [data-over] tbody tr")];
  let shown = 0;
  for (const each of all) {
    each.hidden = !fits(each, words, kind);
    shown += each.hidden ? 0 : 1;
  }
  const asked = words.length > 0 || Boolean(kind);
  tidy(asked);
  arrange();
  document.getElementById("found").textContent = asked ? `${shown} of ${all.length} markets` : "";
}

finder.addEventListener("input", find);
finder.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("page:fresh", find);
find();
