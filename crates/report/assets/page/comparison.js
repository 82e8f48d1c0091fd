// The page of a comparison: what is shown, one pass of drawing, and what a reader does to it.

const data = JSON.parse(document.getElementById("data").textContent);
const told = window.cellpace;
// The end of a value's name is its unit.
const UNIT = /_(pkts|ms|s|mbps|ticks)$/;
const UNITS = { _pkts: "packets", _ms: "ms", _s: "s", _mbps: "Mbit/s", _ticks: "ticks" };
const WINDOW = "cwnd_pkts";
const ALL_ALIKE = "all alike";
// More lines than this are hard to tell apart: one is highlighted.
const MAX_ALIKE = 3;
const state = {
  group: 0, seed: null, window: null, quantile: "p95", inside: WINDOW, flowsOf: 0, allTraces: false, only: null,
  figure: "p95", matrixSort: 0, delayOf: "queue", drawsFlows: false, pairedWith: null, events: new Set(SHOWN_AT_FIRST),
  hidden: new Set(), hiddenFlows: new Set(), sort: null, zoom: null,
};
let plots = [];

const group = () => data.groups[state.group];

/** The controller that is highlighted: the chosen one, or of many the one of which the sentence speaks; null: none. */
function highlighted() {
  if (state.only === ALL_ALIKE) return null;
  const lead = controllersOf(group()).length > MAX_ALIKE ? group().lead : null;
  return state.only ?? (state.hidden.has(lead) ? null : lead ?? null);
}

/** Which of several seeds is drawn over time; nothing where there is one. */
function seedWords(before) {
  const seeds = seedsOf(group());
  return seeds.length > 1 ? `${before}seed ${state.seed} alone, of ${seeds.length}` : "";
}

/** The runs of the chosen seed that have figures over time. */
const timedRuns = () => group().runs.filter((run) => run.seed === state.seed && run.series);

function drawAll() {
  colours = pageColours();
  document.querySelectorAll("#comparison .of-seed").forEach((place) => { place.textContent = data.groups.length ? seedWords("") : ""; });
  plots.forEach((plot) => plot.destroy());
  plots = [];
  if (!data.groups.length) return;
  const timed = timedRuns();
  state.end = Math.max(0, ...timed.map((run) => run.series.bin * run.series.throughput.length));
  drawConditions();
  drawChoices(timed);
  drawLegend();
  drawEvents(timed);
  drawScatter();
  drawMatrix();
  drawCdf(timed);
  drawTable();
  drawPairs();
  drawThroughput(timed);
  drawDelay(timed);
  drawWindows(timed);
  drawFlows(timed);
  drawProfiles(timed);
  showBar();
}

function showBar() {
  one("#unzoom").hidden = !state.zoom;
  one("#bar").hidden = !one("#choices > :not([hidden]), #legend:not([hidden])");
}

/** Draws anew and stays where the reader was. */
function refresh() {
  const top = window.scrollY;
  drawAll();
  window.scrollTo({ top, behavior: "instant" });
  keepView();
  publish();
}

function publish() {
  document.documentElement.dataset.cellpace = JSON.stringify(told);
}

// ---- the view in the address ----

/** Whoever gets the address sees the same. */
function keepView() {
  if (location.hash === "#probe") return;
  const names = [...state.hidden].map((cc) => data.controllers[cc]);
  const words = viewText({
    embed: new URLSearchParams(location.hash.slice(1)).get("embed"), trace: state.group ? group().name : null, seed: state.seed === firstSeedOf(group()) ? null : state.seed, window: state.chosenWindow,
    delay: state.quantile === "p95" ? null : state.quantile, cdf: state.delayOf === "queue" ? null : state.delayOf, figure: state.figure === "p95" ? null : state.figure,
    inside: state.inside === WINDOW ? null : state.inside, only: data.controllers[state.only] ?? state.only, hide: names.length ? JSON.stringify(names) : null,
    zoom: state.zoom ? state.zoom.map((at) => +at.toPrecision(5)).join(",") : null, sort: state.sort ? `${state.sort.key},${state.sort.rising}` : null, all: state.allTraces ? 1 : null, paired: known(state.pairedWith) ? data.controllers[state.pairedWith] : null,
    events: String([...state.events]) === String(SHOWN_AT_FIRST) ? null : [...state.events].join(",") || "none",
  });
  // Some browsers do not let a file change its address.
  try { history.replaceState(null, "", words ? `#${words}` : location.pathname + location.search); } catch { /* then it stays as it is */ }
  told.view = words;
}

