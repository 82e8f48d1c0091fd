// Controllers against traces: one figure in each cell, the better the more colour.

const FIGURES = { p95: "95th percentile of the queue delay, ms", p50: "median queue delay, ms", p99: "99th percentile of the queue delay, ms", utilization: "utilization, %", throughput: "throughput, Mbit/s", loss: "lost, %" };

/** More conditions than this stand one below the other: beside each other they would not fit. */
const MAX_COLUMNS = 8;

/** A button that unfolds `part` and folds it again. */
function unfolding(part, name) {
  part.hidden = true;
  const button = element("button", { type: "button", class: "unfold", "aria-expanded": "false", "aria-label": `Command line of ${name}`, title: "Command line" });
  button.addEventListener("click", () => {
    part.hidden = !part.hidden;
    button.setAttribute("aria-expanded", String(!part.hidden));
  });
  return button;
}

/** A heading with its command line, if it has one: a row of `width` cells below. */
function withCommand(heading, { name, command }, width) {
  if (!command) return { heading, below: [] };
  const row = element("tr", { class: "command" }, element("td", { colspan: width }, element("code", {}, command)));
  heading.prepend(unfolding(row, name));
  return { heading, below: [row] };
}

/** A row for each controller. */
function upright(columns, order, { heading, cell, name }) {
  const row = (i) => element("tr", {}, name(i, { scope: "row", class: "name" }), ...columns.map((column) => cell(column, i)));
  const heads = columns.map((column, k) => withCommand(heading(column.name, k), column, columns.length + 1));
  const head = element("tr", {}, heading("Controller", -1), ...heads.map((each) => each.heading));
  return [element("thead", {}, head), element("tbody", {}, ...heads.flatMap((each) => each.below), ...order.map(row))];
}

/** A row for each condition. */
function sideways(columns, order, { what, heading, cell, name }) {
  const head = element("tr", {}, heading(what, -1), ...order.map((i) => name(i, { scope: "col" })));
  const rows = (column, k) => {
    const { heading: first, below } = withCommand(heading(column.name, k), column, order.length + 1);
    first.setAttribute("scope", "row");
    first.setAttribute("class", "name");
    return [element("tr", {}, first, ...order.map((i) => cell(column, i))), ...below];
  };
  return [element("thead", {}, head), element("tbody", {}, ...columns.flatMap(rows))];
}

/** The mean over all conditions, and the mean of the ranks there. */
function overAll(columns, count, { figure, isMoreBetter }) {
  const each = (lists, of) => Array.from({ length: count }, (_, i) => of(lists.map((list) => list[i])));
  const lists = columns.map((column) => column.values);
  const means = each(lists, (values) => isMoreBetter || figure === "loss" ? (values.every(known) ? mean(values) : null) : geometricMean(values));
  const rank = each(lists.map((values) => ranks(values, isMoreBetter)), mean);
  return [
    { name: "Mean rank", digits: 1, values: rank, merits: merits(rank, false), isOverAll: true, isRank: true },
    { name: "Mean", values: means, merits: merits(means, isMoreBetter), isOverAll: true },
  ];
}

/** Draws one figure of `names`, each in its order in the values of `conditions`, sorted by the `sortedBy`-th column. */
function fillMatrix(table, { what, names, conditions, figure, sortedBy, sortBy }) {
  const { digits, better } = COLUMNS.find((column) => column.key === figure);
  const isMoreBetter = better > 0;
  const judged = conditions.map((condition) => ({ ...condition, merits: merits(condition.values, isMoreBetter) }));
  const columns = [...overAll(judged, names.length, { figure, isMoreBetter }), ...judged];
  // Those that are alike keep their order.
  const by = columns[sortedBy].merits;
  const order = names.map((_, i) => i).sort((a, b) => (by[b] ?? -1) - (by[a] ?? -1));
  const heading = (words, key) => {
    if (key < 0) return element("th", { scope: "col", class: "word" }, words);
    const button = element("button", { type: "button", "data-key": key }, words);
    button.addEventListener("click", () => { sortBy(key); one(`[data-key="${key}"]`, table)?.focus(); });
    return element("th", { scope: "col", title: words, ...(sortedBy === key ? { "aria-sort": "descending" } : {}) }, button);
  };
  // A large figure needs no decimals.
  const shown = (value, own) => !known(value) ? "–" : value.toFixed(value >= 1000 ? 0 : own ?? digits);
  const cell = (column, i) => {
    const [found, merit] = [column.values[i], column.merits[i]];
    const share = known(merit) ? Math.round(4 + 30 * merit) : 0;
    const classes = [merit === 1 && "best", column.isOverAll && "over-all", column.isRank && "rank"].filter(Boolean).join(" ");
    return element("td", { style: `background: color-mix(in srgb, var(--c0) ${share}%, var(--ground))`, class: classes || null }, shown(found, column.digits));
  };
  const name = (i, attributes) => element("th", { ...attributes, title: names[i] }, dot(i), names[i]);
  const lay = conditions.length > MAX_COLUMNS && conditions.length > names.length ? sideways : upright;
  const buttons = (which = "") => [...table.querySelectorAll(`.unfold${which}`)];
  const label = (button) => button.getAttribute("aria-label");
  const unfolded = buttons("[aria-expanded=true]").map(label);
  table.replaceChildren(...lay(columns, order, { what, heading, cell, name }));
  buttons().filter((button) => unfolded.includes(label(button))).forEach((button) => button.click());
}

function drawMatrix() {
  // The two directions of a link have nothing to be compared in.
  const isUseful = data.groups.length > 1 && data.controllers.length > 1 && !data.has_uplink;
  one("#matrix").hidden = !isUseful;
  if (!isUseful) return;
  choose("#pick-figure", Object.entries(FIGURES), state.figure, true);
  const value = (cc, part) => part.rows.find((row) => row.cc === cc)?.[state.figure].v ?? null;
  const conditions = data.groups.map((part) => ({ name: part.name, values: data.controllers.map((cc) => value(cc, part)) }));
  const sortBy = (key) => { state.matrixSort = key; drawMatrix(); keepView(); };
  fillMatrix(one("#matrix table"), { what: "Trace", names: data.controllers, conditions, figure: state.figure, sortedBy: state.matrixSort, sortBy });
  told.matrix = data.controllers.length * conditions.length;
}
