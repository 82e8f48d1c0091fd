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
  choose("#pick-only", [["", "all alike"], ...used.map((cc) => [cc, data.controllers[cc]])], state.only ?? "", used.length > 1 && timed.length > 0);
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
    // A noisy line needs some two pixels a point to be read.
    const most = one("main").clientWidth / 2.4;
    state.window = widths.find((width) => state.end / width <= most) ?? widths.at(-1);
  }
  return widths;
}

function drawLegend() {
  const used = controllersOf(group());
  one("#legend").hidden = used.length < 2;
  fillLegend(one("#legend"), used.map((cc) => [cc, data.controllers[cc]]), state.hidden);
}

/** A button for each entry (look, name) that hides it and shows it again. */
function fillLegend(where, entries, hidden, changed = refresh) {
  const focused = document.activeElement?.dataset?.look;
  const hadFocus = where.contains(document.activeElement);
  where.replaceChildren(...entries.map(([index, name, { key = index, form } = {}]) => {
    const button = element("button", { type: "button", class: "toggle", "aria-pressed": String(!hidden.has(key)), "data-look": key, title: name }, swatch(index, form), element("span", {}, name));
    button.addEventListener("click", () => {
      hidden.has(key) ? hidden.delete(key) : hidden.add(key);
      changed();
    });
    return button;
  }));
  if (hadFocus) one(`[data-look="${focused}"]`, where)?.focus();
}

/** Line and marker, or what a form has in their place, as they are in the charts. */
function swatch(index, form = "lines") {
  const svg = shape("svg", { width: 34, height: 14, viewBox: "0 0 34 14", "aria-hidden": "true" });
  if (form === "hollow") svg.append(shape("circle", { cx: 17, cy: 7, r: 4.5, fill: "none", stroke: colour(index), "stroke-width": 2 }));
  else if (form === "bars" || form === "steps") svg.append(shape("rect", { x: 8, y: 1, width: 18, height: 12, fill: colour(index) }));
  else if (form === "lines" || form === "stairs") svg.append(shape("line", { x1: 0, x2: 34, y1: 7, y2: 7, stroke: colour(index), "stroke-width": 2, "stroke-dasharray": look(index).dashes.join(" ") }), markerAt(index, 17, 7, 4.5));
  else svg.append(markerAt(index, 17, 7, 4.5));
  return svg;
}

function dot(index) {
  const svg = shape("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" });
  svg.append(markerAt(index, 6, 6, 4.2));
  return svg;
}

function markerAt(index, x, y, radius, more = {}) {
  return shape("path", { d: look(index).outline, transform: `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${radius})`, fill: colour(index), ...more });
}
