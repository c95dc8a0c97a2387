// The progress of a bet as a line of steps: signed, sent, in block N, final. Only steps known to be done are marked.

/** Marks the steps of `line` up to `step`; an empty `step` hides the line. `words` replaces that step's text. */
export function reached(line, step, words) {
  const steps = [...line.children];
  const last = steps.findIndex((each) => each.dataset.step === step);
  line.hidden = last < 0;
  for (const [at, each] of steps.entries()) {
    each.classList.toggle("done", at <= last);
    if (at === last) each.setAttribute("aria-current", "step");
    else each.removeAttribute("aria-current");
    if (at === last && words) each.textContent = words;
  }
}
