// What the page computes, without a page: node --test numbers.test.mjs
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

// The files of the page have no exports: they are one script.
const source = (name) => readFileSync(new URL(`../../../assets/page/${name}`, import.meta.url), "utf8");
const names = ["mean", "highest", "median", "brief", "seconds", "clock", "wholeBins", "linearTicks", "logTicks", "block", "frontier", "quantileAt", "shareBelow", "jainOf", "merits", "ranks", "geometricMean", "csv", "figuresOfBins", "quantilesOfBins", "medianInterval", "viewText", "readView", "playgroundFragment", "wayBack", "placeRange", "valueRange", "placing", "frameOf", "heatGrid", "heatTicks", "heatColour", "labelsWithRoom", "HEAT_COLOURS", "HEAT_LEVELS", "lookPlaces", "looksFor", "OWN_LOOKS"];
const page = new Function(`"use strict"; ${source("numbers.js")} ${source("looks.js")} ${source("plot.js")} ${source("axes.js")} ${source("still.js")} ${source("heatmap.js")}; return { ${names.join(", ")} };`)();

test("means, maxima and medians of nothing are nothing", () => {
  for (const name of ["mean", "highest", "median"]) assert.equal(page[name]([]), null);
  assert.deepEqual([page.mean([1, 2, 6]), page.highest([1, 6, 2]), page.median([9, 1, 5])], [3, 6, 5]);
  const values = [3, 1, 2];
  page.median(values);
  assert.deepEqual(values, [3, 1, 2], "the values stay as they are");
});

test("the highest of very many values is found", () => {
  assert.equal(page.highest(Array.from({ length: 500_000 }, (_, i) => i)), 499_999);
});

test("bins of several widths meet halfway between their middles", () => {
  const corners = [];
  globalThis.Path2D = class { moveTo(x, y) { corners.push([x, y]); } lineTo(x, y) { corners.push([x, y]); } };
  const outline = (times, values) => {
    corners.length = 0;
    page.wholeBins({ data: [times, values], valToPos: (value) => value }, 1);
    return [...corners];
  };
  // Outline and area take turns.
  assert.deepEqual(outline([1, 2], [5, 6]), [[0.5, 0], [0.5, 5], [1.5, 5], [0.5, 5], [1.5, 5], [1.5, 6], [2.5, 6], [1.5, 6], [2.5, 6], [2.5, 0]]);
  const places = outline([1, 2, 6], [5, 6, null]).map(([x]) => x);
  assert.deepEqual([...new Set(places)], [0.5, 1.5, 4, 8]);
  assert.deepEqual([...new Set(outline([3], [1]).map(([x]) => x))], [0, 6]);
});

test("seconds are m:ss", () => {
  assert.deepEqual([0, 9.96, 60, 3605.2, -1].map((time) => page.clock(time)), ["0:00", "0:09", "1:00", "60:05", "0:00"]);
});

