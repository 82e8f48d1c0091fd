// Throughput against delay: one drawing of the chosen trace, and a small one of each where there are several.

const SMALL_LABEL = "← p95 of the queue delay [ms, log]";

function drawScatter() {
  one("#scatter").hidden = !scatterWanted();
  told.drawn.scatter = 0;
  if (!scatterWanted()) return;
  one("#scatter-place").textContent = data.groups.length > 1 ? group().name : "";
  const where = one("#scatter .drawing");
  const width = where.clientWidth;
  const chart = scatterOf(group());
  told.drawn.scatter = chart.lines.length;
  const missing = group().rows.filter((row) => !known(row.p95.v)).map((row) => row.cc);
  const isJoined = frontier(chart.lines.map((line) => ({ x: line.x[0], y: line.y[0] }))).length > 1;
  one("#scatter-note").textContent = (isJoined ? "The line joins those that no other beats in both. " : "")
    + (missing.length ? `Not drawn, since nothing was delivered: ${missing.join(", ")}. ` : "")
    + (chart.lines.some((line) => line.minor) ? "Whiskers: 95 % confidence interval of the mean over the seeds; small marks: single seeds." : "");
  const label = width < 480 ? SMALL_LABEL : "← more  95th percentile of the queue delay [ms, log scale]  less →";
  where.replaceChildren(chartSvg({ ...chart, x_label: label }, { width, height: Math.round(Math.min(460, Math.max(330, width * 0.46))) }));
  drawPanels();
  offerFiles(one("#scatter .head"), (size) => drawingOfScatter(size ?? { width: 860, height: 460 }));
}

/** One point alone says nothing that the table does not. */
const scatterWanted = () => data.groups.some((part) => part.rows.length > 1) || (data.controllers.length > 1 && !data.has_uplink);
const drawingOfScatter = (size) => drawingOf(scatterOf(group()), size);

/** Among marks only a choice makes others pale. */
const chosen = () => typeof state.only === "number" ? state.only : null;

/** The chart of a trace with what is shown of it. */
function scatterOf(part) {
  const lines = part.scatter.lines.filter((line) => !state.hidden.has(line.look)).map((line) => ({ ...line, pale: isPale(line.look, chosen()) }));
  return { ...part.scatter, lines };
}

function drawPanels() {
  const where = one("#scatter .grid-of-panels");
  // The two directions of a link have no frontier in common.
  where.hidden = data.groups.length < 2 || data.has_uplink;
  if (where.hidden) return;
  const each = data.groups.map((part) => ({ ...scatterOf(part), title: part.name }));
  const of = (cc) => each.flatMap((chart) => chart.lines.filter((line) => line.look === cc));
  const joined = (cc) => ({ name: data.controllers[cc], look: cc, x: of(cc).flatMap((line) => line.x), y: of(cc).flatMap((line) => line.y), pale: isPale(cc, chosen()) });
  const all = { ...each[0], title: "all traces", levels: [], lines: data.controllers.map((_, cc) => joined(cc)).filter((line) => line.x.length) };
  const charts = [all, ...each];
  where.replaceChildren(...charts.map(() => element("div", {})));
  const width = Math.max(150, Math.floor(where.firstChild.clientWidth || 230));
  told.panels = charts.length;
  charts.forEach((chart, i) => {
    const svg = chartSvg({ ...chart, x_label: width < 235 ? "← p95 [ms, log]" : SMALL_LABEL }, { width, height: 190, isSmall: true });
    if (!i) { where.children[i].append(svg); return; }
    const button = element("button", { type: "button", class: "panel", "aria-pressed": String(state.group === i - 1) }, svg);
    button.addEventListener("click", () => { chooseGroup(i - 1); refresh(); });
    where.children[i].append(button);
  });
}
