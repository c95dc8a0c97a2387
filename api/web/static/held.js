// A busy button says that it cannot be pressed but keeps the focus, which `disabled` would take away from keyboard users. So
// its handler must check before it acts.

export function hold(button, held) {
  button.setAttribute("aria-disabled", String(held));
}

export const isHeld = (button) => button.getAttribute("aria-disabled") === "true";
