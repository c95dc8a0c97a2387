// Converts amounts between text and token units (6 decimals, BigInt), exactly.

const ONE = 1_000_000n;

/** Parses a typed amount into units; null when it is not an amount. */
export function units(text) {
  const found = /^(\d{1,12})(?:[.,](\d{1,6})?)?$/.exec(text.trim());
  return found ? BigInt(found[1]) * ONE + BigInt((found[2] ?? "").padEnd(6, "0")) : null;
}

/** Formats units as 12.50, with more decimals only if there are any. */
export function money(value) {
  const whole = (value / ONE).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const fraction = (value % ONE).toString().padStart(6, "0");
  return `${whole}.${fraction.slice(0, 2)}${fraction.slice(2).replace(/0+$/, "")}`;
}

/** Writes an amount as the server does: two decimals, the others on demand (exact.js). */
export function writeMoney(element, value) {
  const text = money(value);
  const end = text.indexOf(".") + 3;
  element.textContent = text.slice(0, end);
  element.classList.toggle("amount", true);
  element.classList.toggle("more", text.length > end);
  element.title = text.length > end ? text : "";
  if (text.length === end) return;
  const fine = document.createElement("span");
  fine.className = "fine";
  fine.textContent = text.slice(end);
  element.append(fine);
}

/** Formats part / whole in percent with one decimal, rounded down. */
export function percent(part, whole) {
  const tenths = whole ? (part * 1000n) / whole : 0n;
  return `${tenths / 10n}.${tenths % 10n}%`;
}

/** Formats a position's number within its market: #5. The high half of its id is the market's id. */
export function ordinal(id) {
  return `#${BigInt(id) & 0xffffffffn}`;
}
