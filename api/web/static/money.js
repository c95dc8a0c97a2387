// Token units (6 decimals) as BigInt, and back to text, exactly.

const ONE = 1_000_000n;

/** Parses a typed amount into units; null when it is not a plain amount. */
export function units(text) {
  const found = /^(\d{1,12})(?:[.,](\d{1,6})?)?$/.exec(text.trim());
  return found ? BigInt(found[1]) * ONE + BigInt((found[2] ?? "").padEnd(6, "0")) : null;
}

/** 12.50, with further decimals only if it has any. */
export function money(value) {
  const whole = (value / ONE).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const fraction = (value % ONE).toString().padStart(6, "0");
  return `${whole}.${fraction.slice(0, 2)}${fraction.slice(2).replace(/0+$/, "")}`;
}

/** Writes an amount as the server does: two decimals, the rest on demand (exact.js). */
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

/** part / whole in percent with one decimal, rounded down. */
export function percent(part, whole) {
  const tenths = whole ? (part * 1000n) / whole : 0n;
  return `${tenths / 10n}.${tenths % 10n}%`;
}

/** A position's number within its market, as pages name it everywhere: #5. Its id holds the market's in the high half. */
export function ordinal(id) {
  return `#${BigInt(id) & 0xffffffffn}`;
}
