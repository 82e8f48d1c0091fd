// Draws every chart that moves with its reader: of comparisons and of all other results, from one description. still.js
// draws the same description as SVG.
//
// A chart has a `title`, the `unit` of its values, an `x_label` or `x_unit` (`x_clock`: seconds are shown as m:ss), a `form`, `log_x`, `log_y`,
// `x_range`, `y_range`, `least` (what a logarithmic axis shows for zero), `names` of places, `marks` ({ at, words }), and `lines`: `name`,
// `x`, `y`; where there are any `look`, `area`, `hollow`, `dots`, `spread`, `hidden`, `pale`, `strong`, `own` (what the tip tells) and
// `events`. `bands` are pairs of lines with colour between them.

/** Draws `chart` into `where`, which has its height. Charts with the same `sync` are zoomed together. `opens` gets the line that a reader
    clicks at, or has the cursor at and presses Enter, and the place. */
function drawChart(where, chart, { sync, zoom, onZoom, onReset, opens, draw = [], fill = (u) => valuesAt(u.chart)(u) } = {}) {
  const { lines } = chart;
  const shown = (u) => (u.chart ?? chart).lines;
  const size = { width: where.clientWidth, height: parseFloat(getComputedStyle(where).height) };
  where.replaceChildren();
  where.setAttribute("role", "application");
  where.setAttribute("aria-roledescription", "chart");
  where.setAttribute("tabindex", 0);
  where.setAttribute("aria-label", described(chart));
  const form = FORMS[chart.names ? "bars" : chart.form ?? "lines"];
  const isStill = sync === undefined;
  const plot = new uPlot({
    ...size, legend: { show: false }, pxAlign: 1, padding: [8, chart.x_unit === "ms" ? 30 : 20, 0, 0],
    series: [{ label: chart.x_label ?? "" }, ...lines.map((line, index) => seriesOf(form, line, line.look ?? index))],
    bands: (chart.bands ?? []).map((pair) => ({ series: pair.map((at) => at + 1), fill: colour(lines[pair[0]].look) + "33" })),
    scales: { x: { ...placeScale(chart), ...(zoom && { min: zoom[0], max: zoom[1] }) }, y: valueScale(chart) },
    axes: [placeAxis(chart, size.width), valueAxis(chart, size.height)],
    cursor: { ...(isStill ? {} : { sync: { key: sync, scales: ["x", null] } }), drag: { x: !isStill, y: false }, y: isStill, points: isStill ? { show: false } : { size: 7 } },
    hooks: {
      drawClear: [(u) => shown(u).forEach((line, index) => drawRegions(u, line, colour(line.look ?? index)))],
      draw: [(u) => { if (form.isMarked) markLines(u, shown(u)); if (chart.form === "scatter") joinFrontier(u, shown(u)); if (form.isPlotted) plotMarks(u, shown(u)); }, (u) => markTimes(u, (u.chart ?? chart).marks ?? []), (u) => markEvents(u, shown(u)), ...draw],
      setScale: [(u, key) => key === "x" && u.status && onZoom?.(u)],
      // Double-click zooms out in every chart, before uPlot does so in this one.
      ready: [(u) => onReset && u.over.addEventListener("dblclick", onReset, true)],
    },
    plugins: [tip(fill)],
  }, columnsOf(chart), where);
  plot.chart = chart;
  plot.reads = fill;
  plot.resets = onReset;
  plot.opens = opens;
  if (opens) byClick(plot);
  where.plot = plot;
  where.onkeydown = byKey;
  where.onblur = () => {
    where.plot.showsTip = false;
    where.plot.setCursor({ left: -10, top: -10 });
  };
  return plot;
}

// ---- by keyboard ----

/** Steps of the cursor along a chart. */
const KEY_STEPS = 50;
/** What a key does to the part that is seen. */
const KEY_ZOOMS = { "+": 0.5, "-": 2 };

