// Finding a market on the first page: by words, by kind, by how soon it ends. What is found stays so when parts are renewed.

const HOUR = 3600;
const finder = document.getElementById("finder");
const input = document.getElementById("find");

function fits(each, words, kind) {
  const over = Boolean(each.closest("[data-over]"));
  const said = each.textContent.toLowerCase();
  if (!words.every((word) => said.includes(word))) return false;
  if (kind === "over") return over;
  if (kind === "soon") return !over && Number(each.dataset.ends) - Date.now() / 1000 < HOUR && Number(each.dataset.ends) > Date.now() / 1000;
  return !kind || (!over && each.dataset.market === kind);
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
  document.getElementById("found").textContent = asked ? `${shown} of ${all.length} markets` : "";
}

finder.addEventListener("input", find);
finder.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("page:fresh", find);
find();
