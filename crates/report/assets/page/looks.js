// How controllers, flows and lines look, in charts and in legends. The playground takes this file, too.

let looks = [];
let colours = [];

/** Controllers whose look is their own on every page: its place is the name's. New ones come last. */
const OWN_LOOKS = ["verus", "copa", "cubic", "bbr", "pace", "sprout", "newreno", "vegas", "bbr3", "prague", "bic", "westwood", "ledbat", "c2tcp", "vivace", "scream", "mdi", "fixed", "policy", "gcc"];

/** Sign and name of each kind of event, in the order of the legend. */
const EVENTS = {
  timeout: ["T", "timeout"], loss: ["×", "loss"], reduced: ["↓", "window cut"], phase: ["P", "phase"], profile_refit: ["R", "profile refit"],
  undone: ["U", "cut taken back"], restart: ["S", "restart"], handover: ["H", "handover"],
};

/** The places of the looks of these names among `count`, each another one: that of the controller, or of the first of its variants;
    others take those that are left, in order. */
function lookPlaces(names, count) {
  const taken = new Set();
  const take = (place) => { taken.add(place); return place; };
  const own = names.map((name) => {
    const place = OWN_LOOKS.indexOf(/^\w*/.exec(name.toLowerCase())[0]);
    return place < 0 || place >= count || taken.has(place) ? null : take(place);
  });
  const left = Array.from({ length: count }, (_, place) => place).filter((place) => !taken.has(place));
  return own.map((place, i) => place ?? left.shift() ?? i % count);
}

/** The looks of these names first, then those that are left. */
function looksFor(names, all) {
  const places = lookPlaces(names, all.length);
  return [...places.map((place) => all[place]), ...all.filter((_, place) => !places.includes(place))];
}

const look = (index) => looks[index % looks.length];
const colour = (index) => colours[look(index).colour];

/** A button for each entry (look, name) that hides it and shows it again. */
function fillLegend(where, entries, hidden, changed) {
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
  else if (form === "area") svg.append(shape("rect", { x: 0, y: 2, width: 34, height: 10, class: "area" }));
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
