// Shows times in the reader's time zone, and names it. The server writes UTC; the `datetime` attribute has the moment.

const DATE = { day: "numeric", month: "short", year: "numeric" };
const FORMS = {
  clock: { ...DATE, hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
  full: { ...DATE, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  exact: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
};
const writers = new Map(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat("en-GB", { ...form, hourCycle: "h23" })]));
const utc = ["UTC", "Etc/UTC", "GMT"].includes(Intl.DateTimeFormat().resolvedOptions().timeZone);

/** Formats a moment in the reader's zone; `form` is clock (to the minute), full (to the second) or exact (without a year). */
export function local(moment, form = "clock") {
  return writers.get(form).format(moment);
}

/** Rewrites every time below `root` that the server wrote. */
export function localize(root = document) {
  if (utc) return; // it is in UTC already
  for (const each of root.querySelectorAll("time[data-form]")) {
    each.title = each.textContent;
    each.textContent = local(new Date(each.dateTime), each.dataset.form);
    delete each.dataset.form;
  }
}

localize();
document.addEventListener("page:fresh", () => localize());
