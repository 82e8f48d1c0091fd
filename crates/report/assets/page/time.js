// Charts over time: lines of controllers or flows over the capacity, zoomed together.

function drawThroughput(timed) {
  told.drawn.throughput = timeChart("#throughput", one("#throughput .chart"), timed.map((run) => ({
    ...lineOf(run), bin: run.series.bin, values: run.series.throughput,
  })), { unit: "Mbit/s", capacity: capacityOf(timed), merged: mean });
}

function drawDelay(timed) {
  const isMedian = state.quantile === "p50";
  told.drawn.delay = timeChart("#delay", one("#delay .chart"), timed.map((run) => ({
    ...lineOf(run), bin: run.series.bin, values: run.series[state.quantile],
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
  const lines = alone.map((run) => ({ ...lineOf(run), ...insideOf(run) }))
    .filter((line) => line.values.some(known));
  const unit = UNITS[UNIT.exec(state.inside)?.[0]] ?? "";
  told.drawn.cwnd = timeChart("#cwnd", one("#cwnd .chart"), lines, { unit, log: state.inside === WINDOW, least: 1, merged: mean });
  one("#cwnd-note").textContent = (unit ? `In ${unit}. ` : "")
    + (state.inside !== WINDOW && lines.length < alone.length ? "The other controllers do not have this value." : "");
}

/** What the lines of a run have in common. */
const lineOf = (run) => ({ ...packetsOf(run, 0), look: run.cc, name: data.controllers[run.cc], hidden: state.hidden.has(run.cc), events: eventsOf(run) });

/** Whose packets a line is of. */
const packetsOf = (run, flow) => ({ packets: { run: run.number, flow, names: [data.controllers[run.cc], run.flows[flow]?.[0]] } });

/** A log of other runs has other controllers. */
const openPackets = ({ packets }, at) => packets && packetsOfRuns(({ run, flow, cc }) => run === packets.run && flow === packets.flow && packets.names.includes(cc), at);

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
function timeChart(section, where, lines, { unit, log = false, least = LEAST_DELAY, capacity = null, stacked = false, bands = [], top = null, marks = [], merged }) {
  // Flows have a table, too, which stays.
  if (section === "#flows") where.hidden = where.previousElementSibling.hidden = !lines.length;
  else one(section).hidden = !lines.length;
  if (!lines.length) return 0;
  const steps = Math.max(...lines.map((line) => Math.ceil(line.values.length * line.bin / state.window - 1e-9)));
  const x = Array.from({ length: steps }, (_, i) => (i + 0.5) * state.window);
  const floor = (values) => log ? values.map((value) => known(value) ? Math.max(value, least) : null) : values;
  // The tip tells what each has, not the sums that are drawn.
  const own = lines.map((line) => floor(block(line, state.window, steps, merged)));
  const columns = stacked ? stack(own) : own;
  const drawn = lines.map((line, i) => ({ ...line, x, y: columns[i], own: own[i], pale: line.isEdge || isPale(line.look), strong: highlighted() === line.look && !state.drawsFlows }));
  const area = capacity ? [{ name: "capacity", area: true, x, y: block(capacity, state.window, steps, mean) }] : [];
  const chart = {
    title: titleOf(where) + seedWords(", "), unit, lines: [...area, ...drawn], log_y: log, least, x_unit: "s", x_range: [0, state.end],
    y_range: top && [0, top], form: stacked ? "stack" : "lines", bands: bands.map((pair) => pair.map((at) => at + area.length)), marks: [...marks, ...handoversShown()],
  };
  const plot = drawChart(where, chart, { sync: "time", zoom: state.zoom, onZoom: zoomed, onReset: zoomOut, opens: packetsOfRuns && openPackets });
  plot.section = section;
  plots.push(plot);
  offerChart(where, plot);
  return drawn.filter((line) => !line.hidden && line.own.some(known)).length;
}

/** Whether another controller is highlighted. Flows have looks of their own. */
const isPale = (index, one = highlighted()) => known(one) && one !== index && !state.drawsFlows;

/** Values on top of each other: the first at the top, so that each covers the foot of the one before it. */
function stack(columns) {
  const sums = columns.slice();
  for (let k = columns.length - 2; k >= 0; k--) sums[k] = columns[k].map((value, i) => (value ?? 0) + (sums[k + 1][i] ?? 0));
  return sums;
}

/** All charts over time show the same stretch, and the figures are those of it. */
function zoomed(u) {
  const { min, max } = u.scales.x;
  const zoom = min <= 0 && max >= state.end ? null : [min, max];
  // Those that follow come here too, a moment later; the same stretch ends it.
  if (String(zoom) !== String(state.zoom)) zoomTo(zoom, u);
}

function zoomOut() {
  zoomTo(null, null);
}

function zoomTo(zoom, source) {
  state.zoom = zoom;
  const [min, max] = zoom ?? [0, state.end];
  for (const plot of plots) if (plot !== source && plot.section !== "#cdf") plot.setScale("x", { min, max });
  drawCdf(timedRuns());
  drawTable();
  showBar();
  keepView();
}