test("ticks are round and no more than wanted", () => {
  assert.deepEqual(page.linearTicks(0, 10.6, 6), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(page.logTicks(2, 400, 8), [2, 5, 10, 20, 50, 100, 200]);
  assert.deepEqual(page.logTicks(2, 400, 2), [10, 100]);
});

test("axes that begin at 0, end nowhere or have no width end all the same", () => {
  for (const ends of [[0, 100], [-5, 100], [null, 10], [NaN, 10], [1, Infinity], [10, 1]]) assert.deepEqual(page.logTicks(...ends, 8), []);
  assert.deepEqual(page.linearTicks(3, 3, 5), [3]);
  assert.deepEqual(page.linearTicks(NaN, 3, 5), []);
  const log = { lines: [], log_x: true };
  assert.deepEqual(page.placeRange(log, 0, 400), [1, 1000]);
  assert.deepEqual(page.placeRange(log, 0, 0), [1, 10]);
  assert.deepEqual(page.placeRange(log, 10, 10), [10, 100]);
  assert.deepEqual(page.placeRange(log, 2, 400), [1, 1000]);
  assert.deepEqual(page.placeRange({ lines: [] }, 5, 5), [4.5, 5.5]);
});

test("bins are merged to windows without what is missing", () => {
  assert.deepEqual(page.block({ bin: 0.5, values: [1, 3, null, 5, null, null] }, 1, 3, page.mean), [2, 5, null]);
});

test("the efficient frontier is what no other beats in both", () => {
  const points = [{ x: 10, y: 4 }, { x: 20, y: 3 }, { x: 30, y: 6 }, { x: 30, y: 5 }, { x: 5, y: 1 }];
  assert.deepEqual(page.frontier(points), [{ x: 5, y: 1 }, { x: 10, y: 4 }, { x: 30, y: 6 }]);
});

test("percentiles and shares are each other's inverse", () => {
  const quantiles = [0, 10, 20, 40, 80];
  assert.equal(page.quantileAt(quantiles, 0.5), 20);
  assert.equal(page.quantileAt(quantiles, 0.875), 60);
  assert.equal(page.shareBelow(quantiles, 60), 0.875);
  assert.deepEqual([page.shareBelow(quantiles, -1), page.shareBelow(quantiles, 80)], [0, 1]);
  assert.equal(page.shareBelow([5, 5, 5, 9], 5), 2 / 3, "of equal values all are below");
});

test("Jain's index is 1 of equal values and 1/n of one alone", () => {
  assert.equal(page.jainOf([2, 2, 2]), 1);
  assert.equal(page.jainOf([4, 0, 0, 0]), 0.25);
  assert.equal(page.jainOf([]), null);
});

test("equal values share the mean of their ranks, and what is not known is last", () => {
  assert.deepEqual(page.ranks([10, 1000, null, 100], false), [1, 3, 4, 2]);
  assert.deepEqual(page.ranks([7, 9, 7, 1], true), [2.5, 1, 2.5, 4]);
  assert.equal(+page.geometricMean([10, 1000]).toFixed(6), 100);
  assert.deepEqual([page.geometricMean([10, null]), page.geometricMean([])], [null, null]);
});

test("merits run from the worst to the best", () => {
  assert.deepEqual(page.merits([10, 1000, null, 100], false).map((merit) => merit && +merit.toFixed(6)), [1, 0, null, 0.5]);
  assert.deepEqual(page.merits([50, 100], true), [0, 1]);
  assert.deepEqual(page.merits([7, 7], true), [null, null]);
});

test("no cell is a formula to a spreadsheet", () => {
  assert.equal(page.csv([["=cmd|' calc'!A1", "@x", "+a", "-b", "\t=1", "-5", -5, "+1.5"]]), `"'=cmd|' calc'!A1","'@x","'+a","'-b","'\t=1",-5,-5,+1.5\n`);
});

test("text with commas and quotes stays one cell", () => {
  assert.equal(page.csv([["a,b", 'c"d', null, 1.5], ["x\ny", "", 0, "z"]]), '"a,b","c""d",,1.5\n"x\ny",,0,z\n');
});

test("a view comes back from the address as it was", () => {
  const view = { trace: "lte & 100 %=x", zoom: "1.5,20", hide: '["a,b"]' };
  assert.deepEqual(page.readView("#" + page.viewText({ ...view, seed: null, sort: "" })), view);
  assert.deepEqual(page.readView("#probe"), {});
  assert.deepEqual(page.readView("#a=%E0%A4%A"), { a: "" }, "an address that is no text");
});

test("figures of a stretch come from its bins, and of the whole run are those that were measured", () => {
  const bins = { bin: 0.5, throughput: [4, 4, 8, 0], capacity: [8, 8, 8, 0], p50: [10, 10, 20, null], p95: [10, 10, 20, null] };
  const seen = page.figuresOfBins(bins, [0, 1]);
  assert.deepEqual([seen.throughput, seen.utilization, seen.p50, seen.p95], [4, 50, 10, 10]);
  const whole = page.figuresOfBins(bins, [0, 2]);
  assert.deepEqual([whole.throughput, +whole.utilization.toFixed(1), whole.p50, whole.p95], [4, 66.7, 10, 20]);
  const nothing = page.figuresOfBins(bins, [1.5, 2]);
  assert.deepEqual([nothing.p50, nothing.p95, nothing.quantiles], [null, null, []]);
});

test("a bin's delays lie between its median and its 95th percentile", () => {
  const quantiles = page.quantilesOfBins([{ weight: 1, p50: 10, p95: 100 }]);
  assert.equal(quantiles.length, 101);
  assert.deepEqual([quantiles[0], quantiles[50], Math.round(quantiles[100])], [10, 10, 100]);
  assert.ok(quantiles[80] > 50 && quantiles[80] < 80, String(quantiles[80]));
});

test("the interval of a median covers what it says", () => {
  // Of six values all lie on one side of the median in 2 of 64 cases; of eight, 99.2 % with all of them and 93 % without the outer ones.
  assert.deepEqual(page.medianInterval([6, 1, 2, 3, 4, 5]), { median: 3.5, low: 1, high: 6, coverage: 96.875, count: 6 });
  const eight = page.medianInterval([1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual([eight.low, eight.high, +eight.coverage.toFixed(1)], [1, 8, 99.2]);
  const nine = page.medianInterval([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual([nine.low, nine.high, +nine.coverage.toFixed(1)], [2, 8, 96.1]);
  assert.deepEqual(page.medianInterval([7]), { median: 7, low: 7, high: 7, coverage: 0, count: 1 });
  assert.equal(page.medianInterval([]), null);
});

test("axes begin and end where all that is drawn has room", () => {
  const lines = [{ spread: [[1, 9, 20, 80]] }];
  assert.deepEqual(page.placeRange({ lines, names: ["a", "b"] }, 0, 1), [-0.6, 1.6]);
  assert.deepEqual(page.placeRange({ lines, x_range: [0, 60] }, 5, 7), [0, 60]);
  assert.deepEqual(page.placeRange({ lines }, 3, 4), [1, 9], "the ends of the regions");
  assert.deepEqual(page.placeRange({ lines: [], log_x: true }, 3, 400), [1, 1000], "whole decades");
  assert.deepEqual(page.valueRange({ lines }, 30, 100), [0, 106]);
  assert.deepEqual(page.valueRange({ lines: [] }, null, null), [0, 1]);
  assert.deepEqual(page.valueRange({ lines: [], log_y: true, least: 0.1 }, null, null), [1, 100]);
  const [low, high] = page.valueRange({ lines: [], log_y: true, least: 0.1 }, 0, 100);
  assert.ok(low > 0 && low < 0.1 && high > 100);
});

test("a scatter has room around its marks, and more where they crowd", () => {
  const chart = { lines: [], form: "scatter", levels: [{ at: 10, words: "capacity" }] };
  const [low, high] = page.placeRange(chart, 50, 50);
  assert.ok(low < 50 && high > 50 && Math.abs(high / low - 12.25) < 1e-9, "one mark stands in the middle");
  assert.deepEqual(page.placeRange({ ...chart, lines: [{ spread: [[10, 500, 1, 2]] }] }, 50, 60), [10 / 1.7, 850]);
  assert.equal(page.valueRange(chart, 1, 9)[0], 0);
  assert.ok(page.valueRange(chart, 9, 9.5)[0] > 5, "no zero where all are near the top");
  assert.ok(page.valueRange(chart, 1, 9)[1] > 10, "the level is in sight");
});

test("places lie between two ends, either way and on both scales", () => {
  assert.equal(page.placing([0, 10], false, [100, 0])(2.5), 75);
  assert.equal(page.placing([1, 100], true, [0, 200])(10), 100);
  assert.equal(page.placing([1, 100], true, [200, 0])(100), 0, "reversed");
});

test("a place without width has a frame that can be drawn", () => {
  const chart = { unit: "Mbit/s", form: "scatter", lines: [{ name: "a", x: [40], y: [5] }], log_x: true, reversed_x: true };
  const { left, right } = page.frameOf(chart, { width: 0, top: 14, bottom: 260 });
  assert.ok(right > left, `${left} to ${right}`);
});

const heat = (len, cells) => page.heatGrid({ columns: { len }, rows: { len }, cells });
const dark = page.HEAT_LEVELS - 1;

test("small maps keep every cell, and equal neighbours are one stretch", () => {
  const grid = heat(4, [[1, 1, 1], [1, 2, 1], [1, 3, 0.01], [3, 0, 0.1]]);
  assert.deepEqual(grid.stretches[dark], [[1, 1, 2]]);
  assert.deepEqual(grid.stretches[0], [[1, 3, 1]]);
  assert.deepEqual(grid.stretches[page.HEAT_LEVELS / 2], [[3, 0, 1]]);
  assert.deepEqual([grid.bins, grid.seen], [[1, 1], 4]);
});

test("large maps show the highest of what falls together", () => {
  const grid = heat(25488, [[0, 0, 0.1], [67, 67, 1], [25487, 0, 0.01]]);
  assert.deepEqual([grid.across, grid.down, grid.bins], [375, 375, [68, 68]]);
  assert.deepEqual([grid.stretches[dark], grid.stretches[0]], [[[0, 0, 1]], [[374, 0, 1]]]);
});

test("what is no value has no point", () => {
  assert.equal(heat(3, [[0, 0, 0], [0, 1, -1], [1, 1, null], [9, 0, 1]]).seen, 0);
  assert.equal(heat(0, []).seen, 0);
  assert.deepEqual(heat(1, [[0, 0, 0.5]]).stretches[dark], [[0, 0, 1]]);
});

test("the scale has round ticks, and its ends where none is between them", () => {
  const ticks = (low, high) => page.heatTicks(heat(2, [[0, 0, low], [0, 1, high]]));
  assert.deepEqual(ticks(1e-4, 1), [1e-4, 1e-3, 0.01, 0.1, 1]);
  assert.deepEqual(ticks(0.02, 0.7), [0.02, 0.05, 0.1, 0.2, 0.5]);
  assert.deepEqual(ticks(0.3, 0.4), [0.3, 0.4]);
  assert.ok(ticks(1e-12, 1).length <= 8);
});

test("larger values are darker on white and lighter on dark", () => {
  const light = (stops, level) => page.heatColour(stops, level).reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  for (let level = 1; level < page.HEAT_LEVELS; level++) {
    assert.ok(light(page.HEAT_COLOURS.light, level) < light(page.HEAT_COLOURS.light, level - 1));
    assert.ok(light(page.HEAT_COLOURS.dark, level) > light(page.HEAT_COLOURS.dark, level - 1));
  }
});

test("labels keep clear of each other", () => {
  const labels = Array.from({ length: 100 }, (_, i) => [i, String(i)]);
  const shown = (size) => page.labelsWithRoom(labels, ([at]) => [at - size / 2, at + size / 2]).map(([, label]) => label);
  assert.equal(shown(1).length, 100);
  assert.deepEqual(shown(1.5).slice(0, 3), ["0", "2", "4"]);
  assert.deepEqual(shown(12).slice(0, 3), ["0", "20", "40"]);
  assert.deepEqual(shown(1e9), ["0"]);
});

test("a controller has the same look wherever it stands", () => {
  const place = (name, others) => page.lookPlaces([...others, name], 56).at(-1);
  for (const [at, name] of page.OWN_LOOKS.entries()) {
    assert.equal(page.lookPlaces([name], 56)[0], at);
    assert.equal(place(`${name}:r=2,s=3`, ["mine", "other"]), at);
    assert.equal(place(`${name} (new)`, page.OWN_LOOKS.filter((other) => other !== name)), at);
  }
});

test("no two names on a page look alike, and names that nobody knows come in order", () => {
  const names = ["verus:r=2", "verus:r=4", "x", "", "cubic", "VERUS", "bbr", "ünïcode"];
  const places = page.lookPlaces(names, 56);
  assert.equal(new Set(places).size, names.length);
  assert.deepEqual([places[0], places[4], places[6]], [0, 2, 3]);
  assert.deepEqual(page.lookPlaces(Array(100).fill("cubic"), 56).length, 100);
  assert.deepEqual(page.looksFor(["cubic"], ["a", "b", "c", "d"]), ["c", "a", "b", "d"]);
});

test("the playground gets what it can simulate, and nothing else", () => {
  const fragment = (command) => page.playgroundFragment(command, "60s");
  assert.equal(fragment("cellpace compare --cc copa --cc 'verus:r=2' --rtt=40ms --report a.html"), "cc=copa&cc=verus%3Ar%3D2&rtt=40ms&duration=60s");
  assert.equal(fragment("cellpace compare --trace step:1.5mbit/5s,3mbit/1s --duration 9s"), "trace=step%3A1.5mbit%2F5s%2C3mbit%2F1s&duration=9s");
  for (const other of ["", "cellpace sim a.toml", "cellpace compare --repeat 3", "cellpace compare --trace a.down", "cellpace compare --trace lte --trace umts"]) assert.equal(fragment(other), null, other);
});

test("the playground leads back to a page of its folder, and nowhere else", () => {
  for (const page_ of ["compare.html", "my%20page.html#cc=verus", "a.b.html#zoom=1,2"]) assert.equal(page.wayBack(page_), page_);
  for (const other of [null, undefined, "", "report", "javascript:alert(1)//.html", "https://example.com/a.html", "//example.com/a.html", "../a.html", ".html", "a/b.html"]) assert.equal(page.wayBack(other), null, other);
});
