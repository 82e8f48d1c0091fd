// Charts over time: lines of controllers or flows over the capacity, zoomed together.

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
  const width = seconds(state.window ?? 0);
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
  told.drawn.cwnd = timeChart("#cwnd", one("#cwnd .chart"), lines, { unit, log: state.inside === WINDOW, least: 1, merged: mean });
  one("#cwnd-note").textContent = (unit ? `In ${unit}. ` : "")
    + (state.inside !== WINDOW && lines.length < alone.length ? "The other controllers do not have this value." : "");
}

/** The chosen value of a run's controller; the window has finer bins than the others. */
function insideOf(run) {
  if (state.inside === WINDOW) return { bin: run.series.bin, values: run.series.cwnd[0] };
  const found = run.series.inside.values.find(([name]) => name === state.inside);
  return { bin: run.series.inside.bin, values: found ? found[1] : [] };
}

function capacityOf(timed) {
  return timed.length && { bin: timed[0].series.bin, values: data.capacities[timed[0].series.capacity] };
}

/** Draws `lines` over time and tells how many show something. */
function timeChart(section, where, lines, { unit, log = false, least = LEAST_DELAY, capacity = null, stacked = false, top = null, marks = [], merged }) {
  // Flows have a table, too, which stays.
  if (section === "#flows") where.hidden = where.previousElementSibling.hidden = !lines.length;
  else one(section).hidden = !lines.length;
  where.replaceChildren();
  if (!lines.length) return 0;
  const height = parseFloat(getComputedStyle(where).height);
  const width = where.clientWidth;
  const steps = Math.max(...lines.map((line) => Math.ceil(line.values.length * line.bin / state.window - 1e-9)));
  const times = Array.from({ length: steps }, (_, i) => (i + 0.5) * state.window);
  const floor = (values) => log ? values.map((value) => known(value) ? Math.max(value, least) : null) : values;
  const columns = lines.map((line) => floor(block(line, state.window, steps, merged)));
  // The tip tells what each has, not the sums that are drawn.
  lines.forEach((line, i) => { line.own = columns[i].slice(); });
  if (stacked) stack(columns);
  const area = capacity ? [block(capacity, state.window, steps, mean)] : [];
  const series = [{}, ...area.map(() => ({
    label: "capacity", stroke: colours.edge, fill: colours.area, width: 1, points: { show: false },
    paths: wholeBins,
  })), ...lines.map((line) => ({
    label: line.name, stroke: toned(line.look), width: state.only === line.look ? 2.4 : 1.6, dash: stacked ? [] : look(line.look).dashes, show: !line.hidden,
    ...(stacked ? { fill: colour(line.look) } : {}),
    spanGaps: false, points: { show: true, size: 4, width: 0, fill: colour(line.look), filter: lonely },
  }))];
  const first = 1 + area.length;
  const plot = new uPlot({
    width, height, series, legend: { show: false }, pxAlign: 1, padding: [8, 16, 0, 0],
    scales: {
      // Whoever asks for all the data gets the whole run, half a window more at either end.
      x: { time: false, ...(state.zoom && { min: state.zoom[0], max: state.zoom[1] }), range: (u, low, high) => low <= times[0] && high >= times.at(-1) ? [0, state.end] : [low, high] },
      y: log ? { distr: 3, log: 10, range: (u, low, high) => logRange(low, high, least) } : { range: (u, low, high) => [0, top ?? (high > 0 ? high * 1.06 : 1)] },
    },
    axes: [
      axis({ space: 60, size: 30, values: (u, ticks) => ticks.map((tick, i) => i === ticks.length - 1 ? `${+tick.toPrecision(6)} s` : `${+tick.toPrecision(6)}`) }),
      axis({ space: 34, size: 46, ...(log ? { splits: (u) => logTicks(u.scales.y.min, u.scales.y.max, height / 34), filter: (u, ticks) => ticks } : {}), values: (u, ticks) => ticks.map(brief) }),
    ],
    cursor: { sync: { key: "time", scales: ["x", null] }, drag: { x: true, y: false }, y: false, points: { size: 7 } },
    hooks: {
      draw: [(u) => { if (!stacked) markLines(u, lines, first); }, (u) => markTimes(u, marks)],
      setScale: [(u, key) => key === "x" && u.status && zoomed(u)],
    },
    plugins: [tip(lines, area.length, unit)],
  }, [times, ...area, ...columns], where);
  plot.section = section;
  plots.push(plot);
  offerChart(where, plot);
  return columns.filter((values, i) => !lines[i].hidden && values.some(known)).length;
}

function axis(more) {
  return { stroke: colours.soft, font: "12px system-ui, sans-serif", grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, border: { show: false }, gap: 6, ...more };
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


function logRange(low, high, least) {
  if (!known(low) || !(high > 0)) return [1, 100];
  const [from, to] = [Math.max(low, least) / 1.25, high * 1.25];
  return to / from < 4 ? [from / 2, to * 2] : [from, to];
}

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
    if (line.hidden || isPale(line.look)) return;
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

/** Whether another controller is highlighted. Flows have looks of their own. */
const isPale = (index) => known(state.only) && state.only !== index && !state.drawsFlows;
const toned = (index) => isPale(index) ? colour(index) + "40" : colour(index);

/** Values on top of each other: the first at the top, so that each covers the foot of the one before it. */
function stack(columns) {
  for (let k = columns.length - 2; k >= 0; k--)
    columns[k] = columns[k].map((value, i) => (value ?? 0) + (columns[k + 1][i] ?? 0));
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
  keepView();
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
      u.over.addEventListener("dblclick", () => { state.zoom = null; follow(null); keepView(); }, true);
    }],
    setCursor: [(u) => {
      const place = u.cursor.idx;
      if (!known(place) || !isInside) return hide();
      const entry = (marker, name, value) => known(value) ? [element("tr", {}, element("td", {}, ...marker, name), element("td", {}, element("b", {}, brief(value))))] : [];
      const rows = [
        ...(offset ? entry([], "capacity", u.data[1][place]) : []),
        ...lines.flatMap((line, k) => line.hidden ? [] : entry([dot(line.look)], line.name, line.own[place])),
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