/** Arrow keys move the cursor and say what is there, plus and minus zoom around it, Escape shows everything. */
function byKey(event) {
  const u = this.plot;
  if (event.ctrlKey || event.metaKey || event.altKey || !u) return;
  const [width, height] = [u.over.clientWidth, u.over.clientHeight];
  const at = { left: u.cursor.left >= 0 ? u.cursor.left : width / 2, top: u.cursor.top >= 0 ? u.cursor.top : height / 2 };
  const step = (event.shiftKey ? 5 : 1) / KEY_STEPS;
  const places = {
    ArrowLeft: { left: at.left - step * width }, ArrowRight: { left: at.left + step * width },
    ArrowUp: { top: at.top - step * height }, ArrowDown: { top: at.top + step * height }, Home: { left: 0 }, End: { left: width },
  };
  const isWhole = event.key === "Escape";
  if (event.key === "Enter" && u.opens) return openPointed(u);
  if (!places[event.key] && !KEY_ZOOMS[event.key] && !isWhole) return;
  event.preventDefault();
  if (isWhole) return u.resets ? u.resets() : u.setScale("x", { min: u.data[0][0], max: u.data[0].at(-1) });
  if (KEY_ZOOMS[event.key]) return zoomAround(u, u.posToVal(at.left, "x"), KEY_ZOOMS[event.key]);
  const place = { ...at, ...places[event.key] };
  u.showsTip = true;
  u.setCursor({ left: Math.min(Math.max(place.left, 0), width), top: Math.min(Math.max(place.top, 0), height) });
  const found = u.reads(u);
  if (found) announce([found[0], ...found[1].map(([, name, value]) => `${name} ${value}`)].join(", "));
}

// ---- what a line leads to ----

/** How near in px the cursor has to be to an event or a line. */
const NEAR_EVENT = 12;
const NEAR_LINE = 40;

/** A click is no end of a stretch that is drawn to be zoomed. */
function byClick(u) {
  let begun = 0;
  u.over.addEventListener("mousedown", (event) => { begun = event.clientX; }, true);
  u.over.addEventListener("click", (event) => Math.abs(event.clientX - begun) < 4 && openPointed(u));
}

function openPointed(u) {
  const found = pointed(u);
  if (found) u.opens(found.line, found.at);
}

/** The event that is nearest to the cursor, else the nearest line: which line, and when. */
function pointed(u) {
  const { left, top, idx } = u.cursor;
  if (!known(idx) || left < 0) return null;
  const ratio = u.pxRatio ?? devicePixelRatio;
  const events = u.chart.lines.flatMap((line, k) => signsOf(u, line, k).map(({ at, x, y }) => ({ line, at, far: Math.hypot((x - u.bbox.left) / ratio - left, (y - u.bbox.top) / ratio - top) })));
  const lines = u.chart.lines.map((line, k) => {
    const value = u.data[k + 1][nearestKnown(u.data[k + 1], idx, 3)];
    return { line, at: u.posToVal(left, "x"), far: line.hidden || line.area || !known(value) ? Infinity : Math.abs(u.valToPos(value, "y") - top) };
  });
  const nearest = (all, most) => all.sort((a, b) => a.far - b.far).find(({ far }) => far < most);
  return nearest(events, NEAR_EVENT) ?? nearest(lines, NEAR_LINE);
}

function zoomAround(u, middle, factor) {
  const { min, max, distr } = u.scales.x;
  if (u.chart.names || distr === 3) return;
  const [from, to] = [middle - (middle - min) * factor, middle + (max - middle) * factor];
  const [first, last] = u.chart.x_range ?? [u.data[0][0], u.data[0].at(-1)];
  u.setScale("x", { min: Math.max(from, first), max: Math.min(to, last) });
}

/** Has a screen reader say it. */
function announce(words) {
  let place = one("#spoken");
  if (!place) document.body.append(place = element("p", { id: "spoken", role: "status", "aria-live": "polite" }));
  place.textContent = words;
}

const columnsOf = ({ lines }) => uPlot.join(lines.map(({ x, y }) => [x, y]));

/** Gives a plot new values, which is faster than drawing it anew, and shows all of them or the part `zoom`. The cursor stays, and the tip tells what
    is there now. False where more than its values and ranges is new. */
function updateChart(plot, chart, zoom) {
  if (fixedOf(plot.chart) !== fixedOf(chart)) return false;
  const where = plot.root.parentElement;
  plot.chart = chart;
  plot.setData(columnsOf(chart), !zoom);
  if (zoom) {
    plot.setScale("x", { min: zoom[0], max: zoom[1] });
    if (plot.cursor.left >= 0) plot.setCursor(plot.cursor, true, false);
  }
  // A screen reader would say each new one of the chart that it is at.
  if (document.activeElement !== where) where.setAttribute("aria-label", described(chart));
  return true;
}

/** All of a chart that is settled when it is drawn. */
const fixedOf = ({ lines, ...chart }) => JSON.stringify([{ ...chart, x_range: null, y_range: null, marks: null }, lines.map(({ name, look, area, hollow, hidden, pale, strong }) => [name, look, area, hollow, hidden, pale, strong])]);

