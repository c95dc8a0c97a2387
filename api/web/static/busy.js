// A busy button is marked aria-disabled and keeps the focus, which `disabled` would take away from keyboard users. The
// button can still be pressed, so its handler must check `isBusy` before it acts.

export function setBusy(button, busy) {
  button.setAttribute("aria-disabled", String(busy));
}

export const isBusy = (button) => button.getAttribute("aria-disabled") === "true";
