// Draws charts with axes, a crosshair that shows time and values, and a choice of the last hour or everything. The server
// sends a sentence with the data attached; this script replaces the sentence by the chart, again whenever the page
// refreshes it. Bundled with uPlot into one file by `python -m scripts._vpm.bundles`.

import uPlot from "uplot";

interface Line {
  label: string;
  tone: string;
  step: boolean;
  fill: boolean;
  points: [number, number][];
}

interface Figures {
  name: string;
  title: string;
  summary: string;
  start: number;
  end: number;
  low: number;
  high: number;
  /** The value of one unit. */
  one: number;
  decimals: number;
  before: string;
  after: string;
  lines: Line[];
  levels: { value: number; label: string; tone: string }[];
  marks: { at: number; label: string }[];
}

const HOUR = 3600;
const chosen = new Map<string, boolean>(); // by the chart's name: whether it shows only the last hour
const drawn = new Map<HTMLElement, Drawn>();

/** A drawn chart with its data and tooltip. */
interface Drawn {
  chart: uPlot;
  figures: Figures;
  tip: HTMLElement;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const TONES: Record<string, string> = { main: "--accent", up: "--up", down: "--down", quiet: "--quiet" };

function toned(tone: string): string {
  return colour(TONES[tone] ?? "--accent");
}

function formatted(figures: Figures, value: number): string {
  const digits = { minimumFractionDigits: figures.decimals, maximumFractionDigits: figures.decimals };
  return figures.before + value.toLocaleString(undefined, digits) + figures.after;
}

/** Formats a value for the axis: large values in compact form, and without a unit that is a separate word. */
function compact(figures: Figures, value: number): string {
  if (figures.after.startsWith(" ")) return compact({ ...figures, after: "" }, value);
  if (Math.abs(value) < 100_000) return formatted(figures, value);
  return figures.before + value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 }) + figures.after;
}

function clock(at: number, long: boolean): string {
  const day: Intl.DateTimeFormatOptions = long ? { day: "numeric", month: "short" } : {};
  return new Date(at * 1000).toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

/** Makes times strictly rise: times in the same second, as on a fast chain, are spread over it in their order. */
function spread(seconds: number[]): number[] {
  const shared = new Map<number, number>();
  for (const second of seconds) shared.set(second, (shared.get(second) ?? 0) + 1);
  let place = 0;
  return seconds.map((second, index) => {
    place = seconds[index - 1] === second ? place + 1 : 0;
    return second + place / shared.get(second)!;
  });
}

/** Joins the lines on one time axis, in uPlot's format. */
function aligned(figures: Figures): uPlot.AlignedData {
  const tables = figures.lines.map((line): uPlot.AlignedData => {
    return [spread(line.points.map(([at]) => at)), line.points.map(([, value]) => value / figures.one)];
  });
  if (tables.length === 0) return [[figures.start, figures.end]];
  return tables.length === 1 ? tables[0]! : uPlot.join(tables);
}

/** Formats a time of the axis, as precisely as its steps. */
function tick(at: number, step: number): string {
  const day: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" };
  const minutes: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const wanted = step >= 24 * HOUR ? day : step >= 60 ? minutes : { ...minutes, second: "2-digit" as const };
  return new Date(at * 1000).toLocaleString(undefined, wanted);
}

/** Returns the time range shown, to the end of the last second. */
function span(figures: Figures): [number, number] {
  const from = chosen.get(figures.name) ? Math.max(figures.start, figures.end - HOUR) : figures.start;
  return [from, figures.end + 1];
}

/** Draws the levels and marks over the lines. */
function annotate(figures: Figures): (chart: uPlot) => void {
  return (chart) => {
    const { ctx } = chart;
    const { left, top, width, height } = chart.bbox;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = ratio;
    for (const mark of figures.marks) {
      const x = Math.round(chart.valToPos(mark.at, "x", true));
      if (x < left || x > left + width) continue;
      ctx.strokeStyle = ctx.fillStyle = colour("--quiet");
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      stroke(ctx, x, top, x, top + height);
      ctx.textAlign = x > left + width / 2 ? "right" : "left";
      ctx.textBaseline = "bottom";
      ctx.fillText(mark.label, x + (ctx.textAlign === "right" ? -4 : 4) * ratio, top + height - 3 * ratio);
    }
    ctx.textAlign = "right";
    let above = top;
    for (const level of [...figures.levels].sort((one, other) => other.value - one.value)) {
      const y = Math.round(chart.valToPos(level.value / figures.one, "y", true));
      ctx.strokeStyle = ctx.fillStyle = toned(level.tone);
      ctx.setLineDash([2 * ratio, 4 * ratio]);
      stroke(ctx, left, y, left + width, y);
      // The label goes above its line, or below it if another label is there; never across a line.
      const over = y - 3 * ratio;
      const at = over >= above + 13 * ratio ? over : Math.max(y + 15 * ratio, above + 13 * ratio);
      above = at;
      ctx.textBaseline = "bottom";
      label(ctx, level.label, left + width - 4 * ratio, at);
    }
    ctx.restore();
  };
}

/** Draws text with an outline, so that it stays readable over lines. */
function label(ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  ctx.save();
  ctx.strokeStyle = colour("--surface");
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.lineJoin = "round";
  ctx.setLineDash([]);
  ctx.strokeText(text, x, y);
  ctx.restore();
  ctx.fillText(text, x, y);
}

function stroke(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function options(figures: Figures, box: HTMLElement, tip: HTMLElement): uPlot.Options {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    legend: { show: false },
    padding: [8, 28, 0, 0], // to the right half of the axis' last time
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      x: { time: true, range: () => span(figures) },
      y: { range: () => [figures.low / figures.one, figures.high / figures.one] },
    },
    axes: [
      { ...axis, size: 26, space: 80, values: (_chart, times, _axis, _space, step) => times.map((at) => tick(at, step)) },
      { ...axis, size: 62, space: 34, values: (_chart, values) => values.map((value) => compact(figures, value)) },
    ],
    series: [
      {},
      ...figures.lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: toned(line.tone),
        width: 2,
        spanGaps: true,
        points: { show: false },
        ...(line.fill ? { fill: colour(`${TONES[line.tone] ?? "--accent"}-sunk`) } : {}),
        ...(line.step ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
      })),
    ],
    hooks: { draw: [annotate(figures)], setCursor: [(chart) => showTip(figures, chart, tip)] },
  };
}

