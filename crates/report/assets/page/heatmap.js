// Grids of values on a logarithmic colour scale: transition matrices, distributions. What it computes is tested by
// tests/scripts/numbers.test.mjs.

const HEAT_LEVELS = 24;
/** Points along a side at most, and the pixels that they take. */
const HEAT_SIDE = 380;
/** Width of a letter, about. */
const HEAT_LETTER = 6.6;
/** From a light green over blue to nearly black on white, and the other way round on a dark ground: large values stand out most on
    either, and the smallest differs from the ground. */
const HEAT_COLOURS = {
  light: [[201, 234, 182], [127, 205, 187], [51, 167, 198], [34, 111, 176], [37, 52, 148], [6, 15, 61]],
  dark: [[38, 58, 120], [34, 94, 168], [31, 146, 194], [85, 191, 192], [169, 223, 176], [255, 255, 217]],
};

function heatColour(stops, level) {
  const place = level / (HEAT_LEVELS - 1) * (stops.length - 1);
  const stop = Math.min(Math.floor(place), stops.length - 2);
  return stops[stop].map((low, i) => Math.round(low + (stops[stop + 1][i] - low) * (place - stop)));
}

/** Classes of all levels, h0, ... for strokes and f0, ... for fills; paper is white. */
function heatStyle() {
  const levels = Array.from({ length: HEAT_LEVELS }, (_, level) => level);
  const declare = (stops, where = ":root") => `${where}{${levels.map((level) => `--h${level}:rgb(${heatColour(stops, level).join(",")});`).join("")}}`;
  const classes = levels.map((level) => `.h${level}{stroke:var(--h${level})}.f${level}{fill:var(--h${level})}`).join("");
  const { light, dark } = HEAT_COLOURS;
  return `${declare(light)}@media(prefers-color-scheme:dark){${declare(dark, ":root:not(.paper)")}}@media print{${declare(light, ":root:root")}}${classes}`;
}

/** The points of a map: the highest of the cells that fall on one, and by level the stretches [row, column, length] of equal ones. */
function heatGrid({ columns, rows, cells }) {
  const bins = [columns, rows].map(({ len }) => Math.max(1, Math.ceil(len / HEAT_SIDE)));
  const [across, down] = [Math.ceil(columns.len / bins[0]), Math.ceil(rows.len / bins[1])];
  const values = new Float64Array(across * down);
  for (const [row, column, value] of cells) {
    if (!(value > 0 && row < rows.len && column < columns.len)) continue;
    const place = Math.floor(row / bins[1]) * across + Math.floor(column / bins[0]);
    values[place] = Math.max(values[place], value);
  }
  const seen = values.filter((value) => value > 0);
  const high = highest(seen);
  // One value only: dark, at the end of its decade.
  const low = lowest(seen) === high ? high / 10 : lowest(seen);
  const share = (value) => Math.min(1, Math.max(0, Math.log(value / low) / Math.log(high / low)));
  const level = (value) => value > 0 ? Math.min(Math.floor(share(value) * HEAT_LEVELS), HEAT_LEVELS - 1) : -1;
  const stretches = Array.from({ length: HEAT_LEVELS }, () => []);
  for (let row = 0; row < down; row++)
    for (let column = 0, end; column < across; column = end) {
      const own = level(values[row * across + column]);
      for (end = column + 1; end < across && level(values[row * across + end]) === own; end++);
      if (own >= 0) stretches[own].push([row, column, end - column]);
    }
  return { across, down, bins, low, high, share, stretches, seen: seen.length };
}

/** Values for the colour bar: not too many, and the ends where none is between them. */
function heatTicks({ low, high }) {
  const ticks = logTicks(low * (1 - 1e-9), high * (1 + 1e-9), 7);
  const every = Math.ceil(ticks.length / 8);
  return ticks.length < 2 ? [low, high] : ticks.filter((_, i) => i % every === 0);
}

/** Every second, fifth, tenth, ... label, so that none runs into the next; `room` is what one takes. */
function labelsWithRoom(labels, room) {
  const fits = (every) => labels.filter((_, i) => i % every === 0).map(room).every(([from], i, all) => i === 0 || from >= all[i - 1][1]);
  for (let power = 1; power < labels.length; power *= 10)
    for (const every of [1, 2, 5].map((step) => step * power)) if (fits(every)) return labels.filter((_, i) => i % every === 0);
  return labels.slice(0, 1);
}

