// The distribution of the delay of all packets: the share that waited less, over the delay on a logarithmic scale.

const DELAYS = { queue: "queue", oneway: "one-way", rtt: "RTT" };

function drawCdf(timed) {
  const runs = timed.filter((run) => run.series.cdf?.[state.delayOf]?.length && !state.hidden.has(run.cc));
  const any = timed.some((run) => run.series.cdf?.queue?.length);
  one("#cdf").hidden = !any;
  told.drawn.cdf = 0;
  if (!any) return;
  choose("#pick-delay", Object.entries(DELAYS), state.delayOf, true);
  const where = one("#cdf .chart");
  where.replaceChildren();
  if (!runs.length) return;
  const quantiles = runs.map((run) => run.series.cdf[state.delayOf].map((ms) => Math.max(ms ?? 0, LEAST_DELAY)));
  const [low, high] = logRange(Math.min(...quantiles.map((each) => each[0])), Math.max(...quantiles.map((each) => each.at(-1))), LEAST_DELAY);
  const POINTS = 400;
  const delays = Array.from({ length: POINTS }, (_, i) => low * (high / low) ** (i / (POINTS - 1)));
  const columns = quantiles.map((each) => delays.map((ms) => 100 * shareBelow(each, ms)));
  const height = parseFloat(getComputedStyle(where).height);
  const series = runs.map((run) => ({ label: data.controllers[run.cc], stroke: toned(run.cc), width: state.only === run.cc ? 2.6 : 1.8, dash: look(run.cc).dashes, points: { show: false } }));
  const plot = new uPlot({
    width: where.clientWidth, height, series: [{ label: "delay" }, ...series], legend: { show: false }, padding: [8, 28, 0, 0],
    scales: { x: { time: false, distr: 3, log: 10, range: [low, high] }, y: { range: [0, 100] } },
    axes: [
      axis({ space: 60, size: 30, splits: (u) => logTicks(u.scales.x.min, u.scales.x.max, where.clientWidth / 70), filter: (u, ticks) => ticks, values: (u, ticks) => ticks.map((tick, i) => i === ticks.length - 1 ? `${brief(tick)} ms` : brief(tick)) }),
      axis({ space: 34, size: 46, values: (u, ticks) => ticks.map((tick) => `${tick} %`) }),
    ],
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    hooks: { draw: [(u) => markEnds(u, runs, quantiles)] },
    plugins: [percentileTip(runs, quantiles)],
  }, [delays, ...columns], where);
  plot.section = "#cdf";
  plots.push(plot);
  told.drawn.cdf = runs.length;
  offerFiles(one("#cdf .head"), `distribution of the ${DELAYS[state.delayOf]} delay`, () => plots.find((each) => each.section === "#cdf"));
}

/** A marker at the median of each, so that lines are told apart without colour. */
function markEnds(u, runs, quantiles) {
  const { ctx } = u;
  const ratio = u.pxRatio ?? devicePixelRatio;
  runs.forEach((run, k) => {
    if (isPale(run.cc)) return;
    for (const share of [0.25, 0.5, 0.75]) {
      ctx.save();
      ctx.translate(u.valToPos(quantileAt(quantiles[k], share), "x", true), u.valToPos(100 * share, "y", true));
      ctx.scale(4.4 * ratio, 4.4 * ratio);
      ctx.fillStyle = colour(run.cc);
      ctx.fill(new Path2D(look(run.cc).outline));
      ctx.restore();
    }
  });
}

/** The percentile at the height of the cursor, of each controller. */
function percentileTip(runs, quantiles) {
  const box = element("div", { class: "tip" });
  return { hooks: {
    ready: [(u) => { u.over.append(box); u.over.addEventListener("mouseleave", () => { box.style.display = "none"; }); }],
    setCursor: [(u) => {
      if (!(u.cursor.top >= 0)) { box.style.display = "none"; return; }
      const percent = Math.min(100, Math.max(0, u.posToVal(u.cursor.top, "y")));
      const rows = runs.map((run, k) => element("tr", {}, element("td", {}, dot(run.cc), data.controllers[run.cc]), element("td", {}, element("b", {}, brief(quantileAt(quantiles[k], percent / 100))))));
      box.replaceChildren(`${percent.toFixed(1)} % wait less than, ms`, element("table", {}, element("tbody", {}, ...rows)));
      box.style.display = "block";
      const isRight = u.cursor.left > u.over.clientWidth / 2;
      box.style.left = isRight ? "auto" : `${u.cursor.left + 14}px`;
      box.style.right = isRight ? `${u.over.clientWidth - u.cursor.left + 14}px` : "auto";
    }],
  } };
}
