// Axes: where they begin and end, their ticks, and the place of a value. Tested by tests/scripts/numbers.test.mjs.

const HEADROOM = 1.06;

/** The ends of the regions around marks, where there are any: on the axis below, or of the values. */
function regionEnds(lines, from, to) {
  const regions = lines.flatMap((line) => line.spread ?? []);
  return regions.length ? [lowest(regions.map((region) => region[from])), highest(regions.map((region) => region[to]))] : null;
}

/** Decades of a logarithmic axis that has no 0: from there up three are shown. uPlot would zoom by whole decades only. */
const DECADES_ABOVE_ZERO = 3;

/** Whole decades around what is there, at least one. */
function decades(low, high) {
  if (!(high > 0)) return [1, 10];
  const to = Math.ceil(Math.log10(high));
  const from = low > 0 ? Math.floor(Math.log10(low)) : to - DECADES_ABOVE_ZERO;
  return [10 ** from, 10 ** Math.max(to, from + 1)];
}

/** The whole axis below, of which the data take `low` to `high`. */
function placeRange({ lines, names, form, x_range: given, log_x: isLog }, low, high) {
  if (names) return [-0.6, names.length - 0.4];
  if (given) return given;
  const regions = regionEnds(lines, 0, 1);
  if (form === "scatter") return scatterPlaces(Math.min(low, regions?.[0] ?? low), Math.max(high, regions?.[1] ?? high));
  const [from, to] = regions ?? [low, high];
  if (isLog) return regions && from > 0 ? regions : decades(from, to);
  return to > from ? [from, to] : [from - 0.5, from + 0.5];
}

/** The axis of the values, which the lines in sight take from `low` to `high`. */
function valueRange({ lines, levels = [], form, follows, y_range: given, log_y: isLog, least = 0 }, low, high) {
  if (given) return given;
  const [from, to] = regionEnds(lines, 2, 3) ?? [Infinity, -Infinity];
  const [foot, top] = [Math.min(low ?? from, from), Math.max(high ?? to, to)];
  if (form === "scatter") return scatterValues(Math.min(foot, ...levels.map(({ at }) => at)), Math.max(top, ...levels.map(({ at }) => at)));
  if (isLog) return from <= to || known(low) ? logRange(foot, top, least) : [1, 100];
  // Of what only grows, a part that is zoomed to fills the chart.
  if (follows && top > foot) return [foot - 0.03 * (top - foot), top + 0.03 * (top - foot)];
  return [Math.min(0, foot), top > 0 ? top * HEADROOM : 1];
}

function logRange(low, high, least) {
  if (!known(low) || !(high > 0)) return [1, 100];
  const foot = Math.max(low, least);
  const [from, to] = [(foot > 0 ? foot : high / 1e3) / 1.25, high * 1.25];
  return to / from < 4 ? [from / 2, to * 2] : [from, to];
}

/** Room around marks, so that one alone stands in the middle. */
function scatterPlaces(least, most) {
  if (!(least > 0)) return [1, 100];
  const [low, high] = [least / 1.7, most * 1.7];
  const middle = Math.sqrt(low * high);
  return high / low < 12 ? [middle / 3.5, middle * 3.5] : [low, high];
}

/** Points that crowd at the top get the room; a scatter needs no zero. */
function scatterValues(least, most) {
  const top = Math.max(most, 0.001) * 1.08;
  return [least > 0.45 * top ? least - 0.45 * (top - least) : 0, top];
}

const ticksBetween = ([from, to], isLog, most) => isLog ? logTicks(from, to, most) : linearTicks(from, to, Math.max(1, most));

/** The way from a value to its place between two ends. */
function placing([from, to], isLog, [start, end]) {
  const share = isLog ? (value) => Math.log(value / from) / Math.log(to / from) : (value) => (value - from) / (to - from);
  return (value) => start + (end - start) * share(value);
}
