// Lines over the last five minutes. Points are dropped when they are older, drawing waits for the screen.

import { clock } from "./format.js";

const SHOWN_S = 300;
const LEAST_S = 30;
const PLOT_PX = 170;
/** What a logarithmic axis shows for less, in ms. */
const LEAST = 0.1;

const style = () => getComputedStyle(document.documentElement);
const colour = (name) => style().getPropertyValue(name).trim();

const charts = new Set();
let isDue = false;

/** Draws what changed when the screen is ready for it and somebody sees it: one chart in each frame, so that no frame takes long. */
function due() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    const [next, ...others] = [...charts].filter((chart) => chart.isWaiting);
    next?.draw();
    if (others.length) due();
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of charts) chart.make();
});

export class LineChart {
  #where;
  #names;
  #data;
  #plot = null;
  #marks = [];
  #isNew = false;
  #isLog;

  /** One line for each of `names`. `isLog`: one outage does not flatten all else. */
  constructor(where, names, { isLog = false } = {}) {
    this.#where = where;
    this.#names = names;
    this.#isLog = isLog;
    this.clear();
    charts.add(this);
    new ResizeObserver(() => this.#resize()).observe(where);
  }

  clear() {
    this.#data = [[], ...this.#names.map(() => [])];
    this.#marks = [];
    this.#isNew = true;
    due();
  }

  /** Points at `t` seconds; null where there is none. */
  push(t, values) {
    const times = this.#data[0];
    if (times.length && t <= times.at(-1)) return;
    times.push(t);
    const shown = (value) => this.#isLog && value !== null && value !== undefined ? Math.max(value, LEAST) : value;
    values.forEach((value, index) => this.#data[index + 1].push(shown(value)));
    while (times[0] < t - SHOWN_S) this.#data.forEach((column) => column.shift());
    while (this.#marks.length && this.#marks[0][0] < t - SHOWN_S) this.#marks.shift();
    this.#isNew = true;
    due();
  }

  /** A vertical line at `t` in the colour of a CSS variable. */
  mark(t, name) {
    this.#marks.push([t, name]);
  }

  make() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#isNew = true;
    due();
  }

  /** Whether there is something new and somebody to see it. */
  get isWaiting() {
    return this.#isNew && !document.hidden && this.#where.clientWidth > 0;
  }

  draw() {
    this.#isNew = false;
    if (this.#plot) this.#plot.setData(this.#data);
    else this.#plot = new uPlot(this.#options(), this.#data, this.#where);
    // Of a line that has nothing there is no word either.
    this.#data.slice(1).forEach((column, index) => {
      const show = column.some((value) => value !== null && value !== undefined);
      if (this.#plot.series[index + 1].show !== show) this.#plot.setSeries(index + 1, { show });
    });
  }

  #size() {
    return { width: this.#where.clientWidth, height: PLOT_PX };
  }

  #resize() {
    if (this.#where.clientWidth) this.#plot?.setSize(this.#size());
    this.#isNew = true;
    due();
  }

  #range() {
    const times = this.#data[0];
    const last = times.at(-1) ?? 0;
    const first = Math.max(times[0] ?? 0, last - SHOWN_S);
    return [first, Math.max(last, first + LEAST_S)];
  }

  #options() {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    const line = (label, index) => ({
      label, stroke: colour(`--c${index}`), width: 1.75, points: { show: false },
      value: (_, value) => (value === null || value === undefined ? "" : value.toPrecision(3)),
    });
    return {
      ...this.#size(),
      scales: { x: { time: false, range: () => this.#range() }, y: this.#isLog ? { distr: 3, range: (_, low, high) => [Math.max(LEAST, low || 1) / 1.3, Math.max((high || 1) * 1.3, 10 * Math.max(LEAST, low || 1))] } : { range: (_, low, high) => [0, (high || 1) * 1.08] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map(clock), size: 26 },
        { ...axis, size: 46 },
      ],
      series: [{ label: "at", value: (_, value) => (value === null ? "" : clock(value)) }, ...this.#names.map(line)],
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      hooks: { drawClear: [(plot) => this.#drawMarks(plot)] },
    };
  }

  #drawMarks(plot) {
    const { ctx, bbox } = plot;
    const [first] = this.#range();
    ctx.save();
    ctx.lineWidth = 1;
    ctx.globalAlpha = 0.55;
    for (const [t, name] of this.#marks) {
      if (t < first) continue;
      const x = Math.round(plot.valToPos(t, "x", true)) + 0.5;
      ctx.strokeStyle = colour(name);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }
}

/** Points and a curve: what a controller has learnt. */
export class ProfileChart {
  #where;
  #plot = null;

  constructor(where) {
    this.#where = where;
  }

  clear() {
    this.#plot?.destroy();
    this.#plot = null;
  }

  show({ points, curve }) {
    if (!this.#where.clientWidth || document.hidden) return;
    const at = new Map();
    const put = (list, index) => list.forEach(([x, y]) => {
      const both = at.get(x) ?? [null, null];
      both[index] = y;
      at.set(x, both);
    });
    put(points, 0);
    put(curve, 1);
    const times = [...at.keys()].sort((a, b) => a - b);
    const data = [times, times.map((x) => at.get(x)[0]), times.map((x) => at.get(x)[1])];
    if (this.#plot) this.#plot.setData(data);
    else this.#plot = new uPlot(this.#options(), data, this.#where);
  }

  #options() {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    return {
      width: this.#where.clientWidth,
      height: PLOT_PX,
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.08] } },
      axes: [{ ...axis, size: 26 }, { ...axis, size: 46 }],
      series: [
        { label: "window" },
        { label: "measured", stroke: colour("--c0"), paths: () => null, points: { show: true, size: 4, fill: colour("--c0") } },
        { label: "curve", stroke: colour("--c1"), width: 1.75, spanGaps: true, points: { show: false } },
      ],
      cursor: { drag: { x: false, y: false } },
    };
  }
}
