// The table of results.

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
  { key: "frame_rate", name: "Frames", unit: "Mbit/s", digits: 2, better: 1, video: true },
  { key: "frame_p50", name: "median", unit: "ms", digits: 1, better: -1, over: "Frame delay", video: true },
  { key: "frame_p95", name: "95 %", unit: "ms", digits: 1, better: -1, over: "Frame delay", video: true },
  { key: "late", name: "Late", unit: "%", digits: 1, better: -1, video: true },
  { key: "freezes", name: "Freezes", digits: 1, better: -1, video: true },
];

/** What stands in the columns of videos where a row has none. */
const NO_VIDEO = Object.fromEntries(COLUMNS.filter((column) => column.video).map((column) => [column.key, { v: null }]));

function drawTable() {
  const parts = state.allTraces ? data.groups : [group()];
  const isWindow = state.zoom !== null && !state.allTraces;
  const rows = parts.flatMap((part) => (isWindow ? rowsSeen(part) : part.rows).map((row) => ({ ...NO_VIDEO, ...row, trace: part.name, part })));
  const hasVideo = rows.some((row) => known(row.frame_rate.v));
  const columns = COLUMNS.filter((column) => ({
    trace: parts.length > 1,
    seed: rows.some((row) => row.seed !== rows[0].seed),
    jain: rows.some((row) => row.flows > 1),
  })[column.key] ?? (!column.video || hasVideo));
  const best = (column, row) => isBest(column, row, rows.filter((rival) => rival.part === row.part));
  if (state.sort) sortRows(rows, state.sort);
  const focused = one("#results table").contains(document.activeElement) ? document.activeElement.dataset.key : null;
  one("#results table").replaceChildren(tableHead(columns), element("tbody", {}, ...rows.map((row) =>
    element("tr", {}, ...columns.map((column) => tableCell(column, row, best(column, row)))))));
  if (focused) one(`#results [data-key="${focused}"]`)?.focus();
  const repeated = rows.some((row) => row.throughput.ci !== undefined);
  one("#results-note").textContent = (isWindow ? `${windowWords()}; loss is not in the bins. Reset the zoom for the exact figures of the whole run. ` : "") + (rows.length > 1 ? `Bold: best${parts.length > 1 ? " on its trace" : " in its column"}. ` : "")
    + (repeated ? "± is half the width of the 95 % confidence interval over the seeds; figures without it are means." : "");
}

/** Figures of the stretch that is seen of a run. */
function figuresSeen(run) {
  return figuresOfBins({ ...run.series, capacity: data.capacities[run.series.capacity] }, state.zoom);
}

/** A row of each run that is drawn, with the figures of what is seen. */
function rowsSeen(part) {
  return timedRuns().map((run) => {
    const row = part.rows.find((each) => each.cc === data.controllers[run.cc] && (!known(each.seed) || each.seed === run.seed));
    const cells = Object.entries(figuresSeen(run)).filter(([key]) => key !== "quantiles").map(([key, v]) => [key, { v }]);
    return { ...row, ...Object.fromEntries(cells), loss: { v: null }, jain: { v: null } };
  });
}

/** What the figures of a stretch are. */
function windowWords() {
  const [from, to] = state.zoom.map((at) => +at.toPrecision(4));
  const bin = Math.max(...timedRuns().map((run) => run.series.bin));
  return `From ${Math.max(0, from)} to ${to} s, seed ${state.seed}: estimates from bins of ${seconds(bin)}, of which median and 95th percentile are known`;
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
