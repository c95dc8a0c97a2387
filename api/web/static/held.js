// A button at work says that it cannot be pressed and keeps the focus, which `disabled` would take away from whoever uses the
// keyboard. Its handler asks before it does anything.

export function hold(button, held) {
  button.setAttribute("aria-disabled", String(held));
}

export const isHeld = (button) => button.getAttribute("aria-disabled") === "true";
