// Draws a chart as SVG, from the description that chart.js draws as well: small ones and those that stand still, and the file
// that a reader keeps of any chart.
//
// Beside what chart.js knows there are `reversed_x`, `levels` ({ at, words }), the form `scatter`, and of lines `minor` (small marks).

let frames = 0;

/** The SVG of a chart. `isSmall`: its title is in it. `isFile`: title and legend are above the height. */
function chartSvg(chart, { width, height, isSmall = false, isFile = false }) {
  const lines = chart.lines.map((line, at) => ({ ...line, look: line.look ?? at })).filter((line) => !line.hidden);
  const legend = isFile && chart.form !== "scatter" ? lines.filter((line) => line.name) : [];
  const keyWidth = width < 460 ? width / 2 - 20 : 230;
  const columns = Math.max(1, Math.floor(width / keyWidth));
  const head = isFile ? 30 + 18 * Math.ceil(legend.length / columns) : isSmall ? 14 : 4;
  const frame = frameOf({ ...chart, lines }, { width, top: head + 10, bottom: head * isFile + height, isSmall });
  const whole = height + head * isFile;
  const svg = shape("svg", { width, height: whole, viewBox: `0 0 ${width} ${whole}`, role: "img", "aria-label": described(chart) });
  if (chart.form === "scatter" && !isSmall) svg.append(...betterCorner(frame, Math.min(width, 900) * 0.4));
  drawAxes(svg, chart, frame, isSmall);
  if (isSmall) svg.append(text(2, 12, shortened(chart.title, Math.floor(width / 7)), { class: "title" }), text(frame.right, 12, chart.form === "scatter" ? "" : chart.unit, { "text-anchor": "end" }));
  if (isFile) {
    svg.append(text(frame.left, 18, [chart.title, chart.unit].filter(Boolean).join(", "), { class: "title" }));
    legend.forEach((line, at) => drawKey(svg, chart, line, (width < 460 ? 10 : frame.left) + (at % columns) * keyWidth, 40 + 18 * Math.floor(at / columns), keyWidth));
  }
  const inside = shape("g", { "clip-path": `url(#frame-${++frames})` });
  svg.append(shape("clipPath", { id: `frame-${frames}` }), inside);
  // A marker on the border is whole.
  svg.lastChild.previousSibling.append(shape("rect", { x: frame.left - 6, y: frame.top - 6, width: frame.right - frame.left + 12, height: frame.bottom - frame.top + 12 }));
  const taken = isSmall ? [] : [{ x: frame.right - 74, y: frame.top + 2, w: 74, h: 26 }];
  const marks = lines.map((line) => ({ look: line.look, x: frame.x(line.x[0]), y: frame.y(line.y[0]) }));
  if (chart.form === "scatter") drawScatterMarks(inside, { ...chart, lines }, frame, isSmall, taken);
  else lines.forEach((line) => inside.append(...shapesOf(chart, line, frame)));
  for (const { at, words } of chart.marks ?? []) drawTime(inside, frame, at, words);
  for (const line of lines) for (const event of line.events ?? []) drawEvent(inside, frame, line, event);
  drawLevels(svg, chart, frame, isSmall, taken);
  if (chart.form === "scatter" && !isSmall) lines.forEach((line, at) => svg.append(...placeLabel(line.name, marks[at], marks, taken, { ...frame, right: width })));
  return svg;
}

/** The sides of what is between the axes, and the ways there. */
function frameOf(chart, { width, top, bottom: foot, isSmall }) {
  const values = chart.lines.flatMap((line) => line.y.filter((y) => known(y) && (!chart.log_y || y > 0)));
  const places = chart.lines.flatMap((line) => [...line.x, ...(line.minor ?? []).map(([x]) => x)]).filter((x) => !chart.log_x || x > 0);
  const ys = valueRange(chart, lowest(values), highest(values));
  const xs = placeRange(chart, lowest(places) ?? 0, highest(places) ?? 1);
  const bottom = foot - (chart.x_label ? (isSmall ? 34 : 44) : 26);
  const yTicks = ticksBetween(ys, chart.log_y, (bottom - top) / (isSmall ? 44 : 40));
  const longest = Math.max(0, ...yTicks.map((tick) => brief(tick).length + (chart.y_unit ?? "").length));
  const left = Math.max(isSmall ? 30 : 46, 14 + 7 * longest);
  // A place that is not laid out yet has no width.
  const right = Math.max(left + 1, width - (isSmall ? 12 : 24));
  const xTicks = chart.names ? chart.names.map((_, at) => at) : ticksBetween(xs, chart.log_x, (right - left) / (chart.log_x ? 60 : 80));
  const ends = chart.reversed_x ? [right, left] : [left, right];
  return { left, right, top, bottom, xTicks, yTicks, x: placing(xs, chart.log_x, ends), y: placing(ys, chart.log_y, [bottom, top]) };
}