/** How lines of each form are drawn, over what all have. */
const FORMS = {
  lines: { isMarked: true, of: (own, at) => ({ dash: look(at).dashes, points: { show: true, size: 4, width: 0, fill: own, filter: lonely } }) },
  stack: { of: (own) => ({ fill: own, points: { show: false } }) },
  stairs: { isMarked: true, of: (own, at) => ({ dash: look(at).dashes, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }) },
  steps: { of: (own) => ({ paths: uPlot.paths.stepped({ align: 1 }), fill: own + "33", points: { show: false } }) },
  marks: { isPlotted: true, of: () => ({ paths: () => null, points: { show: false } }) },
  bars: { of: (own) => ({ paths: uPlot.paths.bars({ size: [0.85, 40] }), fill: own, points: { show: false } }) },
};
FORMS.regions = FORMS.marks;
FORMS.scatter = FORMS.marks;
FORMS.cdf = { of: FORMS.lines.of };

function seriesOf(form, line, at) {
  const own = colour(at);
  const all = { label: line.name, stroke: line.pale ? own + "40" : own, width: line.strong ? 2.5 : 1.6, show: !line.hidden, spanGaps: false };
  if (line.area) return { ...all, stroke: colours.edge, fill: colours.area, width: 1, points: { show: false }, paths: wholeBins };
  if (line.dots) return { ...all, paths: () => null, points: { show: true, size: 3.2, width: 0, fill: colours.soft } };
  // What another source prints.
  if (line.hollow) return { ...all, paths: () => null, points: { show: true, size: 9, width: 2, fill: colours.ground } };
  return { ...all, ...form.of(own, at) };
}

function placeScale(chart) {
  // Whoever asks for all the data gets the whole range.
  const range = (u, low, high) => low > u.data[0][0] || high < u.data[0].at(-1) ? [low, high] : placeRange(u.chart ?? chart, low, high);
  return { time: false, dir: chart.reversed_x ? -1 : 1, distr: chart.log_x ? 3 : 1, log: 10, range };
}

function valueScale(chart) {
  return { distr: chart.log_y ? 3 : 1, log: 10, range: (u, low, high) => valueRange(u.chart ?? chart, low, high) };
}

/** Steps of an axis that shows m:ss, in seconds. */
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];

function placeAxis({ names, x_label: label, x_unit: unit, x_clock: isClock, log_x: isLog }, width) {
  const below = label ? { label, labelSize: 20 } : {};
  if (names) return axis({ size: 30, ...below, ...named(names) });
  if (isClock) return axis({ space: 60, size: 30, ...below, incrs: CLOCK_STEPS, values: (u, ticks) => ticks.map(clock) });
  const splits = isLog ? { splits: (u) => logTicks(u.scales.x.min, u.scales.x.max, width / 70), filter: (u, ticks) => ticks } : {};
  const last = (ticks, i) => unit && i === ticks.length - 1 ? ` ${unit}` : "";
  return axis({ space: 60, size: 30, ...below, ...splits, values: (u, ticks) => ticks.map((tick, i) => `${+tick.toPrecision(6)}${last(ticks, i)}`) });
}

function valueAxis({ log_y: isLog, y_unit: unit }, height) {
  const splits = isLog ? { splits: (u) => logTicks(u.scales.y.min, u.scales.y.max, height / 34), filter: (u, ticks) => ticks } : {};
  const size = (u, words) => Math.max(46, 12 + 7 * Math.max(0, ...(words ?? []).map((word) => word.length)));
  return axis({ space: 34, size, ...splits, values: (u, ticks) => ticks.map((tick) => brief(tick) + (unit ?? "")) });
}

function axis(more) {
  return { stroke: colours.soft, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, border: { show: false }, gap: 6, ...more };
}

/** An axis with names at the places 0, 1, ...; short where there is little room. */
function named(names) {
  const shown = (u, at) => shortened(names[at] ?? "", Math.max(2, Math.floor(u.width / names.length / 8)));
  return { splits: () => names.map((_, at) => at), values: (u, splits) => splits.map((at) => shown(u, at)) };
}

// ---- what is drawn over the lines ----

function clipped({ ctx, bbox }, paint) {
  ctx.save();
  ctx.beginPath();
  // A marker on the border is whole.
  const room = 6 * devicePixelRatio;
  ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
  ctx.clip();
  paint(ctx);
  ctx.restore();
}

/** The regions around the marks of a line: from least to most on both axes. */
function drawRegions(u, line, own) {
  if (!line.spread?.length || line.hidden) return;
  clipped(u, (ctx) => line.spread.forEach(([left, right, low, high]) => {
    const [x, y] = [u.valToPos(left, "x", true), u.valToPos(high, "y", true)];
    const sides = [x, y, u.valToPos(right, "x", true) - x, u.valToPos(low, "y", true) - y];
    ctx.fillStyle = own + "33";
    ctx.fillRect(...sides);
    ctx.strokeStyle = own;
    ctx.strokeRect(...sides);
  }));
}

