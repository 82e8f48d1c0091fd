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
    where.append(seedsSvg(figure, used.map((cc) => ({ cc, values: seeds.map((seed) => value(cc, seed, key)) })), Math.max(200, where.clientWidth)));
  });
}

/** One row for each controller with a mark for each seed; delays on a logarithmic scale. */
function seedsSvg({ name, unit, better }, rows, width) {
  const isLog = better < 0;
  const all = rows.flatMap((row) => row.values).filter(known).map((value) => isLog ? Math.max(value, LEAST_DELAY) : value);
  const [low, high] = isLog ? logRange(lowest(all), highest(all), LEAST_DELAY) : [Math.min(0.98 * lowest(all), lowest(all) - 1e-3), 1.02 * highest(all) + 1e-3];
  const box = { left: 8, right: width - 8, top: 24, each: 30 };
  const foot = box.top + box.each * rows.length + 4;
  const share = (value) => isLog ? Math.log(Math.max(value, LEAST_DELAY) / low) / Math.log(high / low) : (value - low) / (high - low);
  const x = (value) => box.left + (box.right - box.left) * share(value);
  const words = `${name} of each seed, ${unit}: ${rows.map(({ cc, values }) => `${data.controllers[cc]} ${values.filter(known).map(brief).join(", ")}`).join("; ")}`;
  const svg = shape("svg", { width, height: foot + 20, viewBox: `0 0 ${width} ${foot + 20}`, role: "img", "aria-label": words });
  svg.append(text(2, 13, `${name}, ${unit}`, { class: "title" }));
  for (const tick of isLog ? logTicks(low, high, width / 60) : linearTicks(low, high, width / 60))
    svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: foot }), text(x(tick), foot + 15, brief(tick), { "text-anchor": "middle" }));
  rows.forEach(({ cc, values }, i) => {
    const y = box.top + box.each * i + 20;
    const found = values.filter(known);
    svg.append(text(box.left, y - 8, shortened(data.controllers[cc], Math.floor(width / 7)), {}));
    for (const value of found) svg.append(markerAt(cc, x(value), y, 3.6, { opacity: 0.6 }));
    if (found.length) svg.append(shape("line", { x1: x(middleOf(found)), x2: x(middleOf(found)), y1: y - 7, y2: y + 7, stroke: colour(cc), "stroke-width": 2 }));
  });
  return svg;
}

const middleOf = (values) => medianInterval(values).median;