function drawAxes(svg, chart, { left, right, top, bottom, xTicks, yTicks, x, y }, isSmall) {
  const room = chart.names ? Math.max(2, Math.floor((right - left) / chart.names.length / 7)) : Infinity;
  const words = (tick, i) => chart.names ? shortened(chart.names[tick], room) : `${+tick.toPrecision(6)}${chart.x_unit && i === xTicks.length - 1 ? ` ${chart.x_unit}` : ""}`;
  for (const tick of yTicks) svg.append(shape("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }), text(left - 6, y(tick) + 4, brief(tick) + (chart.y_unit ?? ""), { "text-anchor": "end" }));
  xTicks.forEach((tick, i) => {
    if (!chart.names) svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }));
    svg.append(text(x(tick), bottom + 16, words(tick, i), { "text-anchor": "middle" }));
  });
  svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  if (chart.x_label) svg.append(text((left + right) / 2, bottom + (isSmall ? 31 : 38), chart.x_label, { "text-anchor": "middle" }));
  if (chart.form === "scatter" && !isSmall) svg.append(text(left + 6, top + 4, chart.unit, { "dominant-baseline": "hanging" }));
}

/** What stands for a line in the legend of a file. */
function drawKey(svg, chart, line, x, y, room) {
  const form = { cdf: "lines", stack: "bars" }[chart.form] ?? chart.form;
  const key = line.area ? shape("rect", { x, y: y - 10, width: 34, height: 12, class: "area" }) : swatch(line.look, line.hollow ? "hollow" : chart.names ? "bars" : form);
  if (!line.area) Object.entries({ x, y: y - 11 }).forEach(([name, value]) => key.setAttribute(name, value));
  svg.append(key, text(x + 42, y, shortened(line.name, Math.floor((room - 46) / 7)), {}));
}

