// Times in the reader's own time zone, which is named. The server writes UTC; `datetime` has the moment.

const DATE = { day: "numeric", month: "short", year: "numeric" };
const FORMS = {
  clock: { ...DATE, hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
  full: { ...DATE, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  exact: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
};
const writers = new Map(Object.entries(FORMS).map(([name, form]) => [name, new Intl.DateTimeFormat("en-GB", { ...form, hourCycle: "h23" })]));
const utc = ["UTC", "Etc/UTC", "GMT"].includes(Intl.DateTimeFormat().resolvedOptions().timeZone);

/** A moment in this reader's zone; `form` is clock (to the minute), full (to the second) or exact (that without the year). */
export function local(moment, form = "clock") {
  return writers.get(form).format(moment);
}

/** Every time below `root` that a server wrote. */
export function localize(root = document) {
  if (utc) return; // it is written so already
  for (const each of root.querySelectorAll("time[data-form]")) {
    each.title = each.textContent;
    each.textContent = local(new Date(each.dateTime), each.dataset.form);
    delete each.dataset.form;
  }
}

localize();
document.addEventListener("page:fresh", () => localize());
