// Controllers against traces: one figure in each cell, the better the more colour.

const FIGURES = { p95: "95th percentile of the queue delay, ms", p50: "median queue delay, ms", p99: "99th percentile of the queue delay, ms", utilization: "utilization, %", throughput: "throughput, Mbit/s", loss: "lost, %" };

/** More traces than this stand one below the other: beside each other they would not fit. */
const MAX_COLUMNS = 8;

/** A row for each controller. */
function upright(columns, order, { heading, cell, name }) {
  const row = (i) => element("tr", {}, name(i, { scope: "row", class: "name" }), ...columns.map((column) => cell(column, i)));
  const head = element("tr", {}, heading("Controller", -1), ...columns.map((column, k) => heading(column.name, k)));
  return [element("thead", {}, head), element("tbody", {}, ...order.map(row))];
}

/** A row for each trace. */
function sideways(columns, order, { heading, cell, name }) {
  const head = element("tr", {}, heading("Trace", -1), ...order.map((i) => name(i, { scope: "col" })));
  const row = (column, k) => {
    const first = heading(column.name, k);
    first.setAttribute("scope", "row");
    first.setAttribute("class", "name");
    return element("tr", {}, first, ...order.map((i) => cell(column, i)));
  };
  return [element("thead", {}, head), element("tbody", {}, ...columns.map(row))];
}

/** The mean over all traces, and the mean of the ranks there. */
function overAll(columns, isMoreBetter) {
  const each = (of) => data.controllers.map((_, i) => of(columns.map((column) => column.values[i])));
  const places = columns.map((column) => ranks(column.values, isMoreBetter));
  const means = each((values) => isMoreBetter || state.figure === "loss" ? (values.every(known) ? mean(values) : null) : geometricMean(values));
  const rank = data.controllers.map((_, i) => mean(places.map((column) => column[i])));
  return [
    { name: "Mean rank", digits: 1, values: rank, merits: merits(rank, false), isOverAll: true },
    { name: "Mean", values: means, merits: merits(means, isMoreBetter), isOverAll: true },
  ];
}

function drawMatrix() {
  // The two directions of a link have nothing to be compared in.
  const isUseful = data.groups.length > 1 && data.controllers.length > 1 && !data.has_uplink;
  one("#matrix").hidden = !isUseful;
  if (!isUseful) return;
  choose("#pick-figure", Object.entries(FIGURES), state.figure, true);
  const { digits, better } = COLUMNS.find((column) => column.key === state.figure);
  const value = (cc, part) => part.rows.find((row) => row.cc === cc)?.[state.figure].v ?? null;
  const traces = data.groups.map((part) => {
    const values = data.controllers.map((cc) => value(cc, part));
    return { name: part.name, values, merits: merits(values, better > 0) };
  });
  const columns = [...overAll(traces, better > 0), ...traces];
  // Those that are alike keep their order.
  const by = columns[state.matrixSort].merits;
  const order = data.controllers.map((_, i) => i).sort((a, b) => (by[b] ?? -1) - (by[a] ?? -1));
  const heading = (words, key) => {
    if (key < 0) return element("th", { scope: "col", class: "word" }, words);
    const button = element("button", { type: "button" }, words);
    button.addEventListener("click", () => { state.matrixSort = key; drawMatrix(); keepView(); });
    return element("th", { scope: "col", ...(state.matrixSort === key ? { "aria-sort": "descending" } : {}) }, button);
  };
  // A large figure needs no decimals.
  const shown = (value, own) => !known(value) ? "–" : value.toFixed(value >= 1000 ? 0 : own ?? digits);
  const cell = (column, i) => {
    const [found, merit] = [column.values[i], column.merits[i]];
    const share = known(merit) ? Math.round(4 + 30 * merit) : 0;
    const classes = [merit === 1 && "best", column.isOverAll && "over-all"].filter(Boolean).join(" ");
    return element("td", { style: `background: color-mix(in srgb, var(--c0) ${share}%, var(--ground))`, class: classes || null }, shown(found, column.digits));
  };
  const name = (i, attributes) => element("th", { ...attributes, title: data.controllers[i] }, dot(i), data.controllers[i]);
  const table = traces.length > MAX_COLUMNS && traces.length > data.controllers.length
    ? sideways(columns, order, { heading, cell, name }) : upright(columns, order, { heading, cell, name });
  one("#matrix table").replaceChildren(...table);
  told.matrix = order.length * traces.length;
}