/** A map as a drawing, with its axes and a colour bar. */
function heatSvg(map) {
  const grid = heatGrid(map);
  // Half pixels are whole ones on a screen with two to a unit.
  const [wide, tall] = [grid.across, grid.down].map((points) => Math.min(40, Math.max(0.5, Math.floor(2 * HEAT_SIDE / Math.max(points, 1)) / 2)));
  const letters = (words) => [...words].length * HEAT_LETTER;
  const [barWidth, gap, y] = [14, 16, 30];
  const x = Math.max(30, 14 + (highest(map.rows.labels.map(([, words]) => letters(words))) ?? 0));
  const [width, height] = [wide * grid.across, tall * grid.down];
  const pooled = grid.bins[0] * grid.bins[1] > 1 ? `each point: the highest of ${grid.bins[0]} x ${grid.bins[1]} cells` : "";
  const title = letters(map.rows.title) + 24;
  const whole = Math.ceil(Math.max(x + width + gap + barWidth + 52, title + letters(map.unit) + 12,
    x + width / 2 + Math.max(letters(map.columns.title), letters(pooled)) / 2 + 12));
  const bottom = y + height + 46 + (pooled ? 18 : 0);
  const box = (left, top, w, h, look) => shape("rect", { x: left, y: top, width: w, height: h, class: look });
  const words = (left, top, said, anchor) => text(left, top, said, { class: "text", "text-anchor": anchor });
  const outline = (left, top, w, h) => [box(left - 0.5, top - 0.5, w + 1, 0.5, "axis"), box(left - 0.5, top + h, w + 1, 0.5, "axis"),
    box(left - 0.5, top - 0.5, 0.5, h + 1, "axis"), box(left + w, top - 0.5, 0.5, h + 1, "axis")];
  const [across, down] = [(at) => x + wide * at / grid.bins[0], (at) => y + tall * at / grid.bins[1]];
  // Too many lines would hide what is between them.
  const linesOf = ({ lines }) => lines.length > 60 ? [] : lines;
  const parts = [words(12, y - 10, map.rows.title, "start"),
    ...linesOf(map.columns).flatMap((line) => [box(across(line) - 0.25, y, 0.5, height, "grid"), box(across(line) - 0.25, y + height, 0.5, 5, "axis")]),
    ...linesOf(map.rows).flatMap((line) => [box(x, down(line) - 0.25, width, 0.5, "grid"), box(x - 5, down(line) - 0.25, 5, 0.5, "axis")]),
    // Lines as thick as a row, through its middle: crisp edges leave no seams.
    ...grid.stretches.map((of, level) => of.length ? shape("path", { class: `h${level}`, "shape-rendering": "crispEdges", fill: "none",
      transform: `matrix(${wide} 0 0 ${tall} ${x} ${y + tall / 2})`, d: of.map(([row, column, len]) => `M${column} ${row}h${len}`).join("") }) : null),
    ...outline(x, y, width, height),
    ...labelsWithRoom(map.columns.labels, ([at, said]) => [across(at) - letters(said) / 2 - 4, across(at) + letters(said) / 2 + 4])
      .map(([at, said]) => words(across(at), y + height + 17, said, "middle")),
    ...labelsWithRoom(map.rows.labels, ([at]) => [down(at) - 7, down(at) + 7]).map(([at, said]) => words(x - 7, down(at) + 4, said, "end")),
    words(x + width / 2, y + height + 36, map.columns.title, "middle"),
    pooled ? words(x + width / 2, y + height + 54, pooled, "middle") : null];
  if (grid.seen) {
    const [left, long] = [x + width + gap, Math.min(240, Math.max(120, height))];
    // On half pixels, so that no seam shows between the steps.
    const edge = (level) => Math.round(2 * long * (1 - level / HEAT_LEVELS)) / 2;
    for (let level = 0; level < HEAT_LEVELS; level++) parts.push(box(left, y + edge(level + 1), barWidth, edge(level) - edge(level + 1), `f${level}`));
    parts.push(...outline(left, y, barWidth, long));
    for (const tick of heatTicks(grid)) {
      const at = y + long * (1 - grid.share(tick));
      parts.push(box(left + barWidth, at - 0.25, 4, 0.5, "axis"), words(left + barWidth + 7, at + 4, brief(tick), "start"));
    }
    // Above the bar, or as far to the right as the title beside it needs.
    parts.push(words(Math.max(left + barWidth + 2 - letters(map.unit), title), y - 10, map.unit, "start"));
  } else parts.push(words(x + width / 2, y + height / 2, "nothing was seen here", "middle"));
  return shape("svg", { class: "heat", role: "img", "aria-label": map.title, width: whole, height: bottom, viewBox: `0 0 ${whole} ${bottom}` }, ...parts);
}

/** What a drawing shows, read from it: the points that have a colour, and the words. */
const heatSeen = (svg) => ({ points: [...svg.querySelectorAll("path")].flatMap((path) => path.getAttribute("d").match(/h\d+/g)).reduce((sum, part) => sum + +part.slice(1), 0),
  words: [...svg.querySelectorAll("text")].map((part) => part.textContent) });