function takeView(words) {
  const view = readView(words);
  const controller = (name) => data.controllers.indexOf(name);
  const place = data.groups.findIndex((part) => part.name === view.trace);
  if (place > 0) state.group = place;
  firstSeed();
  state.seed = seedsOf(group() ?? { runs: [] }).find((seed) => String(seed) === view.seed) ?? state.seed;
  if (view.window > 0) state.window = state.chosenWindow = +view.window;
  if (view.delay === "p50") state.quantile = "p50";
  if (view.cdf in DELAYS) state.delayOf = view.cdf;
  if (view.figure in FIGURES) state.figure = view.figure;
  if (view.inside) state.inside = view.inside;
  if (controller(view.only) >= 0) state.only = controller(view.only);
  else if (view.only === ALL_ALIKE || words === "#probe") state.only = ALL_ALIKE;
  let names = [];
  try { names = JSON.parse(view.hide ?? "[]"); } catch { /* no names, then */ }
  for (const name of Array.isArray(names) ? names : []) if (controller(name) >= 0) state.hidden.add(controller(name));
  const zoom = (view.zoom ?? "").split(",").map(Number);
  if (zoom.length === 2 && zoom[0] < zoom[1]) state.zoom = zoom;
  const [key, rising] = (view.sort ?? "").split(",");
  if (COLUMNS.some((column) => column.key === key)) state.sort = { key, rising: rising === "true" };
  state.allTraces = view.all === "1";
  if (controller(view.paired) >= 0) state.pairedWith = controller(view.paired);
  if (view.events) state.events = new Set(view.events.split(",").filter((kind) => kind in EVENTS));
}

// ---- files ----

function figureRows() {
  const names = ["controller", "trace", "seed", "throughput_mbps", "utilization_percent", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms", "lost_percent", "jain"];
  const keys = ["throughput", "utilization", "p50", "p95", "p99", "loss", "jain"];
  return { names, rows: data.groups.flatMap((part) => part.rows.map((row) => [row.cc, part.name, row.seed, ...keys.map((key) => row[key].v)])) };
}

function saveFigures(ending) {
  const { names, rows } = figureRows();
  const content = ending === "csv" ? csv([names, ...rows]) : JSON.stringify(rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value]))), null, 1);
  save(fileName(document.title, ending), content, ending === "csv" ? "text/csv" : "application/json");
}

/** Files of a chart over time, beside its heading. */
function offerChart(where, plot) {
  offerFiles(headOf(where), (size) => shownBy(plots.find((each) => each.root.parentElement === where) ?? plot, size));
}

// ---- events ----

function onChange(selector, apply) {
  one(selector).addEventListener("change", (event) => { apply(event.target); refresh(); });
}

const firstSeedOf = (of) => of?.runs[0]?.seed ?? null;

function firstSeed() {
  state.seed = firstSeedOf(group());
}

function chooseGroup(index) {
  state.group = index;
  state.zoom = null;
  firstSeed();
}

function startComparison() {
  told.drawn = { throughput: 0, delay: 0, scatter: 0, profiles: 0, cwnd: 0, flows: 0, cdf: 0 };
  one("#comparison").hidden = false;
  if (data.title) headComparison();
  one("#files").hidden = !data.groups.length;
  offerCard(() => scatterWanted() ? drawingOfScatter(CARD_CHART) : null);
  takeView(location.hash);
  onChange("#pick-group select", (select) => chooseGroup(+select.value));
  onChange("#pick-seed select", (select) => { state.seed = seedsOf(group()).find((seed) => String(seed) === select.value); });
  onChange("#pick-window select", (select) => { state.window = state.chosenWindow = +select.value; });
  onChange("#pick-only select", (select) => { state.only = ["", ALL_ALIKE].includes(select.value) ? select.value || null : +select.value; });
  onChange("#pick-quantile select", (select) => { state.quantile = select.value; });
  onChange("#pick-delay select", (select) => { state.delayOf = select.value; });
  onChange("#pick-figure select", (select) => { state.figure = select.value; });
  onChange("#pick-inside select", (select) => { state.inside = select.value; });
  onChange("#pick-flows select", (select) => { state.flowsOf = +select.value; state.hiddenFlows.clear(); });
  onChange("#pick-all input", (box) => { state.allTraces = box.checked; });
  onChange("#pick-pair select", (select) => { state.pairedWith = +select.value; });
  one("#unzoom").addEventListener("click", () => { state.zoom = null; refresh(); });
  one("#save-csv").addEventListener("click", () => saveFigures("csv"));
  one("#save-json").addEventListener("click", () => saveFigures("json"));
  // What is folded has no width to be drawn in.
  one("#profiles details").addEventListener("toggle", (event) => event.target.open && refresh());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  for (const when of ["beforeprint", "afterprint"]) window.addEventListener(when, () => matchMedia("(prefers-color-scheme: dark)").matches && refresh());
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
  drawAll();
  // uPlot draws in a microtask; a task later all is on the canvases.
  setTimeout(() => {
    told.drawMs = Math.round(performance.now() - started);
    told.openMs = Math.round(performance.now());
    if (location.hash === "#probe") probe();
    told.done = true;
    publish();
  }, 0);
}

/** Among other results it has a title of its own, its sentence and its conditions below that. */
function headComparison() {
  const head = one("#comparison-head");
  head.append(element("h2", { class: "part-title" }, data.title), element("p", { class: "sentence" }, data.sentence), one("#conditions"));
}

if (data) startComparison();