/** Draws the marker of a look at a point of the canvas. */
function drawMarker(u, at, x, y) {
  const ratio = u.pxRatio ?? devicePixelRatio;
  const outline = new Path2D(look(at).outline);
  u.ctx.save();
  u.ctx.translate(x, y);
  u.ctx.scale(4.4 * ratio, 4.4 * ratio);
  u.ctx.lineWidth = 0.5;
  u.ctx.strokeStyle = colours.ground;
  u.ctx.stroke(outline);
  u.ctx.fillStyle = colour(at);
  u.ctx.fill(outline);
  u.ctx.restore();
}

/** A few markers along each line, staggered, so that lines are told apart without colour. */
function markLines(u, lines) {
  const xs = u.data[0];
  const count = Math.max(2, Math.round(u.bbox.width / (u.pxRatio ?? devicePixelRatio) / 150));
  const { min, max } = u.scales.x;
  const place = (k, i) => {
    const at = min + (max - min) * (i + (k + 0.5) / lines.length) / count;
    return nearestKnown(u.data[k + 1], u.valToIdx(at), Math.max(1, xs.length / count / 3));
  };
  clipped(u, () => lines.forEach((line, k) => {
    if (line.hidden || line.pale || line.area || line.hollow || line.dots) return;
    for (let i = 0; i < count; i++) {
      const found = place(k, i);
      if (found < 0 || xs[found] < min || xs[found] > max) continue;
      drawMarker(u, line.look ?? k, u.valToPos(xs[found], "x", true), u.valToPos(u.data[k + 1][found], "y", true));
    }
  }));
}

/** The line through the marks that no other beats in both. */
function joinFrontier(u, lines) {
  const front = frontier(lines.filter((line) => !line.hidden).map((line) => ({ x: line.x[0], y: line.y[0] })));
  clipped(u, (ctx) => {
    ctx.strokeStyle = colours.edge;
    ctx.lineWidth = 1.5 * (u.pxRatio ?? devicePixelRatio);
    ctx.beginPath();
    front.forEach((mark) => ctx.lineTo(u.valToPos(mark.x, "x", true), u.valToPos(mark.y, "y", true)));
    ctx.stroke();
  });
}

/** A marker at each point. */
function plotMarks(u, lines) {
  const { min, max } = u.scales.x;
  clipped(u, () => lines.forEach((line, k) => line.hidden || line.hollow || u.data[k + 1].forEach((y, i) => {
    const x = u.data[0][i];
    if (known(y) && x >= min && x <= max) drawMarker(u, line.look ?? k, u.valToPos(x, "x", true), u.valToPos(y, "y", true));
  })));
}

/** Upright lines where something happens, with a word each where there is room. */
function markTimes(u, marks) {
  const { ctx, bbox } = u;
  const ratio = u.pxRatio ?? devicePixelRatio;
  let free = -Infinity;
  ctx.save();
  ctx.textAlign = "left";
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  for (const { at, words } of marks.toSorted((a, b) => a.at - b.at)) {
    const x = u.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colours.edge;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const width = ctx.measureText(words).width;
    if (x < free || x + width + 6 * ratio > bbox.left + bbox.width) continue;
    ctx.fillStyle = colours.soft;
    ctx.fillText(words, x + 3 * ratio, bbox.top + 10 * ratio);
    free = x + width + 9 * ratio;
  }
  ctx.restore();
}

/** The sign of each event on its line; those that would cover the one before are left to the tip. */
function markEvents(u, lines) {
  const ratio = u.pxRatio ?? devicePixelRatio;
  clipped(u, (ctx) => {
    Object.assign(ctx, { textAlign: "center", textBaseline: "middle", font: `bold ${14 * ratio}px system-ui, sans-serif`, lineWidth: 3 * ratio, lineJoin: "round", strokeStyle: colours.ground });
    lines.forEach((line, k) => signsOf(u, line, k).forEach(({ sign, x, y }) => {
      ctx.fillStyle = colour(line.look ?? k);
      ctx.strokeText(sign, x, y);
      ctx.fillText(sign, x, y);
    }));
  });
}

