// Several seeds: the differences between controllers seed by seed, and how the seeds spread.

const PAIRED = { throughput: { name: "Throughput", unit: "Mbit/s", digits: 2, better: 1 }, p50: { name: "Queue delay, median", unit: "ms", digits: 1, better: -1 }, p95: { name: "Queue delay, 95 %", unit: "ms", digits: 1, better: -1 } };

function drawPairs() {
  const used = controllersOf(group());
  const seeds = seedsOf(group());
  const isUseful = seeds.length > 1;
  one("#pairs").hidden = !isUseful;
  told.pairs = 0;
  if (!isUseful) return;
  if (!used.includes(state.pairedWith)) state.pairedWith = used[0];
  choose("#pick-pair", used.map((cc) => [cc, data.controllers[cc]]), state.pairedWith, used.length > 1);
  const value = (cc, seed, key) => group().runs.find((run) => run.cc === cc && run.seed === seed)?.[key];
  const differences = (cc, key) => seeds.map((seed) => [value(cc, seed, key), value(state.pairedWith, seed, key)]).filter(([a, b]) => known(a) && known(b)).map(([a, b]) => a - b);
  const others = used.filter((cc) => cc !== state.pairedWith);
  const cell = (found, { digits, better }) => {
    if (!found) return element("td", {}, "–");
    const signed = (number) => (number > 0 ? "+" : "") + number.toFixed(digits).replace("-", "−");
    const isSure = found.coverage >= 95 && found.low * found.high > 0;
    return element("td", isSure && found.median * better > 0 ? { class: "best" } : {}, signed(found.median), element("span", { class: "ci" }, `${signed(found.low)} to ${signed(found.high)}`));
  };
  const row = (cc) => element("tr", {}, element("th", { scope: "row", class: "name", title: data.controllers[cc] }, dot(cc), data.controllers[cc]),
    ...Object.entries(PAIRED).map(([key, figure]) => cell(medianInterval(differences(cc, key)), figure)));
  const head = element("tr", {}, element("th", { class: "word", scope: "col" }, `against ${data.controllers[state.pairedWith]}`),
    ...Object.values(PAIRED).map(({ name, unit }) => element("th", { scope: "col" }, name, element("small", {}, unit))));
  one("#pairs .scroll").hidden = one("#pairs-note").hidden = !others.length;
  one("#pairs table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...others.map(row)));
  const { coverage, count } = medianInterval(seeds.map(() => 0));
  one("#pairs-note").textContent = `Median of the differences on the same ${count} seeds, and an interval that holds it in ${Math.floor(coverage)} % of such experiments, from the order of the differences alone`
    + (coverage < 95 ? "; for 95 % at least six seeds are needed. " : ". Bold: better with that certainty. ") + "Below: each seed of each controller, a line at the median.";
  told.pairs = others.length;
  one("#pairs .grid-of-panels").replaceChildren(...Object.entries(PAIRED).map(() => element("div", {})));
  Object.entries(PAIRED).forEach(([key, figure], i) => {
    const where = one("#pairs .grid-of-panels").children[i];
    const chart = seedsChart(figure, used.map((cc) => [cc, seeds.map((seed) => value(cc, seed, key)).filter(known)]));
    where.append(chartSvg(chart, { width: Math.max(200, where.clientWidth), height: 240, isSmall: true }));
  });
}

/** A place for each controller with a mark for each seed, side by side, and a line at the median; delays on a logarithmic scale. */
function seedsChart({ name, unit, better }, rows) {
  const line = ([cc, values], place) => {
    const at = (i) => place + (values.length > 1 ? 0.5 * (i / (values.length - 1) - 0.5) : 0);
    const middle = values.length ? [[place - 0.35, place + 0.35, middleOf(values), middleOf(values)]] : [];
    return { name: data.controllers[cc], look: cc, x: values.map((_, i) => at(i)), y: values, spread: middle, pale: true };
  };
  const all = rows.flatMap(([, values]) => values);
  const range = better > 0 ? { y_range: [0.98 * lowest(all) - 1e-3, 1.02 * highest(all) + 1e-3] } : { log_y: true, least: LEAST_DELAY };
  return { title: name, unit, form: "regions", names: rows.map(([cc]) => data.controllers[cc]), lines: rows.map(line), ...range };
}

const middleOf = (values) => medianInterval(values).median;
