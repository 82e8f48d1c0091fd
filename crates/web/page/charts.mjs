// Results as pictures and a table, drawn by the report's scripts, which the page has before this. Charts are kept and given new
// values, so that dragging is smooth.

const PIXELS_A_POINT = 2.4;
const CDF_POINTS = 160;
const WINDOW = "cwnd_pkts";

/** Bins merged into windows, aligned to the start of the run. */
function merged(values, each, how) {
  return Array.from({ length: Math.ceil(values.length / each) }, (_, i) => how(values.slice(i * each, (i + 1) * each).filter(known)));
}

/** All pictures of one batch of results. */
export class Charts {
  constructor() {
    this.hidden = new Set();
    this.plots = new Map();
    this.runs = [];
    this.inside = WINDOW;
    this.drawn = {};
    one("#pick-inside").addEventListener("change", (event) => { this.inside = event.target.value; this.draw(); });
  }

  /** `runs`: { cc, index (of the look), figures, series } of the controllers that have a result. */
  show(runs) {
    this.runs = runs;
    this.draw();
  }

  /** Colours or widths are others. */
  redo() {
    for (const plot of this.plots.values()) plot.destroy();
    this.plots.clear();
    this.legend = null;
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
    const over = (values, how) => merged(values, this.each, how);
    this.time("throughput", visible, (run) => over(run.series.throughput_mbps, mean), { unit: "Mbit/s", capacity: over(runs[0].series.capacity_mbps, mean) });
    this.time("delay", visible, (run) => over(run.series.queue_delay_p95_ms, highest).map((ms) => known(ms) ? Math.max(ms, LEAST_DELAY) : null), { unit: "ms", log_y: true, least: LEAST_DELAY });
    this.drawInside(visible);
    this.drawCdf(visible);
  }

  // ---- legend and table ----

  drawLegend() {
    const key = JSON.stringify([this.runs.map((run) => [run.cc, run.index]), [...this.hidden]]);
    if (this.legend === key) return;
    this.legend = key;
    fillLegend(one("#legend"), this.runs.map(({ cc, index }) => [index, cc]), this.hidden, () => this.draw());
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

  // ---- charts ----

  /** Values of runs over time, in windows of `each` bins of `bin` seconds. */
  time(name, runs, values, { capacity, bin = this.bin, each = this.each, ...more }) {
    const columns = runs.map(values);
    const places = Math.max(0, ...columns.map((column) => column.length), capacity?.length ?? 0);
    const x = Array.from({ length: places }, (_, i) => (i + 0.5) * each * bin);
    const lines = runs.map((run, i) => ({ name: run.cc, look: run.index, x, y: columns[i] }));
    const area = capacity ? [{ name: "capacity", area: true, x, y: capacity }] : [];
    this.drawn[name] = columns.filter((column) => column.some(known)).length;
    this.plot(name, { lines: [...area, ...lines], x_unit: "s", x_range: [0, this.end], ...more });
  }

  /** Gives a chart new values, or draws it anew where more than these is new. */
  plot(name, given) {
    const where = one(`#${name} .chart`);
    const chart = { title: titleOf(where), ...given };
    const old = this.plots.get(name);
    if (old && updateChart(old, chart)) return;
    old?.destroy();
    this.plots.set(name, drawChart(where, chart, chart.form === "cdf" ? {} : { sync: "time" }));
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
    const bin = this.inside === WINDOW ? this.bin : having[0].series.inspected_bin_s ?? this.bin;
    const each = Math.max(1, Math.round(this.each * this.bin / bin));
    // Windows differ by orders of magnitude between controllers.
    const isLog = this.inside.endsWith("_pkts");
    this.time("inside", having, (run) => merged(values(run), each, mean).map((value) => isLog && value <= 0 ? null : value), { bin, each, log_y: isLog });
  }

  /** Shares of packets below each delay, all controllers at the same delays. */
  drawCdf(runs) {
    const having = runs.filter((run) => run.series.quantiles?.queue_delay_ms?.length > 1);
    this.drawn.cdf = having.length;
    if (!having.length) return;
    const delays = having.map((run) => run.series.quantiles.queue_delay_ms.map((ms) => Math.max(ms, LEAST_DELAY)));
    const [low, high] = logRange(lowest(delays.map((all) => all[0])), highest(delays.map((all) => all.at(-1))), LEAST_DELAY);
    const x = Array.from({ length: CDF_POINTS }, (_, i) => low * (high / low) ** (i / (CDF_POINTS - 1)));
    const lines = having.map((run, i) => ({ name: run.cc, look: run.index, x, y: x.map((ms) => 100 * shareBelow(delays[i], ms)) }));
    this.plot("cdf", { unit: "%", lines, log_x: true, x_range: [low, high], x_unit: "ms", y_range: [0, 100], y_unit: " %", form: "cdf" });
  }

  drawScatter() {
    const where = one("#scatter .drawing");
    const runs = this.runs.filter((run) => !this.hidden.has(run.index) && Number.isFinite(run.figures.queue_delay_ms.p95) && run.figures.packets > 0);
    this.drawn.scatter = runs.length;
    if (!runs.length) return where.replaceChildren();
    const lines = runs.map(({ cc, index, figures }) => ({ name: cc, look: index, x: [Math.max(figures.queue_delay_ms.p95, LEAST_DELAY)], y: [figures.throughput_mbps] }));
    where.replaceChildren(chartSvg({
      title: titleOf(where), unit: "Mbit/s", x_label: "95th percentile of the queue delay [ms], less to the right", lines, form: "scatter",
      log_x: true, reversed_x: true, levels: [{ at: runs[0].figures.capacity_mbps, words: `capacity ${brief(runs[0].figures.capacity_mbps)}` }],
    }, { width: where.clientWidth, height: 260 }));
  }
}