/** A line in its form. What has no place, and `null`, is a gap. */
function shapesOf(chart, line, frame) {
  const { names, form, log_x: logX, log_y: logY } = chart;
  const own = colour(line.look);
  const hasPlace = (x, y) => known(y) && (!logY || y > 0) && (!logX || x > 0);
  const points = line.x.map((x, i) => hasPlace(x, line.y[i]) ? [frame.x(x), frame.y(line.y[i])] : null);
  const found = points.filter(known);
  const regions = (line.spread ?? []).map(([from, to, low, high]) => shape("path", { d: `M${frame.x(from).toFixed(1)} ${frame.y(low).toFixed(1)}H${frame.x(to).toFixed(1)}V${frame.y(high).toFixed(1)}H${frame.x(from).toFixed(1)}Z`, fill: own, "fill-opacity": 0.2, stroke: own }));
  const markers = (radius, more) => found.map(([x, y]) => markerAt(line.look, x, y, radius, more));
  if (line.hollow) return found.map(([cx, cy]) => shape("circle", { cx, cy, r: 4.5, fill: "none", stroke: own, "stroke-width": 2 }));
  if (line.dots) return [shape("path", { class: "dots", d: found.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("") })];
  if (form === "marks" || form === "regions") return [...regions, ...markers(4.4, line.pale ? { opacity: 0.6 } : {})];
  if (names) {
    const width = Math.min(40, 0.8 * (frame.right - frame.left) / names.length / chart.lines.length);
    return found.map(([x, y]) => shape("rect", { x: x - width / 2, y, width, height: Math.max(0, frame.bottom - y), fill: own }));
  }
  const isStepped = line.area || form === "stairs" || form === "steps";
  // What is level over a bin turns between the middles of bins, stairs at their places.
  const turn = ([x], [before]) => line.area ? `H${((x + before) / 2).toFixed(1)}` : `H${x.toFixed(1)}`;
  const step = (point, before) => isStepped ? `${turn(point, before)}V${point[1].toFixed(1)}H${point[0].toFixed(1)}` : `L${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
  const begin = ([x, y], next) => `M${x.toFixed(1)} ${y.toFixed(1)}${next ? "" : "h2"}`;
  const d = points.map((point, i) => !point ? "" : points[i - 1] ? step(point, points[i - 1]) : begin(point, points[i + 1])).join("");
  const dashes = form === "stack" || line.area ? "" : look(line.look).dashes.join(" ");
  const looks = line.area ? { class: "edge" } : { class: "line", stroke: own, "stroke-dasharray": dashes, ...(line.pale ? { opacity: 0.25 } : {}) };
  const outline = shape("path", { d, fill: "none", "stroke-width": line.strong ? 2.5 : 1.6, "stroke-linejoin": "round", ...looks });
  const isFilled = line.area || form === "stack" || form === "steps";
  if (!found.length) return [];
  if (isFilled) return [shape("path", { d: `${d}V${frame.bottom}H${found[0][0].toFixed(1)}Z`, ...(line.area ? { class: "area" } : { fill: own, "fill-opacity": form === "steps" ? 0.2 : 1 }) }), outline];
  const isMarked = !line.pale && found.length > 3;
  const every = Math.max(1, Math.ceil(found.length / 6));
  const some = isMarked && chart.lines.length > 1 ? found.filter((_, i) => i % every === (line.look * 2 + 1) % every) : [];
  return [...regions, outline, ...some.map(([x, y]) => markerAt(line.look, x, y, 4.4))];
}

/** Marks with whiskers to the ends of their intervals, single values, and the line through those that no other beats. */
function drawScatterMarks(svg, { lines, unit }, { x, y }, isSmall, taken) {
  const front = frontier(lines.map((line) => ({ x: line.x[0], y: line.y[0] })));
  if (front.length > 1 && !lines.some((line) => line.x.length > 1)) svg.append(shape("path", { class: "frontier", d: "M" + front.map((mark) => `${x(mark.x).toFixed(1)} ${y(mark.y).toFixed(1)}`).join("L") }));
  for (const line of lines) for (const [place, value] of isSmall ? [] : line.minor ?? []) svg.append(markerAt(line.look, x(place), y(value), 3, { class: "one" }));
  for (const line of lines) line.x.forEach((place, i) => {
    const [left, up] = [x(place), y(line.y[i])];
    for (const [from, to, low, high] of line.spread ?? []) svg.append(shape("path", { class: "whisker", stroke: colour(line.look), d: `M${x(from)} ${up}H${x(to)}M${left} ${y(low)}V${y(high)}` }));
    const mark = markerAt(line.look, left, up, isSmall ? 5 : 7, { class: "point", "data-look": line.look, stroke: colours.ground, "stroke-width": 0.2, ...(line.pale ? { opacity: 0.25 } : {}) });
    // What a browser shows to whoever points at it.
    const told = shape("title", {});
    told.textContent = `${line.name}: ${brief(line.y[i])} ${unit}, at ${brief(place)} ms`;
    mark.append(told);
    svg.append(mark);
    taken.push({ x: left - 8, y: up - 8, w: 16, h: 16 });
  });
}

function drawLevels(svg, { levels = [] }, frame, isSmall, taken) {
  for (const { at, words } of levels) {
    const y = frame.y(at);
    svg.append(shape("line", { class: "capacity", x1: frame.left, x2: frame.right, y1: y, y2: y }));
    if (!isSmall) svg.append(levelLabel(words, y, frame, taken));
  }
}

function drawTime(svg, frame, at, words) {
  const x = frame.x(at);
  svg.append(shape("line", { class: "capacity", x1: x, x2: x, y1: frame.top, y2: frame.bottom }), text(x + 3, frame.top + 10, words, {}));
}

function drawEvent(svg, frame, line, { sign, at }) {
  for (const time of at) {
    const place = nearestKnown(line.y, line.x.findIndex((x) => x >= time), 3);
    const y = place < 0 ? frame.bottom - 8 : Math.min(frame.bottom - 8, frame.y(line.y[place]));
    svg.append(text(frame.x(time), y + 5, sign, { class: "event", style: `fill: ${colour(line.look)}`, "text-anchor": "middle" }));
  }
}

function betterCorner({ right, top, bottom }, reach) {
  const defs = shape("defs", {});
  const gradient = shape("radialGradient", { id: "better", cx: 1, cy: 0, r: 1 });
  gradient.append(shape("stop", { offset: 0, "stop-color": "var(--better)" }), shape("stop", { offset: 1, "stop-color": "var(--better)", "stop-opacity": 0 }));
  defs.append(gradient);
  return [defs,
    shape("rect", { class: "better-corner", fill: "url(#better)", x: right - reach, y: top, width: reach, height: Math.min(reach, bottom - top) }),
    text(right - 30, top + 20, "better", { class: "better", "text-anchor": "end" }),
    shape("path", { class: "better-arrow", d: `M${right - 24} ${top + 22}l14 -14m-9 0h9v9` })];
}

function levelLabel(words, height, { left, right }, taken) {
  const w = widthOf(words);
  const places = [left + 6, (left + right - w) / 2, right - w - 6].flatMap((x) => [[x, height + 3], [x, height - 18]]);
  const [x, y] = places.find((place) => isFree(place, w, 15, taken)) ?? places[0];
  taken.push({ x, y, w, h: 15 });
  return text(x, y + 12, words, {});
}

/** Beside its mark, where nothing else is and no other mark is nearer; where there is no such place, farther away at a line that
    leads to the mark. Of a long name only the start. */
function placeLabel(name, mark, marks, taken, box) {
  const shown = shortened(name, Math.max(12, Math.floor((box.right - box.left) / 14)));
  const [w, h] = [widthOf(shown), 15];
  const inside = ([left, top]) => left >= box.left && left + w <= box.right && top >= box.top - 8 && top + h <= box.bottom;
  const away = ([left, top], { x, y }) => Math.hypot(Math.max(left - x, 0, x - left - w), Math.max(top - y, 0, y - top - h));
  const others = marks.filter((other) => other !== mark);
  const isNearest = (place) => others.every((other) => away(place, mark) <= away(place, other));
  const free = placesAround(mark, w, h).filter((place) => inside(place) && isFree(place, w, h, taken));
  const near = free.find(isNearest);
  const [left, top] = near ?? free[0] ?? [Math.min(mark.x + 11, box.right - w), mark.y - h / 2];
  taken.push({ x: left, y: top, w, h });
  const label = text(left, top + 12, shown, { class: "label", "data-look": mark.look });
  if (near && away(near, mark) < LEADER_FROM) return [label];
  const [x, y] = [Math.min(Math.max(mark.x, left), left + w), Math.min(Math.max(mark.y, top), top + h)];
  return [shape("line", { class: "leader", "data-look": mark.look, stroke: colour(mark.look), x1: mark.x, y1: mark.y, x2: x, y2: y }), label];
}

/** A label at this distance from its mark, in pixels, has a line to it. */
const LEADER_FROM = 20;

/** Left upper corners of a label around a mark, the nearest first: beside it, then above and below, then farther out. */
function placesAround({ x, y }, w, h) {
  const rings = [0, 14, 28, 44, 60, 80, 100].map((far) => [
    [x + 11, y - h / 2 - far], [x - 11 - w, y - h / 2 - far], [x + 11, y - h / 2 + far], [x - 11 - w, y - h / 2 + far],
    [x - w / 2, y - 11 - h - far], [x - w / 2, y + 11 + far], [x + 11 + far, y - h / 2], [x - 11 - w - far, y - h / 2],
  ]);
  return rings.flat();
}

function isFree([left, top], w, h, taken) {
  return taken.every((other) => left > other.x + other.w || left + w < other.x || top > other.y + other.h || top + h < other.y);
}

let measure = null;
function widthOf(words) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = "550 12px system-ui, sans-serif";
  return measure.measureText(words).width + 2;
}
