// Throughput against delay: one drawing of the chosen trace, and a small one of each where there are several.

function drawScatter() {
  const wanted = group().rows.length > 0 && !(data.groups.length === 1 && group().rows.length === 1 && group().rows[0].flows > 1);
  one("#scatter").hidden = !wanted;
  told.drawn.scatter = 0;
  if (!wanted) return;
  const where = one("#scatter .drawing");
  const width = where.clientWidth;
  const drawn = marksOf(group());
  told.drawn.scatter = drawn.marks.length;
  const missing = group().rows.filter((row) => !known(row.p95.v)).map((row) => row.cc);
  one("#scatter-note").textContent = (drawn.front.length > 1 ? "The line joins those that no other beats in both. " : "")
    + (missing.length ? `Not drawn, since nothing was delivered: ${missing.join(", ")}. ` : "")
    + (drawn.singles.length ? "Whiskers: 95 % confidence interval of the mean over the seeds; small marks: single seeds." : "");
  where.replaceChildren(scatterSvg(drawn, { width, height: Math.round(Math.min(460, Math.max(330, width * 0.46))) }));
  drawPanels();
  offerFiles(one("#scatter .head"), "throughput against delay", () => one("#scatter .drawing svg"));
}

/** Traces differ in capacity; a share of it can be compared. */
function usesShares() {
  const offered = data.groups.flatMap((each) => each.runs.map((run) => run.capacity)).filter(known);
  return offered.length > 0 && Math.max(...offered) > Math.min(...offered) * 1.02;
}

/** What is drawn of some rows: marks with intervals, single seeds, the efficient frontier, the capacity. */
function marksOf(part) {
  const key = usesShares() ? "utilization" : "throughput";
  const shown = part.rows.filter((row) => !state.hidden.has(data.controllers.indexOf(row.cc)) && known(row.p95.v) && known(row[key].v));
  const marks = shown.map((row) => ({ look: data.controllers.indexOf(row.cc), name: row.cc, x: row.p95.v, y: row[key].v, across: row.p95.ci, up: row[key].ci }));
  const repeated = new Set(marks.filter((mark) => known(mark.up)).map((mark) => mark.look));
  const singles = part.runs.filter((run) => repeated.has(run.cc) && known(run.p95) && !state.hidden.has(run.cc))
    .map((run) => ({ look: run.cc, x: run.p95, y: key === "throughput" ? run.throughput : 100 * run.throughput / run.capacity }));
  const offered = part.runs.map((run) => run.capacity).filter(known);
  const capacity = key === "throughput" ? mean(offered) ?? 0 : 100;
  return { key, marks, singles, front: frontier(marks), capacity, offered };
}

function drawPanels() {
  const where = one("#scatter .grid-of-panels");
  where.hidden = data.groups.length < 2;
  if (where.hidden) return;
  const each = data.groups.map(marksOf);
  const all = { ...each[0], marks: each.flatMap((drawn) => drawn.marks), singles: [], front: [], capacity: 0 };
  const names = ["all traces", ...data.groups.map((part) => part.name)];
  where.replaceChildren(...names.map(() => element("div", {})));
  const size = { width: Math.max(150, Math.floor(where.firstChild.clientWidth || 230)), height: 190 };
  told.panels = names.length;
  [all, ...each].forEach((drawn, i) => {
    const svg = scatterSvg(drawn, { ...size, title: names[i] });
    if (!i) { where.children[i].append(svg); return; }
    const button = element("button", { type: "button", class: "panel", "aria-pressed": String(state.group === i - 1) }, svg);
    button.addEventListener("click", () => { chooseGroup(i - 1); refresh(); });
    where.children[i].append(button);
  });
}

