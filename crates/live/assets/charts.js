// Charts of what goes on, drawn by the report's scripts. They take what is new when the screen is ready for it.

import { LEAST_DELAY, drawChart, element, fillLegend, highest, known, lookPlaces, looks, one, recolour, updateChart } from "./report.js";

const SHOWN_S = 300;
const LEAST_S = 30;

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
  recolour();
  for (const chart of charts) chart.forget();
});

/** The places of the looks of these names. */
export const placesOf = (names) => lookPlaces(names, looks.length);

/** A chart below its heading. A kind of it has `content()`: the chart as the report's scripts take it, but for its title. */
class LiveChart {
  #where;
  #title;
  #legend = element("div", { class: "legend", role: "group", "aria-label": "Lines shown" });
  #entries = "";
  #hidden = new Set();
  #plot = null;
  #isNew = false;

  constructor(where) {
    this.#where = where;
    this.#title = one("h2, h3", where.closest("figure")).firstChild.textContent.trim();
    where.after(this.#legend);
    charts.add(this);
    new ResizeObserver(() => this.#resize()).observe(where);
  }

  /** Draws anew what is shown. */
  forget() {
    this.#drop();
    this.#entries = "";
    this.renew();
  }

  #drop() {
    this.#plot?.destroy();
    this.#plot = null;
  }

  renew() {
    this.#isNew = true;
    due();
  }

  /** Whether there is something new and somebody to see it. */
  get isWaiting() {
    return this.#isNew && !document.hidden && this.#where.clientWidth > 0;
  }

  draw() {
    this.#isNew = false;
    const { lines, zoom, options, ...content } = this.content();
    const all = lines.map((line, key) => ({ ...line, key, hidden: this.#hidden.has(key) }));
    // Of a line that has nothing there is no word either.
    const chart = { title: this.#title, ...content, lines: all.filter(({ y }) => y.some(known)) };
    this.#showLegend(chart.lines);
    if (!chart.lines.length) return this.#drop();
    if (this.#plot && updateChart(this.#plot, chart, zoom)) return;
    this.#drop();
    this.#plot = drawChart(this.#where, chart, { ...options, zoom });
  }

  #showLegend(lines) {
    const entries = lines.filter(({ dots }) => !dots).map(({ look, name, key, area }) => [look, name, { key, form: area ? "area" : "lines" }]);
    const text = JSON.stringify([entries, [...this.#hidden]]);
    if (text === this.#entries) return;
    this.#entries = text;
    fillLegend(this.#legend, entries.length > 1 ? entries : [], this.#hidden, () => this.renew());
  }

  #resize() {
    const width = this.#where.clientWidth;
    if (width && this.#plot) this.#plot.setSize({ width, height: this.#plot.height });
    this.renew();
  }
}

/** Charts that show the same stretch of time. */
export class Together {
  #charts = [];
  zoom = null;

  constructor(sync) {
    this.sync = sync;
  }

  add(chart) {
    this.#charts.push(chart);
  }

  /** Shows [from, to] in seconds, or everything again. */
  zoomTo(zoom) {
    if (String(zoom) === String(this.zoom)) return;
    this.zoom = zoom;
    for (const chart of this.#charts) chart.renew();
  }
}

/** Lines over the last five minutes. Points are dropped when they are older. */
export class TimeChart extends LiveChart {
  #together;
  #more;
  #times = [];
  #lines = new Map(); // by name
  #events = new Map(); // by name

  /** `more`: the `unit` and what else a chart has. */
  constructor(where, together, more) {
    super(where);
    this.#together = together;
    this.#more = more;
    together.add(this);
  }

  clear() {
    this.#times = [];
    this.#lines.clear();
    this.#events.clear();
    this.#together.zoomTo(null);
    this.forget();
  }

  /** Values at `t` seconds: of each line its name, its value or null, and what else it is: `area`, and `as` which controller it looks. */
  push(t, values) {
    if (t <= this.#times.at(-1)) return;
    for (const [name, , more] of values) {
      const line = this.#lines.get(name) ?? { name, y: this.#times.map(() => null) };
      this.#lines.set(name, Object.assign(line, more));
    }
    this.#times.push(t);
    const given = new Map(values);
    for (const { name, y } of this.#lines.values()) y.push(given.get(name) ?? null);
    while (this.#times[0] < t - SHOWN_S) [this.#times, ...[...this.#lines.values()].map(({ y }) => y)].forEach((column) => column.shift());
    this.renew();
  }

  /** Something happened to the first line. */
  happened(t, [sign, name]) {
    const before = this.#events.get(name)?.at ?? [];
    this.#events.set(name, { sign, name, at: [...before, t].filter((at) => at >= t - SHOWN_S) });
  }

  /** The number of each line's look, by its name. */
  get looks() {
    const lines = [...this.#lines.values()].filter(({ area }) => !area);
    const places = placesOf(lines.map(({ as, name }) => as || name));
    return new Map(lines.map(({ name }, at) => [name, places[at]]));
  }

  content() {
    const { looks } = this;
    const x = this.#times.slice();
    const range = this.#range();
    // What the reader zoomed to stays, until it is too old to be there.
    if (this.#together.zoom?.[1] <= range[0]) this.#together.zoomTo(null);
    const least = (value) => this.#more.log_y && known(value) ? Math.max(value, LEAST_DELAY) : value;
    const lines = [...this.#lines.values()].map(({ name, area, y }) => ({ name, area, look: looks.get(name) ?? 0, x, y: y.map(least) }));
    if (lines.length) lines[0].events = [...this.#events.values()];
    const { sync, zoom } = this.#together;
    const options = { sync, onZoom: (plot) => this.#zoomed(plot), onReset: () => this.#together.zoomTo(null) };
    return { ...this.#more, lines, x_clock: true, x_range: range, least: LEAST_DELAY, zoom, options };
  }

  #range() {
    const last = this.#times.at(-1) ?? 0;
    const first = this.#times[0] ?? 0;
    return [first, Math.max(last, first + LEAST_S)];
  }

  #zoomed({ scales: { x: { min, max } }, chart: { x_range: [first, last] } }) {
    this.#together.zoomTo(min <= first && max >= last ? null : [min, max]);
  }
}

/** Points and a curve: what a controller has learnt. */
export class ProfileChart extends LiveChart {
  #points = [];
  #curve = [];
  #controller = "";

  show({ points, curve }, controller) {
    [this.#points, this.#curve, this.#controller] = [points, curve, controller];
    this.renew();
  }

  clear() {
    this.#points = this.#curve = [];
    this.forget();
  }

  content() {
    const [look] = placesOf([this.#controller]);
    const line = (pairs) => ({ look, x: pairs.map(([x]) => x), y: pairs.map(([, y]) => y) });
    const most = (at) => highest([...this.#points, ...this.#curve].map((pair) => pair[at])) ?? 1;
    const lines = [{ name: "measured", dots: true, ...line(this.#points) }, { name: "curve", ...line(this.#curve) }];
    return { unit: "ms", x_label: "window [packets]", x_range: [0, 1.03 * most(0)], y_range: [0, 1.05 * most(1)], lines };
  }
}
