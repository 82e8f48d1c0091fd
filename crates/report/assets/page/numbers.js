// Numbers and texts: what knows neither the page nor its data. Tested by tests/scripts/numbers.test.js.

const LEAST_DELAY = 0.1; // ms; what a logarithmic axis shows for zero

const known = (value) => value !== null && value !== undefined;
const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
const highest = (values) => values.length ? values.reduce((most, value) => Math.max(most, value), -Infinity) : null;
const median = (values) => values.length ? values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] : null;
const brief = (value) => known(value) ? String(+value.toPrecision(3)) : "";
const seconds = (width) => width < 1 ? `${+(width * 1e3).toPrecision(3)} ms` : `${+width.toPrecision(3)} s`;

function linearTicks(from, to, most) {
  const rough = (to - from) / most;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = decade * [1, 2, 5, 10].find((factor) => factor * decade >= rough);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

function logTicks(from, to, most) {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let decade = Math.floor(Math.log10(from)); decade <= Math.log10(to); decade++)
      for (const step of steps) {
        const tick = +(step * 10 ** decade).toPrecision(1);
        if (tick >= from && tick <= to) ticks.push(tick);
      }
    if (ticks.length <= most || steps.length === 1) return ticks;
  }
}

/** Merges bins into windows of `window` seconds, aligned to the start of the run. */
function block({ bin, values }, window, steps, merged) {
  const each = window / bin;
  return Array.from({ length: steps }, (_, i) => merged(values.slice(Math.round(i * each), Math.max(Math.round((i + 1) * each), Math.round(i * each) + 1)).filter(known)));
}

/** Of points with `x` and `y` those that no other beats by as much `y` at less `x`; ascending. */
function frontier(points) {
  let best = -Infinity;
  const isBetter = ({ y }) => y > best && ((best = y), true);
  return points.toSorted((a, b) => a.x - b.x || b.y - a.y).filter(isBetter);
}

/** The value below which `share` of all lies; `quantiles` are evenly spaced from 0 to 1. */
function quantileAt(quantiles, share) {
  const place = Math.min(Math.max(share, 0), 1) * (quantiles.length - 1);
  const low = Math.floor(place);
  const next = quantiles[Math.min(low + 1, quantiles.length - 1)];
  return quantiles[low] + (next - quantiles[low]) * (place - low);
}

/** The share of all that lies below `value`. */
function shareBelow(quantiles, value) {
  if (value < quantiles[0]) return 0;
  if (value >= quantiles.at(-1)) return 1;
  const above = quantiles.findIndex((quantile) => quantile > value);
  const [low, high] = [quantiles[above - 1], quantiles[above]];
  return (above - 1 + (value - low) / (high - low)) / (quantiles.length - 1);
}

/** Jain's index: 1 where all have the same; `null` of nothing. */
function jainOf(values) {
  const sum = values.reduce((all, value) => all + value, 0);
  const squares = values.reduce((all, value) => all + value * value, 0);
  return squares > 0 ? sum * sum / (values.length * squares) : null;
}

/** How good each value is among all, from 0 to 1, on a logarithmic scale; `null` where there is nothing to tell. */
function merits(values, isMoreBetter) {
  const logs = values.map((value) => known(value) ? Math.log(Math.max(value, 1e-3)) : null);
  const all = logs.filter(known);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  return logs.map((log) => !known(log) || most - least < 1e-9 ? null : isMoreBetter ? (log - least) / (most - least) : (most - log) / (most - least));
}

/** Rows as text with commas; a cell with what tables take for more than text is quoted. */
function csv(rows) {
  const cell = (value) => {
    const words = known(value) ? String(value) : "";
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

/** The view as it stands in the address of the page, and back. */
function viewText(view) {
  const pairs = Object.entries(view).filter(([, value]) => known(value) && value !== "");
  return pairs.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
}

function readView(text) {
  const pairs = text.replace(/^#/, "").split("&").filter((pair) => pair.includes("="));
  const value = (words) => { try { return decodeURIComponent(words); } catch { return ""; } };
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), value(pair.slice(pair.indexOf("=") + 1))]));
}