/** Where the signs of a line's events stand on the canvas. */
function signsOf(u, line, k) {
  const ratio = u.pxRatio ?? devicePixelRatio;
  const foot = u.bbox.top + u.bbox.height - 8 * ratio;
  return (line.hidden || line.pale ? [] : line.events ?? []).flatMap(({ sign, at }) => {
    let free = -Infinity;
    return at.flatMap((time) => {
      const x = u.valToPos(time, "x", true);
      if (x < free) return [];
      free = x + 9 * ratio;
      const found = nearestKnown(u.data[k + 1], u.valToIdx(time), 3);
      return [{ sign, at: time, x, y: found < 0 ? foot : Math.min(foot, u.valToPos(u.data[k + 1][found], "y", true)) }];
    });
  });
}

function nearestKnown(values, place, reach) {
  for (let off = 0; off <= reach; off++) {
    if (known(values[place + off])) return place + off;
    if (known(values[place - off])) return place - off;
  }
  return -1;
}

// ---- what a chart says ----

/** A box beside the cursor with what `fill` gives for it, if anything. */
function tip(fill) {
  const box = element("div", { class: "tip" });
  let isInside = false;
  const hide = () => { box.style.display = "none"; };
  return { hooks: {
    ready: [(u) => {
      u.over.append(box);
      // Capturing, so as to know before uPlot moves the cursor; charts in step have no tip.
      u.over.addEventListener("mousemove", () => { isInside = true; }, true);
      u.over.addEventListener("mouseleave", () => { isInside = false; hide(); });
    }],
    setCursor: [(u) => {
      const parts = (isInside || u.showsTip) && u.cursor.left >= 0 && fill(u);
      if (!parts) return hide();
      const [title, rows] = parts;
      box.replaceChildren(title, element("table", {}, element("tbody", {}, ...rows.map(([marker, name, value]) =>
        element("tr", {}, element("td", {}, ...marker, name), element("td", {}, element("b", {}, value)))))));
      box.style.display = "block";
      const isRight = u.cursor.left > u.over.clientWidth / 2;
      box.style.left = isRight ? "auto" : `${u.cursor.left + 14}px`;
      box.style.right = isRight ? `${u.over.clientWidth - u.cursor.left + 14}px` : "auto";
    }],
  } };
}

/** What the tip tells: the place, and the value of each line there with its events. */
function valuesAt({ lines, unit, names, x_unit: xUnit, x_clock: isClock, x_label: label }) {
  return (u) => {
    const place = u.cursor.idx;
    if (!known(place)) return null;
    const at = u.data[0][place];
    const half = ((u.data[0][1] - u.data[0][0]) / 2) || 0;
    const rows = lines.flatMap((line, k) => {
      const value = (line.own ?? u.data[k + 1])[place];
      const happened = (line.events ?? []).filter((event) => event.at.some((time) => Math.abs(time - at) <= half)).map((event) => event.name);
      if (line.hidden || (!known(value) && !happened.length)) return [];
      return [[line.area || line.dots ? [] : [dot(line.look ?? k)], line.name, [brief(value), ...happened].filter(Boolean).join(", ")]];
    });
    const where = names ? names[at] : isClock ? clock(at) : xUnit ? `${+at.toPrecision(5)} ${xUnit}` : `${label} ${+at.toPrecision(5)}`;
    return rows.length ? [unit ? `${where}, in ${unit}` : where, rows] : null;
  };
}

/** The chart in words, for those who do not see it. */
function described({ title, unit, lines, form, x_unit: xUnit, x_clock: isClock, x_label: label, marks = [] }) {
  const times = (all) => isClock ? all.map(clock).join(", ") : all.map(brief).join(", ");
  const inSeconds = isClock ? "" : " s";
  const line = ({ name, x, own, y, hidden, events = [] }) => {
    const values = (own ?? y).filter(known);
    if (hidden || !values.length) return [];
    // A point has both its places, a distribution its percentiles: from nothing to everything they all go.
    if (form === "scatter") return [x.map((place, i) => `${name} ${brief(y[i])} at ${brief(place)}`).join(", ")];
    if (form === "cdf") return [`${name} ${[50, 95].map((share) => `${share} % below ${brief(x[y.findIndex((value) => value >= share)])}`).join(", ")} ${xUnit ?? label ?? ""}`.trim()];
    const range = `${name} from ${brief(lowest(values))} to ${brief(highest(values))}`;
    return [range + events.map(({ name: what, at }) => `, ${what} at ${times(at.slice(0, 8))}${at.length > 8 ? " and later" : ""}${inSeconds}`).join("")];
  };
  const happened = marks.map(({ at, words }) => `${words} at ${times([at])}${inSeconds}`);
  return `${title}${unit ? `, ${unit}` : ""}: ${[...lines.flatMap(line), ...happened].join("; ")}`;
}
