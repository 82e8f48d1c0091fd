// Controllers against traces: one figure in each cell, the better the more colour.

const FIGURES = { p95: "95th percentile of the queue delay, ms", p50: "median queue delay, ms", p99: "99th percentile of the queue delay, ms", utilization: "utilization, %", throughput: "throughput, Mbit/s", loss: "lost, %" };

/** More traces than this stand one below the other: beside each other they would not fit. */
const MAX_COLUMNS = 8;

/** A row for each controller. */
function upright(columns, order, { heading, cell, name }) {
  const row = (i) => element("tr", {}, name(i, { scope: "row", class: "name" }), ...columns.map((column) => cell(column, i)));
  const head = element("tr", {}, heading("Controller", -1), ...columns.map((column, k) => heading(column.part.name, k)));
  return [element("thead", {}, head), element("tbody", {}, ...order.map(row))];
}

/** A row for each trace. */
function sideways(columns, order, { heading, cell, name }) {
  const head = element("tr", {}, heading("Trace", -1), ...order.map((i) => name(i, { scope: "col" })));
  const row = (column, k) => {
    const first = heading(column.part.name, k);
    first.setAttribute("scope", "row");
    first.setAttribute("class", "name");
    return element("tr", {}, first, ...order.map((i) => cell(column, i)));
  };
  return [element("thead", {}, head), element("tbody", {}, ...columns.map(row))];
}

function drawMatrix() {
  // The two directions of a link have nothing to be compared in.
  const isUseful = data.groups.length > 1 && data.controllers.length > 1 && !data.has_uplink;
  one("#matrix").hidden = !isUseful;
  if (!isUseful) return;
  choose("#pick-figure", Object.entries(FIGURES), state.figure, true);
  const { digits, better } = COLUMNS.find((column) => column.key === state.figure);
  const value = (cc, part) => part.rows.find((row) => row.cc === cc)?.[state.figure].v ?? null;
  const columns = data.groups.map((part) => {
    const values = data.controllers.map((cc) => value(cc, part));
    return { part, values, merits: merits(values, better > 0) };
  });
  const meanMerit = data.controllers.map((_, i) => mean(columns.map((column) => column.merits[i]).filter(known)));
  const order = data.controllers.map((_, i) => i);
  const by = state.matrixSort === null ? null : columns[state.matrixSort]?.merits ?? meanMerit;
  if (by) order.sort((a, b) => (by[b] ?? -1) - (by[a] ?? -1));
  const heading = (words, key) => {
    const button = element("button", { type: "button" }, words);
    button.addEventListener("click", () => { state.matrixSort = state.matrixSort === key ? null : key; drawMatrix(); keepView(); });
    return element("th", { scope: "col", ...(state.matrixSort === key ? { "aria-sort": "descending" } : {}) }, button);
  };
  // A large figure needs no decimals.
  const shown = (value) => !known(value) ? "–" : value.toFixed(value >= 1000 ? 0 : digits);
  const cell = (column, i) => {
    const [found, merit] = [column.values[i], column.merits[i]];
    const share = known(merit) ? Math.round(4 + 30 * merit) : 0;
    return element("td", { style: `background: color-mix(in srgb, var(--c0) ${share}%, var(--ground))`, ...(merit === 1 ? { class: "best" } : {}) }, shown(found));
  };
  const name = (i, attributes) => element("th", { ...attributes, title: data.controllers[i] }, dot(i), data.controllers[i]);
  const table = columns.length > MAX_COLUMNS && columns.length > data.controllers.length
    ? sideways(columns, order, { heading, cell, name }) : upright(columns, order, { heading, cell, name });
  one("#matrix table").replaceChildren(...table);
  told.matrix = order.length * columns.length;
}
