// What is shown: conditions, choices, and the controllers with their looks.

function drawConditions() {
  const seeds = seedsOf(group());
  const items = [...group().conditions, [seeds.length > 1 ? "Seeds" : "Seed", spell(seeds)]];
  one("#conditions").replaceChildren(...items.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

const controllersOf = (of) => [...new Set(of.runs.map((run) => run.cc))];
const seedsOf = (of) => [...new Set(of.runs.map((run) => run.seed))];
const spell = (seeds) => seeds.length > 4 ? `${seeds[0]} … ${seeds.at(-1)} (${seeds.length})` : seeds.join(", ");

function drawChoices(timed) {
  choose("#pick-group", data.groups.map((g, i) => [i, g.name]), state.group, data.groups.length > 1);
  const drawn = seedsOf({ runs: group().runs.filter((run) => run.series) });
  choose("#pick-seed", drawn.map((seed) => [seed, seed]), state.seed, drawn.length > 1);
  const widths = windowsFor(timed);
  choose("#pick-window", widths.map((width) => [width, seconds(width)]), state.window, widths.length > 1);
  const used = controllersOf(group());
  choose("#pick-only", [["", `as the sentence (${data.controllers[group().lead] ?? "none"})`], [ALL_ALIKE, ALL_ALIKE], ...used.map((cc) => [cc, data.controllers[cc]])], state.only ?? "", used.length > 1 && timed.length > 0);
  one("#pick-all").hidden = data.groups.length < 2;
  one("#pick-all input").checked = state.allTraces;
  one("#pick-quantile select").value = state.quantile;
}

function choose(selector, options, value, isUseful) {
  const label = one(selector);
  label.hidden = !isUseful;
  one("select", label).replaceChildren(...options.map(([key, text]) =>
    element("option", { value: key, ...(key === value ? { selected: "" } : {}) }, String(text))));
}

/** Widths in seconds that may be averaged over, and sets one that suits if none is set. */
function windowsFor(timed) {
  if (!timed.length) return [];
  const bin = Math.max(...timed.map((run) => run.series.bin));
  const wanted = [0.1, 0.5, 1, 2, 5, 10].filter((width) => width > bin * 1.5 && width <= state.end / 10);
  const widths = [...new Set([bin, ...wanted.map((width) => Math.round(width / bin) * bin)])];
  if (!widths.includes(state.window)) {
    // A noisy line needs some pixels a point to be read.
    const most = one("main").clientWidth / 4;
    state.window = widths.find((width) => state.end / width <= most) ?? widths.at(-1);
  }
  return widths;
}

function drawLegend() {
  const used = controllersOf(group());
  one("#legend").hidden = used.length < 2;
  fillLegend(one("#legend"), used.map((cc) => [cc, data.controllers[cc]]), state.hidden, refresh);
}
