// The distribution of the delay of all packets: the share that waited less, over the delay on a logarithmic scale.

const DELAYS = { queue: "queue", oneway: "one-way", rtt: "RTT" };

function drawCdf(timed) {
  const isSeen = (run) => run.series.cdf?.queue?.length;
  plots.filter((plot) => plot.section === "#cdf").forEach((plot) => plot.destroy());
  plots = plots.filter((plot) => plot.section !== "#cdf");
  one("#cdf").hidden = !timed.some(isSeen);
  told.drawn.cdf = 0;
  if (one("#cdf").hidden) return;
  // The bins know the delay in queues only.
  const of = state.zoom ? "queue" : state.delayOf;
  choose("#pick-delay", Object.entries(DELAYS).filter(([key]) => !state.zoom || key === of), of, true);
  one("#cdf-note").textContent = (state.zoom ? `${windowWords()}. ` : `Of all packets after the start that is left out${seedWords(", of ")}. `)
    + "At the height of the cursor the tip reads the percentile of each controller.";
  const where = one("#cdf .chart");
  const all = state.zoom ? timed.map((run) => [run, figuresSeen(run).quantiles]) : timed.filter(isSeen).map((run) => [run, run.series.cdf[of]]);
  const drawn = all.filter(([run, quantiles]) => quantiles.length && !state.hidden.has(run.cc));
  if (!drawn.length) { where.replaceChildren(); return; }
  const runs = drawn.map(([run]) => run);
  const quantiles = drawn.map(([, delays]) => delays.map((ms) => Math.max(ms ?? 0, LEAST_DELAY)));
  const [low, high] = logRange(Math.min(...quantiles.map((each) => each[0])), Math.max(...quantiles.map((each) => each.at(-1))), LEAST_DELAY);
  const POINTS = 400;
  const delays = Array.from({ length: POINTS }, (_, i) => low * (high / low) ** (i / (POINTS - 1)));
  const columns = quantiles.map((each) => delays.map((ms) => 100 * shareBelow(each, ms)));
  const lines = runs.map((run, i) => ({ name: data.controllers[run.cc], look: run.cc, x: delays, y: columns[i], pale: isPale(run.cc), strong: highlighted() === run.cc }));
  const chart = { title: `Distribution of the ${DELAYS[of]} delay${seedWords(", ")}`, unit: "%", lines, log_x: true, x_range: [low, high], x_unit: "ms", y_range: [0, 100], y_unit: " %", form: "cdf" };
  const plot = drawChart(where, chart, { draw: [(u) => markQuartiles(u, runs, quantiles)], fill: percentiles(runs, quantiles) });
  plot.section = "#cdf";
  plots.push(plot);
  told.drawn.cdf = runs.length;
  offerFiles(one("#cdf .head"), (size) => shownBy(plots.find((each) => each.section === "#cdf"), size));
}

/** A marker at each quartile, so that lines are told apart without colour. */
function markQuartiles(u, runs, quantiles) {
  const mark = (run, k, share) => drawMarker(u, run.cc, u.valToPos(quantileAt(quantiles[k], share), "x", true), u.valToPos(100 * share, "y", true));
  runs.forEach((run, k) => isPale(run.cc) || [0.25, 0.5, 0.75].forEach((share) => mark(run, k, share)));
}

/** The percentile at the height of the cursor, of each controller. */
function percentiles(runs, quantiles) {
  return (u) => {
    if (!(u.cursor.top >= 0)) return null;
    const percent = Math.min(100, Math.max(0, u.posToVal(u.cursor.top, "y")));
    return [`${percent.toFixed(1)} % wait less than, ms`, runs.map((run, k) => [[dot(run.cc)], data.controllers[run.cc], brief(quantileAt(quantiles[k], percent / 100))])];
  };
}
