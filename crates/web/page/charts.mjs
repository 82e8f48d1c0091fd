// Results as pictures and a table. Charts are kept and given new data, so that dragging is smooth.
import { element, known, one, shape } from "./dom.mjs";
// wholeBins, lonely and logTicks are the report's, from plot.js, which the page has before this.

const LEAST_DELAY = 0.1; // ms; what a logarithmic axis shows for zero
const PIXELS_A_POINT = 2.4;
const CDF_POINTS = 160;
const WINDOW = "cwnd_pkts";

/** Colours, dashes and markers of the controllers, from the report's palette. */
export class Looks {
  constructor(all) {
    this.all = all;
    this.colours = {};
    this.read();
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    this.palette = Array.from({ length: 8 }, (_, i) => value(`--c${i}`));
    for (const name of ["ground", "text", "soft", "rule", "grid", "area", "edge", "focus"]) this.colours[name] = value(`--${name}`);
  }

  of(index) {
    return this.all[index % this.all.length];
  }

  colour(index) {
    return this.palette[this.of(index).colour];
  }

  marker(index, x, y, radius) {
    return shape("path", { d: this.of(index).outline, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${radius})`, style: `fill:var(--c${this.of(index).colour})` });
  }

  swatch(index) {
    return shape("svg", { width: 34, height: 14, viewBox: "0 0 34 14", "aria-hidden": "true" },
      shape("line", { x1: 0, x2: 34, y1: 7, y2: 7, style: `stroke:var(--c${this.of(index).colour})`, "stroke-width": 2, "stroke-dasharray": this.of(index).dashes.join(" ") }),
      this.marker(index, 17, 7, 4.5));
  }
}

const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
const highest = (values) => values.length ? Math.max(...values) : null;
const brief = (value) => known(value) ? String(+value.toPrecision(3)) : "";

/** Bins merged into windows, aligned to the start of the run. */
function merged(values, each, how) {
  return Array.from({ length: Math.ceil(values.length / each) }, (_, i) => how(values.slice(i * each, (i + 1) * each).filter(known)));
}

/** All pictures of one batch of results. */
export class Charts {
  constructor(looks) {
    this.looks = looks;
    this.hidden = new Set();
    this.plots = new Map();
    this.runs = [];
    this.inside = WINDOW;
    this.drawn = {};
    one("#pick-inside").addEventListener("change", (event) => { this.inside = event.target.value; this.draw(); });
  }

  /** `runs`: { cc, index, figures, series } of the controllers that have a result. */
  show(runs) {
    this.runs = runs;
    this.draw();
  }

  /** Colours or widths are others. */
  redo() {
    this.looks.read();
    for (const plot of this.plots.values()) plot.destroy();
    this.plots.clear();
    this.draw();
  }

  draw() {
    const { runs } = this;
    this.drawLegend();
    this.drawTable();
    this.drawScatter();
    const visible = runs.filter((run) => !this.hidden.has(run.index));
    this.drawn = { throughput: 0, delay: 0, cdf: 0, inside: 0, scatter: this.drawn.scatter, rows: runs.length };
    if (!runs.length) return;
    const bins = runs[0].series.throughput_mbps.length;
    this.bin = runs[0].series.bin_s;
    this.end = bins * this.bin;
    const width = one("#throughput .chart").clientWidth;
    this.each = [1, 2, 5, 10, 20, 50, 100].find((each) => bins / each <= width / PIXELS_A_POINT) ?? 200;
    const times = Array.from({ length: Math.ceil(bins / this.each) }, (_, i) => (i + 0.5) * this.each * this.bin);
    const over = (values, how) => merged(values, this.each, how);
    this.time("throughput", times, visible, (run) => over(run.series.throughput_mbps, mean), { capacity: over(runs[0].series.capacity_mbps, mean) });
    this.time("delay", times, visible, (run) => over(run.series.queue_delay_p95_ms, highest).map((ms) => known(ms) ? Math.max(ms, LEAST_DELAY) : null), { log: true });
    this.drawInside(visible);
    this.drawCdf(visible);
  }

  // ---- legend and table ----

  drawLegend() {
    const key = JSON.stringify([this.runs.map((run) => [run.cc, run.index]), [...this.hidden]]);
    if (this.legend === key) return;
    this.legend = key;
    one("#legend").replaceChildren(...this.runs.map(({ cc, index }) => element("button", {
      type: "button", class: "toggle", "aria-pressed": String(!this.hidden.has(index)), title: cc, "data-look": index,
      onclick: () => {
        if (!this.hidden.delete(index)) this.hidden.add(index);
        this.draw();
        one(`#legend [data-look="${index}"]`)?.focus();
      },
    }, this.looks.swatch(index), element("span", {}, cc))));
  }

  drawTable() {
    const columns = [
      { name: "Throughput", unit: "Mbit/s", digits: 2, better: 1, of: (f) => f.throughput_mbps },
      { name: "Utilization", unit: "%", digits: 1, better: 1, of: (f) => 100 * f.utilization },
      { name: "Delay p50", unit: "ms", digits: 1, better: -1, of: (f) => f.queue_delay_ms.p50 },
      { name: "p95", unit: "ms", digits: 1, better: -1, of: (f) => f.queue_delay_ms.p95 },
      { name: "p99", unit: "ms", digits: 1, better: -1, of: (f) => f.queue_delay_ms.p99 },
      { name: "Lost", unit: "%", digits: 2, better: -1, of: (f) => 100 * f.lost / Math.max(1, f.packets + f.lost) },
      ...(this.runs.some((run) => run.figures.per_flow.length > 1) ? [{ name: "Jain", unit: "index", digits: 3, better: 1, of: (f) => f.jain }] : []),
    ];
    const text = (column, run) => {
      const value = column.of(run.figures);
      return Number.isFinite(value) ? value.toFixed(column.digits) : "–";
    };
    const best = columns.map((column) => {
      const values = this.runs.map((run) => parseFloat(text(column, run))).filter(Number.isFinite);
      return this.runs.length > 1 ? (column.better > 0 ? Math.max(...values) : Math.min(...values)) : NaN;
    });
    one("#results table").replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col", class: "word" }, "Controller"),
        ...columns.map((column) => element("th", { scope: "col" }, column.name, element("small", {}, column.unit))))),
      element("tbody", {}, ...this.runs.map((run) => element("tr", { "data-cc": run.cc },
        element("th", { scope: "row", class: "name", title: run.cc }, run.cc),
        ...columns.map((column, i) => element("td", { class: parseFloat(text(column, run)) === best[i] ? "best" : "" }, text(column, run)))))));
  }

  // ---- charts over time ----

  time(name, times, runs, values, { capacity, log, end } = {}) {
    const data = [times, ...(capacity ? [capacity] : []), ...runs.map(values)];
    this.drawn[name] = data.slice(capacity ? 2 : 1).filter((line) => line.some(known)).length;
    const lines = runs.map((run) => ({ label: run.cc, index: run.index }));
    this.plot(name, data, { lines, capacity: Boolean(capacity), log, x: { range: () => [0, end ?? this.end] }, unit: " s" });
  }

  /** Gives a chart new data, or makes it if there is none with these lines. */
  plot(name, data, options) {
    const where = one(`#${name} .chart`);
    const key = JSON.stringify([options.lines, options.capacity, options.log]);
    const old = this.plots.get(name);
    if (old?.key === key) return old.setData(data);
    old?.destroy();
    where.replaceChildren();
    const plot = new uPlot(this.options(where, options), data, where);
    plot.key = key;
    this.plots.set(name, plot);
  }

  options(where, { lines, capacity, log, x, unit, percent }) {
    const { colours } = this.looks;
    const height = parseFloat(getComputedStyle(where).height);
    const axis = (more) => ({ stroke: colours.soft, font: "12px system-ui, sans-serif", grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, border: { show: false }, gap: 6, ...more });
    const logAxis = (axisIndex, room) => ({ splits: (u) => logTicks(u.scales[axisIndex].min, u.scales[axisIndex].max, room), filter: (u, ticks) => ticks });
    return {
      width: where.clientWidth, height, legend: { show: false }, pxAlign: 1, padding: [8, percent ? 26 : 16, 0, 0],
      series: [{}, ...(capacity ? [{ label: "capacity", stroke: colours.edge, fill: colours.area, width: 1, points: { show: false }, paths: wholeBins }] : []),
        ...lines.map(({ label, index }) => ({ label, stroke: this.looks.colour(index), width: 1.6, dash: this.looks.of(index).dashes, spanGaps: Boolean(percent), points: { show: !percent, size: 4, width: 0, fill: this.looks.colour(index), filter: lonely } }))],
      scales: {
        x: { time: false, ...x },
        y: percent ? { range: [0, 100] } : log ? { distr: 3, log: 10, range: logRange } : { range: (u, low, high) => [0, high > 0 ? high * 1.06 : 1] },
      },
      axes: [
        axis({ space: 60, size: 30, ...(percent ? logAxis("x", where.clientWidth / 60) : {}), values: (u, ticks) => ticks.map((tick, i) => i === ticks.length - 1 ? `${brief(tick)}${unit}` : brief(tick)) }),
        axis({ space: 34, size: 46, ...(log ? logAxis("y", height / 34) : {}), values: (u, ticks) => ticks.map(brief) }),
      ],
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 }, ...(percent ? {} : { sync: { key: "time", scales: ["x", null] } }) },
      hooks: { draw: [(u) => this.markers(u, lines, capacity ? 2 : 1)] },
    };
  }

  /** A few markers along each line, so that lines are told apart without colour. */
  markers(u, lines, first) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const xs = u.data[0];
    const count = Math.max(2, Math.round(bbox.width / ratio / 150));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    lines.forEach(({ index }, k) => {
      const ys = u.data[first + k];
      const outline = new Path2D(this.looks.of(index).outline);
      for (let i = 0; i < count; i++) {
        const left = bbox.width / ratio * (i + (k + 0.5) / lines.length) / count;
        const place = nearestKnown(ys, u.posToIdx(left), Math.max(1, xs.length / count / 3));
        if (place < 0) continue;
        ctx.save();
        ctx.translate(u.valToPos(xs[place], "x", true), u.valToPos(ys[place], "y", true));
        ctx.scale(4.2 * ratio, 4.2 * ratio);
        ctx.lineWidth = 0.5;
        ctx.strokeStyle = this.looks.colours.ground;
        ctx.stroke(outline);
        ctx.fillStyle = this.looks.colour(index);
        ctx.fill(outline);
        ctx.restore();
      }
    });
    ctx.restore();
  }

  drawInside(runs) {
    const names = [...new Set([WINDOW, ...this.runs.flatMap((run) => run.series.inspected.map((one) => one.name))])];
    if (!names.includes(this.inside)) this.inside = names[0];
    const pick = one("#pick-inside");
    if (pick.dataset.names !== String(names)) {
      pick.dataset.names = String(names);
      pick.replaceChildren(...names.map((name) => element("option", { value: name }, name === WINDOW ? "congestion window (packets)" : name.replaceAll("_", " "))));
    }
    pick.value = this.inside;
    const values = (run) => this.inside === WINDOW ? run.series.cwnd_packets[0] : run.series.inspected.find((one) => one.name === this.inside)?.values;
    const having = runs.filter((run) => values(run)?.length);
    if (!having.length) return;
    const longest = Math.max(...having.map((run) => values(run).length));
    const bin = this.inside === WINDOW ? this.bin : having[0].series.inspected_bin_s ?? this.bin;
    const each = Math.max(1, Math.round(this.each * this.bin / bin));
    const times = Array.from({ length: Math.ceil(longest / each) }, (_, i) => (i + 0.5) * each * bin);
    // Windows differ by orders of magnitude between controllers.
    const log = this.inside.endsWith("_pkts");
    this.time("inside", times, having, (run) => merged(values(run), each, mean).map((value) => log && value <= 0 ? null : value), { log });
  }

  /** Shares of packets below each delay, all controllers at the same delays. */
  drawCdf(runs) {
    const having = runs.filter((run) => run.series.quantiles?.queue_delay_ms?.length > 1);
    this.drawn.cdf = having.length;
    if (!having.length) return;
    const delays = having.map((run) => run.series.quantiles.queue_delay_ms.map((ms) => Math.max(ms, LEAST_DELAY)));
    const [low, high] = this.cdfEnds = logRange(null, Math.min(...delays.map((all) => all[0])), Math.max(...delays.map((all) => all.at(-1))));
    const places = Array.from({ length: CDF_POINTS }, (_, i) => low * (high / low) ** (i / (CDF_POINTS - 1)));
    const data = [places, ...delays.map((all) => places.map((ms) => shareBelow(all, ms)))];
    this.plot("cdf", data, { lines: having.map((run) => ({ label: run.cc, index: run.index })), percent: true, unit: "", x: { distr: 3, log: 10, range: () => this.cdfEnds } });
  }

  // ---- scatter ----

  drawScatter() {
    const where = one("#scatter .drawing");
    const runs = this.runs.filter((run) => !this.hidden.has(run.index) && Number.isFinite(run.figures.queue_delay_ms.p95) && run.figures.packets > 0);
    this.drawn.scatter = runs.length;
    if (!runs.length) return where.replaceChildren();
    const width = where.clientWidth;
    const height = 260;
    const box = { left: 46, right: width - 16, top: 12, bottom: height - 40 };
    const delays = runs.map((run) => Math.max(run.figures.queue_delay_ms.p95, LEAST_DELAY));
    let [low, high] = [Math.min(...delays) / 1.7, Math.max(...delays) * 1.7];
    if (high / low < 12) { const middle = Math.sqrt(low * high); [low, high] = [middle / 3.5, middle * 3.5]; }
    const capacity = runs[0].figures.capacity_mbps;
    const rates = [capacity, ...runs.map((run) => run.figures.throughput_mbps)];
    const top = Math.max(...rates, 0.001) * 1.08;
    // Points that crowd at the top get the room; a scatter needs no zero.
    const least = Math.min(...rates);
    const ground = least > 0.45 * top ? least - 0.45 * (top - least) : 0;
    // Better is up and to the right, as in the reports.
    const x = (ms) => box.right - (box.right - box.left) * Math.log(ms / low) / Math.log(high / low);
    const y = (mbps) => box.bottom - (box.bottom - box.top) * (mbps - ground) / (top - ground);
    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Throughput against the 95th percentile of the queue delay; better is up and to the right" });
    const label = (attributes, text) => shape("text", attributes, String(text));
    for (const tick of linearTicks(ground, top, 5))
      svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }), label({ x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, brief(tick)));
    for (const tick of logTicks(low, high, width / 60))
      svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom }), label({ x: x(tick), y: box.bottom + 16, "text-anchor": "middle" }, brief(tick)));
    svg.append(shape("line", { class: "capacity", x1: box.left, x2: box.right, y1: y(capacity), y2: y(capacity) }),
      label({ x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, "95th percentile of the queue delay in ms"));
    const taken = [];
    for (const [place, run] of runs.entries()) {
      const [px, py] = [x(delays[place]), y(run.figures.throughput_mbps)];
      svg.append(this.looks.marker(run.index, px, py, 6));
      const text = run.cc.length > 22 ? `${run.cc.slice(0, 21)}…` : run.cc;
      const spot = freeSpot(px, py, 7 * text.length, box, [...taken, ...runs.map((_, i) => around(x(delays[i]), y(runs[i].figures.throughput_mbps)))]);
      taken.push(spot);
      svg.append(label({ class: "label", x: spot.left, y: spot.bottom - 3 }, text));
    }
    where.replaceChildren(svg);
  }
}

