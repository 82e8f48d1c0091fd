// Reads what the page says: sentences, tables, the values and axes of charts, the marks that labels are nearest to.
const words = (part) => part.textContent.replace(/\s+/g, " ").trim();
const isSeen = (part) => part.getClientRects().length > 0;
const seen = (selector, within = document) => [...within.querySelectorAll(selector)].filter(isSeen);
const headingOf = (part) => words(part.closest("section")?.querySelector("h2, h3") ?? part);
const isFinite = (value) => typeof value === "number" && Number.isFinite(value);

function tableOf(table) {
  const cells = (row) => [...row.children].map(words);
  return { title: headingOf(table), header: seen("thead tr:last-child", table).flatMap(cells), rows: [...table.tBodies[0].rows].filter((row) => !row.hidden).map(cells) };
}

/** Where a line of a distribution reaches 95 %. */
function at95({ x, y }) {
  const above = y.findIndex((share) => share >= 95);
  const share = (95 - y[above - 1]) / (y[above] - y[above - 1]);
  return x[above - 1] * (x[above] / x[above - 1]) ** share;
}

function chartOf(place) {
  const { chart, scales } = place.plot;
  const axes = [scales.x, scales.y].map(({ min, max }) => [min, max]);
  const isWhole = axes.every(([min, max]) => isFinite(min) && isFinite(max) && min < max)
    && (!chart.log_x || scales.x.min > 0) && (!chart.log_y || scales.y.min > 0);
  const lines = chart.lines.filter((line) => !line.area).map((line) => ({ name: line.name, pale: Boolean(line.pale), x: line.x, y: line.y }));
  return { title: chart.title, axes, isWhole, lines, at95: chart.form === "cdf" ? Object.fromEntries(lines.map((line) => [line.name, at95(line)])) : null };
}

/** Labels to which another mark is nearer than their own, and that no line leads to it. */
function mislabelled(svg) {
  const boxes = [...svg.querySelectorAll(".point")].map((mark) => [mark.dataset.look, mark.getBoundingClientRect()]);
  const marks = boxes.map(([look, box]) => ({ look, x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 }));
  return [...svg.querySelectorAll(".label")].flatMap((label) => {
    const box = label.getBoundingClientRect();
    const away = ({ x, y }) => Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
    const own = Math.min(...marks.filter(({ look }) => look === label.dataset.look).map(away));
    const isNearest = marks.every((mark) => own <= away(mark) + 4);
    const hasLine = svg.querySelector(`.leader[data-look="${label.dataset.look}"]`);
    return isNearest || hasLine ? [] : [words(label)];
  });
}

setTimeout(() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const odd = (svg) => /NaN|Infinity|undefined/.exec(svg.outerHTML)?.[0];
  cellpace.read = {
    title: document.title,
    sentences: seen("#sentence, .sentence").map(words),
    conditions: Object.fromEntries(seen(".conditions div, #conditions div").map((pair) => [words(pair.children[0]), words(pair.children[1])])),
    notes: seen(".note").map(words),
    headings: seen("h2, h3").map(words),
    tables: [...document.querySelectorAll("main table")].filter((table) => table.tBodies[0]?.rows.length).map(tableOf),
    charts: seen(".chart, .chart-place").filter((place) => place.plot).map(chartOf),
    labels: seen("svg .label").map(words),
    looks: Object.fromEntries(seen("#legend .toggle, .legend .toggle").map((button) => [words(button), button.querySelector("path")?.outerHTML ?? ""])),
    mislabelled: seen("svg").flatMap(mislabelled),
    odd: seen("main svg").map(odd).filter(Boolean),
  };
  document.documentElement.dataset.cellpace = JSON.stringify(cellpace);
}, 60);
