// The API reference: forms that call an operation and show its response, and bodies that unfold when a link leads to them.
import { isBusy, setBusy } from "./busy.js";

const MAX_SHOWN = 20_000;

/** Returns the URL that a form calls: its path and query with the values filled in. */
function address(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const field of form.elements) {
    const value = field.value.trim();
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(value));
    else if (field.dataset.in && value) query.set(field.name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

async function run(form) {
  const status = form.querySelector(".status");
  const shown = form.querySelector("pre");
  const button = form.querySelector("button");
  const empty = [...form.elements].find((field) => field.required && !field.value.trim());
  if (empty) {
    status.textContent = `Fill in ${empty.name}.`;
    empty.focus();
    return;
  }
  setBusy(button, true);
  status.textContent = "Calling…";
  const asked = address(form);
  try {
    const began = performance.now();
    const response = await fetch(asked, { headers: { Accept: "application/json" } });
    const text = await response.text();
    status.textContent = `${response.status} ${response.statusText} in ${Math.round(performance.now() - began)} ms`;
    const whole = `GET ${asked}\n\n${pretty(text)}`;
    shown.textContent = whole.length > MAX_SHOWN ? `${whole.slice(0, MAX_SHOWN)}\n… cut off here; the response has ${text.length} characters` : whole;
  } catch {
    status.textContent = "The service could not be reached.";
    shown.textContent = `GET ${asked}`;
  } finally {
    shown.hidden = false;
    setBusy(button, false);
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function reveal() {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found instanceof HTMLDetailsElement) found.open = true;
}

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isBusy(form.querySelector("button"))) run(form);
  });
}
addEventListener("hashchange", reveal);
reveal();
