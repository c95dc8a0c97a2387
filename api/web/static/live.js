// Keeps a page live without client-side rendering: fetches the page again every few seconds while it is visible (304 while
// unchanged) and replaces the parts marked data-live that differ. A part that has the focus waits.

const EVERY_MS = 2500;
const query = new URLSearchParams(location.search);
const shownHtml = new Map();
let skew = 0; // seconds our clock is ahead of the server's
let timer = 0;
let serverTime = document.body.dataset.now;
let asking = false;

for (const part of document.querySelectorAll("main [data-live]")) shownHtml.set(part.id, part.outerHTML);

/** Sets a query parameter of the page, such as the owner's address, and refreshes at once. */
export function setQuery(name, value) {
  if (value) query.set(name, value);
  else query.delete(name);
  return refresh();
}

export async function refresh() {
  if (!("live" in document.body.dataset) || asking) return;
  asking = true;
  try {
    const text = query.toString();
    const response = await fetch(location.pathname + (text ? `?${text}` : ""), { cache: "no-cache", headers: { Accept: "text/html" } });
    if (!response.ok) return;
    applyPage(new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    // No connection: the page stays as it is until the next refresh.
  } finally {
    asking = false;
  }
}

function applyPage(fresh) {
  let changed = false;
  // Only a new chain time moves the clock: an unchanged page repeats the time of its last change.
  const { now } = fresh.body.dataset;
  if (now !== undefined && now !== serverTime) {
    serverTime = now;
    setClock(Number(now));
  }
  const wanted = [...fresh.querySelectorAll("main [data-live]")];
  for (const part of wanted) {
    const html = part.outerHTML;
    if (shownHtml.get(part.id) === html) continue;
    const shown = document.getElementById(part.id);
    if (!shown) continue;
    if (shown.contains(document.activeElement) || shown.querySelector("[data-busy]")) continue;
    shownHtml.set(part.id, html);
    shown.replaceWith(document.importNode(part, true));
    changed = true;
  }
  if (changed) {
    count();
    document.dispatchEvent(new Event("page:fresh"));
  }
}

/** Formats a duration as figures.span does on the server. */
export function span(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60];
  const two = (number) => String(number).padStart(2, "0");
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${two(minutes)} min`;
  return minutes ? `${minutes} min ${two(left % 60)} s` : `${left} s`;
}

/** Returns the time that countdowns follow, in Unix seconds. */
export function chainNow() {
  return Date.now() / 1000 - skew;
}

function count() {
  const now = chainNow();
  for (const each of document.querySelectorAll("[data-until]")) {
    const text = span(Number(each.dataset.until) - now);
    if (each.textContent !== text) each.textContent = text;
  }
}

/** Sets the clock that the countdowns follow: the chain's on a market's page. */
function setClock(now) {
  skew = Date.now() / 1000 - now;
}

function watch() {
  clearInterval(timer);
  if (document.hidden || !("live" in document.body.dataset)) return;
  refresh();
  timer = setInterval(refresh, EVERY_MS);
}

if (serverTime !== undefined) setClock(Number(serverTime));
setInterval(count, 1000);
document.addEventListener("visibilitychange", watch);
window.addEventListener("load", () => setTimeout(watch, 800));
