// Numbers and texts: what knows neither the page nor its data. Tested by tests/scripts/numbers.test.mjs. The playground takes
// this file, too.

const LEAST_DELAY = 0.1; // ms; what a logarithmic axis shows for zero

const known = (value) => value !== null && value !== undefined;
const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
const highest = (values) => values.length ? values.reduce((most, value) => Math.max(most, value), -Infinity) : null;
const lowest = (values) => values.length ? values.reduce((least, value) => Math.min(least, value), Infinity) : null;
const median = (values) => values.length ? values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] : null;
const brief = (value) => known(value) ? String(+value.toPrecision(3)) : "";
const shortened = (name, most) => name.length > most ? name.slice(0, most - 1) + "…" : name;
const seconds = (width) => width < 1 ? `${+(width * 1e3).toPrecision(3)} ms` : `${+width.toPrecision(3)} s`;

/** Seconds as m:ss. */
function clock(time) {
  const whole = Math.max(0, Math.floor(time));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function linearTicks(from, to, most) {
  if (!(to > from)) return Number.isFinite(from) ? [from] : [];
  const rough = (to - from) / most;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = decade * [1, 2, 5, 10].find((factor) => factor * decade >= rough);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
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

const QUANTILES_OF_BIN = 10;

/** The delays below which 0, 1, ..., 100 % of the packets of some bins lie, of which only weight, p50 and p95 are known: below the
    median all count as the median, above the 95th percentile as that, and between them delays rise in a straight line. */
function quantilesOfBins(bins) {
  const parts = bins.filter((bin) => bin.weight > 0 && known(bin.p50) && known(bin.p95)).flatMap(({ weight, p50, p95 }) =>
    Array.from({ length: QUANTILES_OF_BIN }, (_, i) => [p50 + (p95 - p50) * Math.min(1, Math.max(0, ((i + 0.5) / QUANTILES_OF_BIN - 0.5) / 0.45)), weight]));
  if (!parts.length) return [];
  parts.sort((a, b) => a[0] - b[0]);
  const all = parts.reduce((sum, part) => sum + part[1], 0);
  let [place, below] = [0, parts[0][1]];
  return Array.from({ length: 101 }, (_, percent) => {
    while (below < all * percent / 100 && place + 1 < parts.length) below += parts[++place][1];
    return parts[place][0];
  });
}

/** Figures of the stretch [from, to] in seconds, from bins of throughput, capacity, p50 and p95. Delays are estimates. */
function figuresOfBins({ bin, throughput, capacity, p50, p95 }, [from, to]) {
  const inside = throughput.map((_, i) => i).filter((i) => (i + 0.5) * bin >= from && (i + 0.5) * bin < to);
  const of = (values) => mean(inside.map((i) => values[i]).filter(known));
  const quantiles = quantilesOfBins(inside.map((i) => ({ weight: throughput[i] ?? 0, p50: p50[i], p95: p95[i] })));
  const [rate, offered] = [of(throughput), of(capacity)];
  return { throughput: rate, utilization: offered > 0 ? 100 * rate / offered : null, p50: quantiles[50] ?? null, p95: quantiles[95] ?? null, p99: quantiles[99] ?? null, quantiles };
}

/** Median with an interval that needs no assumption on the distribution: the narrowest between two of the values in order that covers
    the true median in 95 % of cases or more, or all of them where they are too few for that. `coverage` is in percent. */
function medianInterval(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  if (!count) return null;
  const middle = count % 2 ? sorted[count >> 1] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
  // Of `count` values at most k lie below the median with a binomial chance (1/2 each); the same above it.
  let [cut, coverage, term, tail] = [0, 0, 0.5 ** count, 0];
  for (let k = 0; 2 * k < count; k++) {
    tail += term;
    term *= (count - k) / (k + 1);
    if (k > 0 && 1 - 2 * tail < 0.95) break;
    [cut, coverage] = [k, 100 * (1 - 2 * tail)];
  }
  return { median: middle, low: sorted[cut], high: sorted[count - 1 - cut], coverage, count };
}

/** Jain's index: 1 where all have the same; `null` of nothing. */
function jainOf(values) {
  const sum = values.reduce((all, value) => all + value, 0);
  const squares = values.reduce((all, value) => all + value * value, 0);
  return squares > 0 ? sum * sum / (values.length * squares) : null;
}

/** The place of each value among all, 1 the best; equal ones share the mean of their places, and what is not known is last. */
function ranks(values, isMoreBetter) {
  const worth = values.map((value) => !known(value) ? Infinity : isMoreBetter ? -value : value);
  return worth.map((own) => {
    const [better, same] = [worth.filter((other) => other < own).length, worth.filter((other) => other === own).length];
    return better + (same + 1) / 2;
  });
}

/** How good each value is by its rank, from 0 to 1; `null` where all are alike or it is not known. */
function merits(values, isMoreBetter) {
  const places = ranks(values, isMoreBetter);
  const all = places.filter((_, i) => known(values[i]));
  const [best, worst] = [Math.min(...all), Math.max(...all)];
  return places.map((place, i) => !known(values[i]) || worst === best ? null : (worst - place) / (worst - best));
}

/** The mean of ratios, for what differs by orders of magnitude; `null` where a value is not known. */
function geometricMean(values) {
  return values.every(known) && values.length ? Math.exp(mean(values.map((value) => Math.log(Math.max(value, 1e-3))))) : null;
}

/** Rows as text with commas; a cell with what tables take for more than text is quoted. What a spreadsheet would run as a formula
    gets an apostrophe in front, which has it read as text. */
function csv(rows) {
  const cell = (value) => {
    const words = known(value) ? String(value) : "";
    if (/^[=+\-@\t\r\n]/.test(words) && isNaN(words)) return `"'${words.replaceAll('"', '""')}"`;
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

/** Options of `cellpace compare` that the playground has a control for. */
const PLAYGROUND_FIELDS = ["trace", "cc", "rtt", "queue", "loss", "flows", "duration", "seed", "handover"];
/** Those that change nothing of what is simulated. */
const PLAYGROUND_OUTPUTS = ["report", "json", "log", "events", "transfers", "jobs"];

/** What a command simulates for a time, as the playground's address has it; null where the playground cannot do the same. */
function playgroundFragment(command, duration) {
  const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
  if (words[1] !== "compare") return null;
  const given = [];
  for (let at = 2; at < words.length; at++) {
    const [name, joined] = words[at].replace(/^--/, "").split(/=(.*)/);
    const value = words[at].includes("=") ? joined : words[++at];
    if (!words[at] || PLAYGROUND_OUTPUTS.includes(name)) continue;
    if (!PLAYGROUND_FIELDS.includes(name)) return null;
    given.push([name, value]);
  }
  const traces = given.filter(([name]) => name === "trace").map(([, value]) => value);
  // One trace, that is in no file.
  if (traces.length > 1 || traces.some((trace) => /[./]/.test(trace.replace(/^step:.*/, "")))) return null;
  if (!given.some(([name]) => name === "duration")) given.push(["duration", duration]);
  return given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

/** A page of the same folder, with its view, to which the playground leads back; null for any other address. */
const wayBack = (address) => /^[\w%-][\w%.-]*\.html(#.*)?$/.test(address ?? "") ? address : null;

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
