"use strict";
// Draws a comparison from the data in the page. Top down: state, one pass of drawing, then its parts.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (!data) return;
  const told = window.cellpace;
  told.drawn = { throughput: 0, delay: 0, scatter: 0, profiles: 0, cwnd: 0, flows: 0 };
  document.getElementById("comparison").hidden = false;

  const SVG = "http://www.w3.org/2000/svg";
  const LEAST_DELAY = 0.1; // ms; what a logarithmic axis shows for zero
  // The end of a value's name is its unit.
  const UNIT = /_(pkts|ms|s|mbps|ticks)$/;
  const UNITS = { _pkts: "packets", _ms: "ms", _s: "s", _mbps: "Mbit/s", _ticks: "ticks" };
  const WINDOW = "cwnd_pkts";
  const state = {
    group: 0, seed: null, window: null, quantile: "p95", inside: WINDOW, flowsOf: 0, allTraces: false,
    hidden: new Set(), hiddenFlows: new Set(), sort: null, zoom: null,
  };
  let plots = [];
  let colours = [];

  const one = (selector, within = document) => within.querySelector(selector);
  const group = () => data.groups[state.group];
  const known = (value) => value !== null && value !== undefined;

  function drawAll() {
    readColours();
    plots.forEach((plot) => plot.destroy());
    plots = [];
    if (!data.groups.length) return;
    const runs = group().runs.filter((run) => run.seed === state.seed);
    const timed = runs.filter((run) => run.series);
    state.end = Math.max(0, ...timed.map((run) => run.series.bin * run.series.throughput.length));
    drawConditions();
    drawChoices(timed);
    drawLegend();
    drawTable();
    drawThroughput(timed);
    drawDelay(timed);
    drawScatter();
    drawWindows(timed);
    drawFlows(timed);
    drawProfiles(timed);
    showBar();
  }

  function showBar() {
    one("#unzoom").hidden = !state.zoom;
    one("#bar").hidden = !one("#choices > :not([hidden]), #legend:not([hidden])");
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    colours = Array.from({ length: 8 }, (_, i) => read("--c" + i));
    for (const name of ["ground", "text", "soft", "rule", "grid", "area", "edge"]) colours[name] = read("--" + name);
  }

  const look = (index) => data.looks[index % data.looks.length];
  const colour = (index) => colours[look(index).colour];

  // ---- head, choices, legend ----

  function drawConditions() {
    const seeds = seedsOf(group());
    const items = [...group().conditions, [seeds.length > 1 ? "Seeds" : "Seed", spell(seeds)]];
    one("#conditions").replaceChildren(...items.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  }

  const seedsOf = (of) => [...new Set(of.runs.map((run) => run.seed))];
  const spell = (seeds) => seeds.length > 4 ? `${seeds[0]} … ${seeds.at(-1)} (${seeds.length})` : seeds.join(", ");

  function drawChoices(timed) {
    choose("#pick-group", data.groups.map((g, i) => [i, g.name]), state.group, data.groups.length > 1);
    const drawn = seedsOf({ runs: group().runs.filter((run) => run.series) });
    choose("#pick-seed", drawn.map((seed) => [seed, seed]), state.seed, drawn.length > 1);
    const widths = windowsFor(timed);
    choose("#pick-window", widths.map((width) => [width, width < 1 ? `${+(width * 1e3).toPrecision(3)} ms` : `${+width.toPrecision(3)} s`]), state.window, widths.length > 1);
    one("#pick-all").hidden = data.groups.length < 2;
    one("#pick-all input").checked = state.allTraces;
    one("#pick-quantile select").value = state.quantile;
  }

  function choose(selector, options, value, isUseful) {
    const label = one(selector);
    label.hidden = !isUseful;
    one("select", label).replaceChildren(...options.map(([key, text]) =>
      element("option", { value: key, ...(key === value ? { selected: "" } : {}) }, String(text))));
  }

  /** Widths in seconds that may be averaged over, and sets one that suits if none is set. */
  function windowsFor(timed) {
    if (!timed.length) return [];
    const bin = Math.max(...timed.map((run) => run.series.bin));
    const wanted = [0.1, 0.5, 1, 2, 5, 10].filter((width) => width > bin * 1.5 && width <= state.end / 10);
    const widths = [...new Set([bin, ...wanted.map((width) => Math.round(width / bin) * bin)])];
    if (!widths.includes(state.window)) {
      // A noisy line needs some two pixels a point to be read.
      const most = one("main").clientWidth / 2.4;
      state.window = widths.find((width) => state.end / width <= most) ?? widths.at(-1);
    }
    return widths;
  }

  function drawLegend() {
    const used = [...new Set(group().runs.map((run) => run.cc))];
    one("#legend").hidden = used.length < 2;
    fillLegend(one("#legend"), used.map((cc) => [cc, data.controllers[cc]]), state.hidden);
  }

  function fillLegend(where, entries, hidden) {
    const focused = document.activeElement?.dataset?.look;
    const hadFocus = where.contains(document.activeElement);
    where.replaceChildren(...entries.map(([index, name]) => {
      const button = element("button", { type: "button", class: "toggle", "aria-pressed": String(!hidden.has(index)), "data-look": index, title: name }, swatch(index), element("span", {}, name));
      button.addEventListener("click", () => {
        hidden.has(index) ? hidden.delete(index) : hidden.add(index);
        refresh();
      });
      return button;
    }));
    if (hadFocus) one(`[data-look="${focused}"]`, where)?.focus();
  }

  /** Line and marker as they are in the charts. */
  function swatch(index) {
    const svg = shape("svg", { width: 34, height: 14, viewBox: "0 0 34 14", "aria-hidden": "true" });
    svg.append(
      shape("line", { x1: 0, x2: 34, y1: 7, y2: 7, stroke: colour(index), "stroke-width": 2, "stroke-dasharray": look(index).dashes.join(" ") }),
      markerAt(index, 17, 7, 4.5));
    return svg;
  }

  function dot(index) {
    const svg = shape("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" });
    svg.append(markerAt(index, 6, 6, 4.2));
    return svg;
  }

  function markerAt(index, x, y, radius, more = {}) {
    return shape("path", { d: look(index).outline, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${radius})`, fill: colour(index), ...more });
  }

  // ---- table ----

  const COLUMNS = [
    { key: "cc", name: "Controller", word: true },
    { key: "trace", name: "Trace", word: true },
    { key: "seed", name: "Seed" },
    { key: "throughput", name: "Throughput", unit: "Mbit/s", digits: 2, better: 1 },
    { key: "utilization", name: "Utilization", unit: "%", digits: 1, better: 1 },
    { key: "p50", name: "median", unit: "ms", digits: 1, better: -1, over: "Queue delay" },
    { key: "p95", name: "95 %", unit: "ms", digits: 1, better: -1, over: "Queue delay" },
    { key: "p99", name: "99 %", unit: "ms", digits: 1, better: -1, over: "Queue delay" },
    { key: "loss", name: "Lost", unit: "%", digits: 2, better: -1 },
    { key: "jain", name: "Jain", unit: "index", digits: 3, better: 1 },
  ];

  function drawTable() {
    const parts = state.allTraces ? data.groups : [group()];
    const rows = parts.flatMap((part) => part.rows.map((row) => ({ ...row, trace: part.name, part })));
    const columns = COLUMNS.filter((column) => ({
      trace: parts.length > 1,
      seed: rows.some((row) => row.seed !== rows[0].seed),
      jain: rows.some((row) => row.flows > 1),
    })[column.key] ?? true);
    const best = (column, row) => isBest(column, row, row.part.rows);
    if (state.sort) sortRows(rows, state.sort);
    const focused = one("#results table").contains(document.activeElement) ? document.activeElement.dataset.key : null;
    one("#results table").replaceChildren(tableHead(columns), element("tbody", {}, ...rows.map((row) =>
      element("tr", {}, ...columns.map((column) => tableCell(column, row, best(column, row)))))));
    if (focused) one(`#results [data-key="${focused}"]`)?.focus();
    const repeated = rows.some((row) => row.throughput.ci !== undefined);
    one("#results-note").textContent = (rows.length > 1 ? `Bold: best${parts.length > 1 ? " on its trace" : " in its column"}. ` : "")
      + (repeated ? "± is half the width of the 95 % confidence interval over the seeds; figures without it are means." : "");
  }

  function tableHead(columns) {
    const over = element("tr", { class: "over" });
    for (let i = 0; i < columns.length; i++) {
      const name = columns[i].over;
      if (!name) { over.append(element("td", {})); continue; }
      let span = 1;
      while (columns[i + span]?.over === name) span++;
      over.append(element("th", { colspan: span, scope: "colgroup" }, element("span", {}, name)));
      i += span - 1;
    }
    const names = element("tr", {}, ...columns.map((column) => {
      const unit = column.unit ? [element("small", {}, column.unit)] : [];
      const button = element("button", { type: "button", "data-key": column.key }, column.name, ...unit);
      button.addEventListener("click", () => { state.sort = nextSort(column); drawTable(); });
      const sorted = state.sort?.key === column.key ? { "aria-sort": state.sort.rising ? "ascending" : "descending" } : {};
      return element("th", { scope: "col", class: column.word ? "word" : "", ...sorted }, button);
    }));
    return element("thead", {}, over, names);
  }

  /** The better end first, then the other way round. */
  function nextSort(column) {
    if (state.sort?.key === column.key) return { key: column.key, rising: !state.sort.rising };
    return { key: column.key, rising: column.better !== 1 };
  }

  function sortRows(rows, { key, rising }) {
    const value = (row) => row[key] !== null && typeof row[key] === "object" ? row[key].v : row[key];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (!known(x) || !known(y)) return known(y) - known(x); // what is missing goes last either way
      const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      return rising ? order : -order;
    });
  }

  function isBest(column, row, rivals) {
    if (!column.better || rivals.length < 2) return false;
    const text = (of) => of[column.key].v.toFixed(column.digits);
    const values = rivals.filter((rival) => known(rival[column.key].v)).map(text);
    if (!known(row[column.key].v) || new Set(values).size < 2) return false;
    const best = Math[column.better > 0 ? "max" : "min"](...values.map(Number));
    return Number(text(row)) === best;
  }

  function tableCell(column, row, best) {
    const value = row[column.key];
    if (column.key === "cc") return element("th", { scope: "row", class: "name", title: value }, dot(data.controllers.indexOf(value)), value);
    if (column.word) return element("td", { class: "word", title: value }, value);
    if (column.key === "seed") return element("td", {}, known(value) ? String(value) : "");
    const interval = known(value.ci) ? [element("span", { class: "ci" }, `± ${value.ci.toFixed(column.digits)}`)] : [];
    return element("td", best ? { class: "best" } : {}, known(value.v) ? value.v.toFixed(column.digits) : "–", ...interval);
  }

  // ---- charts over time ----

  function drawThroughput(timed) {
    told.drawn.throughput = timeChart("#throughput", one("#throughput .chart"), timed.map((run) => ({
      look: run.cc, name: data.controllers[run.cc], bin: run.series.bin, values: run.series.throughput,
      hidden: state.hidden.has(run.cc),
    })), { unit: "Mbit/s", capacity: capacityOf(timed), merged: mean });
  }

  function drawDelay(timed) {
    const isMedian = state.quantile === "p50";
    told.drawn.delay = timeChart("#delay", one("#delay .chart"), timed.map((run) => ({
      look: run.cc, name: data.controllers[run.cc], bin: run.series.bin, values: run.series[state.quantile],
      hidden: state.hidden.has(run.cc),
    })), { unit: "ms", log: true, merged: isMedian ? median : highest });
    const width = state.window < 1 ? `${+(state.window * 1e3).toPrecision(3)} ms` : `${+(state.window ?? 0).toPrecision(3)} s`;
    one("#delay-note").textContent = (isMedian ? `Median of the bins' medians in each ${width}.` : state.window > Math.max(...timed.map((run) => run.series.bin)) * 1.01 ? `The highest 95th percentile of a bin in each ${width}.` : `95th percentile in each ${width}.`)
      + ` Gaps: nothing left the link. Less than ${LEAST_DELAY} ms is drawn as ${LEAST_DELAY} ms.`;
  }

  function drawWindows(timed) {
    const alone = timed.filter((run) => run.series.cwnd.length === 1);
    const names = [...new Set(alone.flatMap((run) => run.series.inside.values.map(([name]) => name)))].sort();
    if (!names.includes(state.inside)) state.inside = WINDOW;
    choose("#pick-inside", [[WINDOW, "congestion window"], ...names.map((name) => [name, name.replace(UNIT, "").replaceAll("_", " ")])], state.inside, names.length > 0);
    const lines = alone.map((run) => ({ ...insideOf(run), look: run.cc, name: data.controllers[run.cc], hidden: state.hidden.has(run.cc) }))
      .filter((line) => line.values.some(known));
    const unit = UNITS[UNIT.exec(state.inside)?.[0]] ?? "";
    told.drawn.cwnd = timeChart("#cwnd", one("#cwnd .chart"), lines, { unit, merged: mean });
    one("#cwnd-note").textContent = (unit ? `In ${unit}. ` : "")
      + (state.inside !== WINDOW && lines.length < alone.length ? "The other controllers do not have this value." : "");
  }

  /** The chosen value of a run's controller; the window has finer bins than the others. */
  function insideOf(run) {
    if (state.inside === WINDOW) return { bin: run.series.bin, values: run.series.cwnd[0] };
    const found = run.series.inside.values.find(([name]) => name === state.inside);
    return { bin: run.series.inside.bin, values: found ? found[1] : [] };
  }

  function drawFlows(timed) {
    const runs = timed.filter((run) => run.series.flows.length > 1);
    one("#flows").hidden = !runs.length;
    told.drawn.flows = 0;
    if (!runs.length) return;
    const run = runs[Math.min(state.flowsOf, runs.length - 1)];
    choose("#pick-flows", runs.map((each, i) => [i, data.controllers[each.cc]]), runs.indexOf(run), runs.length > 1);
    const name = (i) => run.flows[i] ? `${i + 1}: ${run.flows[i]}` : `flow ${i + 1}`;
    const lines = (all) => all.map((values, i) => ({ look: i, name: name(i), bin: run.series.bin, values, hidden: state.hiddenFlows.has(i) }));
    fillLegend(one("#flows .legend"), run.series.flows.map((_, i) => [i, name(i)]), state.hiddenFlows);
    told.drawn.flows = timeChart("#flows", one('#flows [data-of="throughput"]'), lines(run.series.flows), { unit: "Mbit/s", capacity: capacityOf([run]), merged: mean });
    const windows = lines(run.series.cwnd).filter((line) => line.values.some(known));
    timeChart("#flows", one('#flows [data-of="cwnd"]'), windows, { unit: "packets", merged: mean });
  }

  function capacityOf(timed) {
    return timed.length && { bin: timed[0].series.bin, values: data.capacities[timed[0].series.capacity] };
  }

  /** Draws `lines` over time and tells how many show something. */
  function timeChart(section, where, lines, { unit, log = false, capacity = null, merged }) {
    one(section).hidden = !lines.length;
    where.replaceChildren();
    if (!lines.length) return 0;
    const height = parseFloat(getComputedStyle(where).height);
    const width = where.clientWidth;
    const steps = Math.max(...lines.map((line) => Math.ceil(line.values.length * line.bin / state.window - 1e-9)));
    const times = Array.from({ length: steps }, (_, i) => (i + 0.5) * state.window);
    const floor = (values) => log ? values.map((value) => known(value) ? Math.max(value, LEAST_DELAY) : null) : values;
    const columns = lines.map((line) => floor(block(line, steps, merged)));
    const area = capacity ? [block(capacity, steps, mean)] : [];
    const series = [{}, ...area.map(() => ({
      label: "capacity", stroke: colours.edge, fill: colours.area, width: 1, points: { show: false },
      paths: wholeBins,
    })), ...lines.map((line) => ({
      label: line.name, stroke: colour(line.look), width: 1.6, dash: look(line.look).dashes, show: !line.hidden,
      spanGaps: false, points: { show: true, size: 4, width: 0, fill: colour(line.look), filter: lonely },
    }))];
    const first = 1 + area.length;
    const plot = new uPlot({
      width, height, series, legend: { show: false }, pxAlign: 1, padding: [8, 16, 0, 0],
      scales: {
        // Whoever asks for all the data gets the whole run, half a window more at either end.
        x: { time: false, ...(state.zoom && { min: state.zoom[0], max: state.zoom[1] }), range: (u, low, high) => low <= times[0] && high >= times.at(-1) ? [0, state.end] : [low, high] },
        y: log ? { distr: 3, log: 10, range: logRange } : { range: (u, low, high) => [0, high > 0 ? high * 1.06 : 1] },
      },
      axes: [
        axis({ space: 60, size: 30, values: (u, ticks) => ticks.map((tick, i) => i === ticks.length - 1 ? `${+tick.toPrecision(6)} s` : `${+tick.toPrecision(6)}`) }),
        axis({ space: 34, size: 46, ...(log ? { splits: (u) => logTicks(u.scales.y.min, u.scales.y.max, height / 34), filter: (u, ticks) => ticks } : {}), values: (u, ticks) => ticks.map(brief) }),
      ],
      cursor: { sync: { key: "time", scales: ["x", null] }, drag: { x: true, y: false }, y: false, points: { size: 7 } },
      hooks: {
        draw: [(u) => markLines(u, lines, first)],
        setScale: [(u, key) => key === "x" && u.status && zoomed(u)],
      },
      plugins: [tip(lines, area.length, unit)],
    }, [times, ...area, ...columns], where);
    plot.section = section;
    plots.push(plot);
    return columns.filter((values, i) => !lines[i].hidden && values.some(known)).length;
  }

  function axis(more) {
    return { stroke: colours.soft, font: "12px system-ui, sans-serif", grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, border: { show: false }, gap: 6, ...more };
  }

  /** Merges bins into windows of `state.window` seconds, aligned to the start of the run. */
  function block({ bin, values }, steps, merged) {
    const each = state.window / bin;
    return Array.from({ length: steps }, (_, i) => merged(values.slice(Math.round(i * each), Math.max(Math.round((i + 1) * each), Math.round(i * each) + 1)).filter(known)));
  }

  /** An outline that is level over each bin: uPlot's own steps turn at the bins' middles. */
  function wholeBins(u, k) {
    const half = state.window / 2;
    const [stroke, fill] = [new Path2D(), new Path2D()];
    const foot = u.valToPos(0, "y", true);
    const x = (time) => u.valToPos(time, "x", true);
    const times = u.data[0];
    fill.moveTo(x(times[0] - half), foot);
    times.forEach((time, i) => {
      const y = u.valToPos(u.data[k][i] ?? 0, "y", true);
      i ? stroke.lineTo(x(time - half), y) : stroke.moveTo(x(time - half), y);
      stroke.lineTo(x(time + half), y);
      fill.lineTo(x(time - half), y);
      fill.lineTo(x(time + half), y);
    });
    fill.lineTo(x(times.at(-1) + half), foot);
    return { stroke, fill, clip: null, gaps: null, flags: 0 };
  }

  /** Places whose neighbours are gaps: no line passes there, so they get a dot. */
  function lonely(u, k) {
    const values = u.data[k];
    return values.flatMap((value, i) => known(value) && !known(values[i - 1]) && !known(values[i + 1]) ? [i] : []);
  }

  const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  const highest = (values) => values.length ? Math.max(...values) : null;
  const median = (values) => values.length ? values.sort((a, b) => a - b)[(values.length - 1) >> 1] : null;

  function logRange(u, low, high) {
    if (!known(low) || !(high > 0)) return [1, 100];
    const [from, to] = [Math.max(low, LEAST_DELAY) / 1.25, high * 1.25];
    return to / from < 4 ? [from / 2, to * 2] : [from, to];
  }

  function logTicks(from, to, most) {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      const ticks = [];
      for (let decade = Math.floor(Math.log10(from)); decade <= Math.log10(to); decade++)
        for (const step of steps) {
          const tick = +(step * 10 ** decade).toPrecision(1);
          if (tick >= from && tick <= to) ticks.push(tick);
        }
      if (ticks.length <= most || steps.length === 1) return ticks;
    }
  }

  const brief = (value) => known(value) ? String(+value.toPrecision(3)) : "";

  /** A few markers along each line, staggered, so that lines are told apart without colour. */
  function markLines(u, lines, first) {
    const { ctx, bbox } = u;
    const ratio = u.pxRatio ?? devicePixelRatio;
    const xs = u.data[0];
    const count = Math.max(2, Math.round(bbox.width / ratio / 150));
    const { min, max } = u.scales.x;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    lines.forEach((line, k) => {
      if (line.hidden) return;
      const ys = u.data[first + k];
      const outline = new Path2D(look(line.look).outline);
      for (let i = 0; i < count; i++) {
        const at = min + (max - min) * (i + (k + 0.5) / lines.length) / count;
        const place = nearestKnown(ys, u.valToIdx(at), Math.max(1, xs.length / count / 3));
        if (place < 0 || xs[place] < min || xs[place] > max) continue;
        ctx.save();
        ctx.translate(u.valToPos(xs[place], "x", true), u.valToPos(ys[place], "y", true));
        ctx.scale(4.4 * ratio, 4.4 * ratio);
        ctx.lineWidth = 0.5;
        ctx.strokeStyle = colours.ground;
        ctx.stroke(outline);
        ctx.fillStyle = colour(line.look);
        ctx.fill(outline);
        ctx.restore();
      }
    });
    ctx.restore();
  }

  function nearestKnown(values, place, reach) {
    for (let off = 0; off <= reach; off++) {
      if (known(values[place + off])) return place + off;
      if (known(values[place - off])) return place - off;
    }
    return -1;
  }

  /** All charts over time show the same stretch. */
  function zoomed(u) {
    const { min, max } = u.scales.x;
    const zoom = min <= 0 && max >= state.end ? null : [min, max];
    // Those that follow come here too, a moment later; the same stretch ends it.
    if (String(zoom) === String(state.zoom)) return;
    state.zoom = zoom;
    follow(u);
  }

  function follow(source) {
    const [min, max] = state.zoom ?? [0, state.end];
    for (const plot of plots) if (plot !== source) plot.setScale("x", { min, max });
    showBar();
  }

  function tip(lines, offset, unit) {
    const box = element("div", { class: "tip" });
    let isInside = false;
    const hide = () => { box.style.display = "none"; };
    return { hooks: {
      ready: [(u) => {
        u.over.append(box);
        // Capturing, so as to know before uPlot moves the cursor; charts in step have no tip.
        u.over.addEventListener("mousemove", () => { isInside = true; }, true);
        u.over.addEventListener("mouseleave", () => { isInside = false; hide(); });
        // Double-click zooms out in every chart, before uPlot does so in this one.
        u.over.addEventListener("dblclick", () => { state.zoom = null; follow(null); }, true);
      }],
      setCursor: [(u) => {
        const place = u.cursor.idx;
        if (!known(place) || !isInside) return hide();
        const entry = (marker, name, value) => known(value) ? [element("tr", {}, element("td", {}, ...marker, name), element("td", {}, element("b", {}, brief(value))))] : [];
        const rows = [
          ...(offset ? entry([], "capacity", u.data[1][place]) : []),
          ...lines.flatMap((line, k) => line.hidden ? [] : entry([dot(line.look)], line.name, u.data[1 + offset + k][place])),
        ];
        box.replaceChildren(`${+u.data[0][place].toPrecision(5)} s, in ${unit}`, element("table", {}, element("tbody", {}, ...rows)));
        box.style.display = "block";
        const left = u.cursor.left;
        const isRight = left > u.over.clientWidth / 2;
        box.style.left = isRight ? "auto" : `${left + 14}px`;
        box.style.right = isRight ? `${u.over.clientWidth - left + 14}px` : "auto";
      }],
    } };
  }

  // ---- scatter ----

  function drawScatter() {
    const where = one("#scatter .drawing");
    const rows = group().rows.filter((row) => !state.hidden.has(data.controllers.indexOf(row.cc)) && known(row.p95.v) && known(row.throughput.v));
    const repeated = new Set(rows.filter((row) => known(row.throughput.ci)).map((row) => row.cc));
    const singles = group().runs.filter((run) => repeated.has(data.controllers[run.cc]) && known(run.p95));
    told.drawn.scatter = rows.length;
    one("#scatter").hidden = !group().rows.length;
    const missing = group().rows.filter((row) => !known(row.p95.v)).map((row) => row.cc);
    one("#scatter-note").textContent = (missing.length ? `Not drawn, since nothing was delivered: ${missing.join(", ")}. ` : "") + (repeated.size ? "Whiskers: 95 % confidence interval of the mean over the seeds; small marks: single seeds." : "");
    const width = where.clientWidth;
    const height = Math.round(Math.min(460, Math.max(330, width * 0.46)));
    const box = { left: 46, right: width - 12, top: 14, bottom: height - 44 };
    const offered = group().runs.map((run) => run.capacity).filter(known);
    // Seeds of a random trace differ; the line is their mean, as the points are.
    const capacity = mean(offered) ?? 0;
    const spread = (cell, sign) => Math.max(cell.v + sign * (cell.ci ?? 0), cell.v / 4);
    const delays = [...rows.flatMap((row) => [spread(row.p95, -1), spread(row.p95, 1)]), ...singles.map((run) => run.p95)].map((ms) => Math.max(ms, LEAST_DELAY));
    const rates = [capacity, ...rows.map((row) => row.throughput.v + (row.throughput.ci ?? 0))];
    let [low, high] = delays.length ? [Math.min(...delays) / 1.7, Math.max(...delays) * 1.7] : [1, 100];
    if (high / low < 12) { const middle = Math.sqrt(low * high); low = middle / 3.5; high = middle * 3.5; }
    const top = Math.max(...rates, 0.001) * 1.08;
    // Points that crowd at the top get the room; a scatter needs no zero.
    const least = Math.min(...rates, ...rows.map((row) => row.throughput.v - (row.throughput.ci ?? 0)));
    const ground = least > 0.45 * top ? least - 0.45 * (top - least) : 0;
    // The delay axis runs from right to left: better is up and to the right.
    const x = (ms) => box.right - (box.right - box.left) * Math.log(Math.max(ms, LEAST_DELAY) / low) / Math.log(high / low);
    const y = (mbps) => box.bottom - (box.bottom - box.top) * (mbps - ground) / (top - ground);

    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Throughput against the 95th percentile of the queue delay; the better corner is the upper right one" });
    const defs = shape("defs", {});
    const gradient = shape("radialGradient", { id: "better", cx: 1, cy: 0, r: 1 });
    gradient.append(shape("stop", { offset: 0, "stop-color": "var(--better)" }), shape("stop", { offset: 1, "stop-color": "var(--better)", "stop-opacity": 0 }));
    defs.append(gradient);
    svg.append(defs);
    const reach = Math.min(width, 900) * 0.4;
    svg.append(shape("rect", { class: "better-corner", x: box.right - reach, y: box.top, width: reach, height: Math.min(reach, box.bottom - box.top) }));
    svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    for (const tick of linearTicks(ground, top, 6)) {
      svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }), text(box.left - 8, y(tick) + 4, brief(tick), { "text-anchor": "end" }));
    }
    for (const tick of logTicks(low, high, (box.right - box.left) / 60)) {
      svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom }), text(x(tick), box.bottom + 17, brief(tick), { "text-anchor": "middle" }));
    }
    svg.append(text((box.left + box.right) / 2, height - 6, width < 480 ? "← 95th percentile of queue delay [ms, log]" : "← more   95th percentile of the queue delay [ms, log scale]   less →", { "text-anchor": "middle", "xml:space": "preserve" }));
    svg.append(text(box.left + 6, box.top + 4, "Mbit/s", { "dominant-baseline": "hanging" }));
    const taken = [{ x: box.right - 74, y: box.top + 2, w: 74, h: 26 }];
    svg.append(text(box.right - 30, box.top + 20, "better", { class: "better", "text-anchor": "end" }));
    svg.append(shape("path", { class: "better-arrow", d: `M${box.right - 24} ${box.top + 22}l14 -14m-9 0h9v9` }));
    if (capacity > 0) {
      svg.append(shape("line", { class: "capacity", x1: box.left, x2: box.right, y1: y(capacity), y2: y(capacity) }));
    }
    for (const run of singles) if (!state.hidden.has(run.cc)) svg.append(markerAt(run.cc, x(run.p95), y(run.throughput), 3, { class: "one" }));
    for (const row of rows) {
      const index = data.controllers.indexOf(row.cc);
      if (known(row.p95.ci)) svg.append(shape("path", { class: "whisker", stroke: colour(index), d: `M${x(spread(row.p95, -1))} ${y(row.throughput.v)}H${x(row.p95.v + row.p95.ci)}M${x(row.p95.v)} ${y(row.throughput.v - row.throughput.ci)}V${y(row.throughput.v + row.throughput.ci)}` }));
      svg.append(markerAt(index, x(row.p95.v), y(row.throughput.v), 7, { stroke: colours.ground, "stroke-width": 0.2, "data-point": index }));
      taken.push({ x: x(row.p95.v) - 8, y: y(row.throughput.v) - 8, w: 16, h: 16 });
    }
    if (capacity > 0) {
      const [fewest, most] = [Math.min(...offered), Math.max(...offered)].map(brief);
      const words = fewest === most ? `capacity ${fewest}` : `mean capacity ${brief(capacity)} (${fewest} to ${most})`;
      const w = widthOf(words);
      const places = [box.left + 6, (box.left + box.right - w) / 2, box.right - w - 6].flatMap((left) => [[left, y(capacity) + 3], [left, y(capacity) - 18]]);
      const [left, up] = places.find((place) => isFree(place, w, 15, taken)) ?? places[0];
      svg.append(text(left, up + 12, words, {}));
      taken.push({ x: left, y: up, w, h: 15 });
    }
    for (const row of rows) svg.append(placeLabel(row.cc, x(row.p95.v), y(row.throughput.v), taken, { ...box, right: width }));
    where.replaceChildren(svg);
  }

  /** Beside the point, where nothing else is; of a long name only the start. */
  function placeLabel(name, x, y, taken, box) {
    const most = Math.max(12, Math.floor((box.right - box.left) / 14));
    const shown = name.length > most ? name.slice(0, most - 1) + "…" : name;
    const [w, h] = [widthOf(shown), 15];
    const tries = [];
    for (const far of [0, 14, 28, 44, 60]) {
      tries.push([x + 11, y - h / 2 - far], [x - 11 - w, y - h / 2 - far], [x + 11, y - h / 2 + far], [x - 11 - w, y - h / 2 + far], [x - w / 2, y - 11 - h - far], [x - w / 2, y + 11 + far]);
    }
    const inside = ([left, top]) => left >= box.left && left + w <= box.right && top >= box.top - 8 && top + h <= box.bottom;
    const [left, top] = tries.find((place) => inside(place) && isFree(place, w, h, taken)) ?? tries[0];
    taken.push({ x: left, y: top, w, h });
    return text(left, top + 12, shown, { class: "label" });
  }

  function isFree([left, top], w, h, taken) {
    return taken.every((other) => left > other.x + other.w || left + w < other.x || top > other.y + other.h || top + h < other.y);
  }

  const measure = document.createElement("canvas").getContext("2d");
  function widthOf(words) {
    measure.font = "550 12px system-ui, sans-serif";
    return measure.measureText(words).width + 2;
  }

  function linearTicks(from, to, most) {
    const rough = (to - from) / most;
    const decade = 10 ** Math.floor(Math.log10(rough));
    const step = decade * [1, 2, 5, 10].find((factor) => factor * decade >= rough);
    const first = Math.ceil(from / step - 1e-9);
    return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
  }

  // ---- delay profiles ----

  function drawProfiles(timed) {
    const runs = timed.filter((run) => run.series.profiles.length && !state.hidden.has(run.cc));
    one("#profiles").hidden = !timed.some((run) => run.series.profiles.length);
    told.drawn.profiles = 0;
    one("#profiles .panels").replaceChildren(...runs.map((run) => {
      const grid = element("div", { class: "grid-of-panels" });
      const part = element("div", {}, element("h3", {}, dot(run.cc), " ", data.controllers[run.cc]), grid);
      grid.append(...run.series.profiles.map((_, i) => element("div", { "data-panel": i })));
      return part;
    }));
    // The panels' width is known only once they are in the page.
    runs.forEach((run, i) => {
      const grid = one("#profiles .panels").children[i].lastChild;
      const width = Math.max(120, Math.floor(grid.firstChild?.clientWidth || 230));
      run.series.profiles.forEach((profile, k) => grid.children[k].append(profilePanel(run, profile, width)));
      told.drawn.profiles += run.series.profiles.length;
    });
  }

  function profilePanel(run, profile, width) {
    const all = run.series.profiles.flatMap((each) => [...each.points, ...each.curve]).filter(([w, d]) => known(w) && known(d));
    const most = [highest(all.map((p) => p[0])) || 1, highest(all.map((p) => p[1])) || 1];
    const height = Math.round(Math.min(190, width * 0.85));
    const box = { left: 36, right: width - 8, top: 22, bottom: height - 32 };
    const x = (packets) => box.left + (box.right - box.left) * packets / (most[0] * 1.03);
    const y = (ms) => box.bottom - (box.bottom - box.top) * ms / (most[1] * 1.05);
    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Delay profile of ${data.controllers[run.cc]} at ${brief(profile.at)} s` });
    const flow = run.flows.length > 1 ? `, flow ${profile.flow + 1}` : "";
    svg.append(text(box.left, 12, `${brief(profile.at)} s${flow}`, { class: "title" }), text(box.right, 12, "ms", { "text-anchor": "end" }));
    for (const tick of linearTicks(0, most[1] * 1.05, 3)) svg.append(shape("line", { class: tick ? "grid" : "axis", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }), text(box.left - 6, y(tick) + 4, brief(tick), { "text-anchor": "end" }));
    for (const tick of linearTicks(0, most[0] * 1.03, width / 60)) svg.append(text(x(tick), box.bottom + 14, brief(tick), { "text-anchor": "middle" }));
    svg.append(text((box.left + box.right) / 2, height - 4, "window [packets]", { "text-anchor": "middle" }));
    const whole = ([w, d]) => known(w) && known(d);
    const dots = profile.points.filter(whole).map(([w, d]) => `M${x(w).toFixed(1)} ${y(d).toFixed(1)}h0`).join("");
    const line = profile.curve.filter(whole).map(([w, d]) => `${x(w).toFixed(1)} ${y(d).toFixed(1)}`).join("L");
    svg.append(shape("path", { d: dots, stroke: colours.soft, "stroke-width": 3.2, "stroke-linecap": "round", "stroke-opacity": 0.55, fill: "none" }));
    if (line) svg.append(shape("path", { d: "M" + line, stroke: colour(run.cc), "stroke-width": 2.2, "stroke-linejoin": "round", fill: "none", "data-curve": "" }));
    return svg;
  }

  // ---- small parts ----

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function shape(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function text(x, y, words, attributes) {
    const made = shape("text", { x, y, ...attributes });
    made.textContent = words;
    return made;
  }

  // ---- what the page tells tests ----

  function publish() {
    document.documentElement.dataset.cellpace = JSON.stringify(told);
  }

  /** Opened with #probe the page looks at its own pixels: is every line's colour there? */
  function probe() {
    told.inked = {};
    for (const plot of plots) {
      const { width, height } = plot.ctx.canvas;
      const pixels = plot.ctx.getImageData(0, 0, width, height).data;
      const wanted = plot.series.slice(1).filter((series) => series.show !== false).map((series) => rgb(typeof series.stroke === "function" ? series.stroke(plot, 1) : series.stroke));
      const seen = wanted.map((colour) => {
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4)
          if (pixels[i + 3] > 128 && Math.abs(pixels[i] - colour[0]) + Math.abs(pixels[i + 1] - colour[1]) + Math.abs(pixels[i + 2] - colour[2]) < 24) count++;
        return count;
      });
      const part = plot.section.slice(1);
      told.inked[part] = (told.inked[part] ?? []).concat([seen]);
    }
    told.points = document.querySelectorAll("#scatter [data-point]").length;
    told.curves = document.querySelectorAll("#profiles [data-curve]").length;
    told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    told.width = document.documentElement.clientWidth;
    told.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function rgb(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  // ---- events ----

  /** Draws anew and stays where the reader was. */
  function refresh() {
    const top = window.scrollY;
    drawAll();
    window.scrollTo({ top, behavior: "instant" });
    publish();
  }

  function onChange(selector, apply) {
    one(selector).addEventListener("change", (event) => { apply(event.target); refresh(); });
  }

  function firstSeed() {
    state.seed = group()?.runs[0]?.seed ?? null;
  }

  onChange("#pick-group select", (select) => { state.group = +select.value; state.zoom = null; firstSeed(); });
  onChange("#pick-seed select", (select) => { state.seed = seedsOf(group()).find((seed) => String(seed) === select.value); });
  onChange("#pick-window select", (select) => { state.window = +select.value; });
  onChange("#pick-quantile select", (select) => { state.quantile = select.value; });
  onChange("#pick-inside select", (select) => { state.inside = select.value; });
  onChange("#pick-flows select", (select) => { state.flowsOf = +select.value; state.hiddenFlows.clear(); });
  onChange("#pick-all input", (box) => { state.allTraces = box.checked; });
  one("#unzoom").addEventListener("click", () => { state.zoom = null; refresh(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  let width = document.documentElement.clientWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    // A phone's address bar changes the height all the time; only the width matters.
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(refresh);
  });

  const started = performance.now();
  firstSeed();
  drawAll();
  // uPlot draws in a microtask; a task later all is on the canvases.
  setTimeout(() => {
    told.drawMs = Math.round(performance.now() - started);
    told.openMs = Math.round(performance.now());
    if (location.hash === "#probe") probe();
    told.done = true;
    publish();
  }, 0);
})();