const around = (x, y) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 });
const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** Where a label beside a marker lies on nothing else; to its right if there is no such place. */
function freeSpot(x, y, width, box, taken) {
  const spots = [[11, -7], [-11 - width, -7], [-width / 2, 8], [-width / 2, -22], [9, 5], [-9 - width, 5], [9, -19], [-9 - width, -19], [11, 18], [-11 - width, -34]]
    .map(([dx, dy]) => ({ left: x + dx, right: x + dx + width, top: y + dy, bottom: y + dy + 14 }));
  const fits = (spot) => spot.left >= box.left && spot.right <= box.right + 12 && spot.top >= 0 && spot.bottom <= box.bottom && !taken.some((other) => overlap(spot, other));
  return spots.find(fits) ?? spots[x > (box.left + box.right) / 2 ? 1 : 0];
}

function linearTicks(from, to, most) {
  const rough = (to - from) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}

/** The share of packets in percent that waited at most `ms`; `sorted` has equal shares between its entries. */
function shareBelow(sorted, ms) {
  if (ms <= sorted[0]) return ms < sorted[0] ? 0 : 100 * (sorted.lastIndexOf(ms) / (sorted.length - 1));
  const above = sorted.findIndex((delay) => delay > ms);
  if (above < 0) return 100;
  const [from, to] = [sorted[above - 1], sorted[above]];
  return 100 * (above - 1 + (ms - from) / (to - from)) / (sorted.length - 1);
}

function logRange(u, low, high) {
  if (!known(low) || !(high > 0)) return [1, 100];
  const [from, to] = [Math.max(low, LEAST_DELAY) / 1.25, high * 1.25];
  return to / from < 4 ? [from / 2, to * 2] : [from, to];
}

function nearestKnown(values, place, reach) {
  for (let off = 0; off <= reach; off++) {
    if (known(values[place + off])) return place + off;
    if (known(values[place - off])) return place - off;
  }
  return -1;
}