/** Shows the time and the lines' values at the crosshair. */
function showTip(figures: Figures, chart: uPlot, tip: HTMLElement): void {
  const { idx, left } = chart.cursor;
  if (idx === null || idx === undefined || left === undefined || left < 0) {
    tip.hidden = true;
    return;
  }
  const at = chart.data[0][idx]!;
  const held = figures.lines.map((line, number) => {
    const values = chart.data[number + 1]!;
    let known = idx;
    while (known > 0 && values[known] == null) known -= 1;
    const value = values[known];
    return value == null ? "" : `${figures.lines.length > 1 ? `${line.label} ` : ""}${formatted(figures, value)}`;
  });
  tip.replaceChildren(clock(at, figures.end - figures.start > 20 * HOUR), ...held.flatMap((text) => [document.createElement("br"), text]));
  tip.hidden = false;
  const room = chart.over.clientWidth;
  tip.style.left = `${Math.min(Math.max(left + 12, 0), Math.max(0, room - tip.offsetWidth)) + chart.over.offsetLeft}px`;
}

/** Moves the crosshair from point to point with the arrow keys; screen readers read out the tooltip. */
function byKeys(box: HTMLElement): void {
  box.addEventListener("keydown", (event) => {
    const { chart } = drawn.get(box)!;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const times = chart.data[0];
    const idx = Math.min(Math.max((chart.cursor.idx ?? times.length) + step, 0), times.length - 1);
    chart.setCursor({ left: chart.valToPos(times[idx]!, "x"), top: 0 });
  });
  box.addEventListener("blur", () => drawn.get(box)?.chart.setCursor({ left: -10, top: -10 }));
}

function ranges(figures: Figures, redraw: () => void): HTMLElement {
  const group = document.createElement("div");
  group.className = "chart-ranges";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `What ${figures.title} shows`);
  for (const [label, hour] of [["1 h", true], ["All", false]] as const) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.className = "quiet";
    button.setAttribute("aria-pressed", String((chosen.get(figures.name) ?? false) === hour));
    button.addEventListener("click", () => {
      chosen.set(figures.name, hour);
      for (const each of group.children) each.setAttribute("aria-pressed", String(each === button));
      redraw();
    });
    group.append(button);
  }
  return group;
}

function enhance(sentence: HTMLElement): void {
  const figures = JSON.parse(sentence.dataset["chart"]!) as Figures;
  const frame = sentence.parentElement!;
  const box = document.createElement("div");
  box.className = "plot";
  box.tabIndex = 0;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${figures.title}. ${figures.summary} Use the arrow keys to read the values.`);
  const tip = document.createElement("p");
  tip.className = "chart-tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  sentence.replaceWith(box);
  draw(box, figures, tip);
  box.append(tip);
  byKeys(box);
  if (figures.end - figures.start > 1.5 * HOUR) frame.append(ranges(figures, () => draw(box, figures, tip)));
}

function draw(box: HTMLElement, figures: Figures, tip: HTMLElement): void {
  drawn.get(box)?.chart.destroy();
  drawn.set(box, { figures, tip, chart: new uPlot(options(figures, box, tip), aligned(figures), box) });
}

function all(): void {
  for (const [box, { chart }] of drawn) {
    if (box.isConnected) continue;
    chart.destroy();
    drawn.delete(box);
  }
  for (const sentence of document.querySelectorAll<HTMLElement>("p[data-chart]")) enhance(sentence);
}

function fit(): void {
  for (const [box, { chart }] of drawn) chart.setSize({ width: box.clientWidth, height: box.clientHeight });
}

all();
document.addEventListener("page:fresh", all);
addEventListener("resize", fit);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [box, { figures, tip }] of drawn) draw(box, figures, tip);
});