/** The delay axis runs from right to left: better is up and to the right. */
function scatterSvg({ key, marks, singles, front, capacity, offered }, { width, height, title }) {
  const isSmall = title !== undefined;
  const box = { left: isSmall ? 34 : 46, right: width - 12, top: isSmall ? 24 : 14, bottom: height - (isSmall ? 34 : 44) };
  const unit = key === "throughput" ? "Mbit/s" : "% of the capacity";
  const spread = (mark, sign) => Math.max(mark.x + sign * (mark.across ?? 0), mark.x / 4);
  const delays = [...marks.flatMap((mark) => [spread(mark, -1), spread(mark, 1)]), ...singles.map((run) => run.x)].map((ms) => Math.max(ms, LEAST_DELAY));
  const rates = [capacity, ...marks.map((mark) => mark.y + (mark.up ?? 0))];
  let [low, high] = delays.length ? [Math.min(...delays) / 1.7, Math.max(...delays) * 1.7] : [1, 100];
  if (high / low < 12) { const middle = Math.sqrt(low * high); low = middle / 3.5; high = middle * 3.5; }
  const top = Math.max(...rates, 0.001) * 1.08;
  // Points that crowd at the top get the room; a scatter needs no zero.
  const least = Math.min(...rates.filter((rate) => rate > 0), ...marks.map((mark) => mark.y - (mark.up ?? 0)));
  const ground = least > 0.45 * top ? least - 0.45 * (top - least) : 0;
  const x = (ms) => box.right - (box.right - box.left) * Math.log(Math.max(ms, LEAST_DELAY) / low) / Math.log(high / low);
  const y = (rate) => box.bottom - (box.bottom - box.top) * (rate - ground) / (top - ground);

  const what = isSmall ? title : "";
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${what} Throughput against the 95th percentile of the queue delay; the better corner is the upper right one`.trim() });
  if (isSmall) svg.append(text(2, 13, shortened(title, Math.floor(width / 7)), { class: "title" }));
  else svg.append(...betterCorner(box, Math.min(width, 900) * 0.4));
  svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  for (const tick of linearTicks(ground, top, isSmall ? 4 : 6)) {
    svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }), text(box.left - 6, y(tick) + 4, brief(tick), { "text-anchor": "end" }));
  }
  for (const tick of logTicks(low, high, (box.right - box.left) / 60)) {
    svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom }), text(x(tick), box.bottom + 16, brief(tick), { "text-anchor": "middle" }));
  }
  const below = width < 235 ? "← p95 [ms, log]" : width < 480 ? "← p95 of the queue delay [ms, log]" : "← more   95th percentile of the queue delay [ms, log scale]   less →";
  svg.append(text((box.left + box.right) / 2, height - 4, below, { "text-anchor": "middle", "xml:space": "preserve" }));
  if (!isSmall) svg.append(text(box.left + 6, box.top + 4, unit, { "dominant-baseline": "hanging" }));
  if (capacity > 0) svg.append(shape("line", { class: "capacity", x1: box.left, x2: box.right, y1: y(capacity), y2: y(capacity) }));
  if (front.length > 1) svg.append(shape("path", { class: "frontier", d: "M" + front.map((mark) => `${x(mark.x).toFixed(1)} ${y(mark.y).toFixed(1)}`).join("L") }));
  for (const run of singles) svg.append(markerAt(run.look, x(run.x), y(run.y), isSmall ? 2 : 3, { class: "one" }));
  const taken = isSmall ? [] : [{ x: box.right - 74, y: box.top + 2, w: 74, h: 26 }];
  for (const mark of marks) {
    if (known(mark.across)) svg.append(shape("path", { class: "whisker", stroke: colour(mark.look), d: `M${x(spread(mark, -1))} ${y(mark.y)}H${x(mark.x + mark.across)}M${x(mark.x)} ${y(mark.y - mark.up)}V${y(mark.y + mark.up)}` }));
    svg.append(markerAt(mark.look, x(mark.x), y(mark.y), isSmall ? 5 : 7, { stroke: colours.ground, "stroke-width": 0.2, ...(isPale(mark.look) ? { opacity: 0.25 } : {}), ...(isSmall ? {} : { "data-point": mark.look }) }));
    taken.push({ x: x(mark.x) - 8, y: y(mark.y) - 8, w: 16, h: 16 });
  }
  if (isSmall) return svg;
  if (capacity > 0) svg.append(capacityLabel(key, capacity, offered, y(capacity), box, taken));
  for (const mark of marks) svg.append(placeLabel(mark.name, x(mark.x), y(mark.y), taken, { ...box, right: width }));
  return svg;
}

function betterCorner(box, reach) {
  const defs = shape("defs", {});
  const gradient = shape("radialGradient", { id: "better", cx: 1, cy: 0, r: 1 });
  gradient.append(shape("stop", { offset: 0, "stop-color": "var(--better)" }), shape("stop", { offset: 1, "stop-color": "var(--better)", "stop-opacity": 0 }));
  defs.append(gradient);
  return [defs,
    shape("rect", { class: "better-corner", fill: "url(#better)", x: box.right - reach, y: box.top, width: reach, height: Math.min(reach, box.bottom - box.top) }),
    text(box.right - 30, box.top + 20, "better", { class: "better", "text-anchor": "end" }),
    shape("path", { class: "better-arrow", d: `M${box.right - 24} ${box.top + 22}l14 -14m-9 0h9v9` })];
}

function capacityLabel(key, capacity, offered, height, box, taken) {
  const [fewest, most] = [Math.min(...offered), Math.max(...offered)].map(brief);
  const words = key === "utilization" ? "capacity" : fewest === most ? `capacity ${fewest}` : `mean capacity ${brief(capacity)} (${fewest} to ${most})`;
  const w = widthOf(words);
  const places = [box.left + 6, (box.left + box.right - w) / 2, box.right - w - 6].flatMap((left) => [[left, height + 3], [left, height - 18]]);
  const [left, up] = places.find((place) => isFree(place, w, 15, taken)) ?? places[0];
  taken.push({ x: left, y: up, w, h: 15 });
  return text(left, up + 12, words, {});
}

/** Beside the point, where nothing else is; of a long name only the start. */
function placeLabel(name, x, y, taken, box) {
  const shown = shortened(name, Math.max(12, Math.floor((box.right - box.left) / 14)));
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

let measure = null;
function widthOf(words) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = "550 12px system-ui, sans-serif";
  return measure.measureText(words).width + 2;
}
