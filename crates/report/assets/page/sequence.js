// The packets of one flow in their order over time: what was sent, what arrived, what was lost.

const SEQUENCE_UNITS = 1e5; // a second

const sums = (values) => { let sum = 0; return values.map((value) => sum += value); };

/** The chart of a sequence: bytes over time, once when they were sent and once when they had arrived. */
function sequenceChart({ name, every, sent, took, bytes, lost, losses }) {
  const [begun, total] = [sums(sent), sums(bytes)];
  const y = total.map((value) => value / 1e6);
  const marked = lost.length ? [{ sign: "×", name: "lost", at: lost.map((at) => at / SEQUENCE_UNITS) }] : [];
  // What overtook another is drawn in the order of time.
  const inOrder = (x) => { const order = x.map((_, i) => i).sort((a, b) => x[a] - x[b]); return { x: order.map((i) => x[i]), y: order.map((i) => y[i]) }; };
  return {
    title: `Time sequence, ${name}`, unit: "MB", x_unit: "s", x_label: "time [s]", follows: true, every, losses,
    lines: [
      { name: "sent", look: 0, ...inOrder(begun.map((at) => at / SEQUENCE_UNITS)), events: marked },
      { name: "arrived", look: 1, ...inOrder(begun.map((at, i) => (at + took[i]) / SEQUENCE_UNITS)) },
    ],
  };
}

/** What the tip tells: what was sent and has arrived by then, what is between, and how long the last one took. */
function sequenceAt(u) {
  const x = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
  if (x === null) return null;
  const [sent, arrived] = u.chart.lines.map((line) => line.y[lastUpTo(line.x, x)] ?? 0);
  const reached = u.chart.lines[1].x[lastUpTo(u.chart.lines[0].y, arrived)];
  const waited = reached - u.chart.lines[0].x[lastUpTo(u.chart.lines[0].y, arrived)];
  const rows = [["sent", `${brief(sent)} MB`], ["arrived", `${brief(arrived)} MB`], ["on the way", `${brief((sent - arrived) * 1e3)} kB`], ["the last took", known(waited) && !Number.isNaN(waited) ? `${brief(waited * 1e3)} ms` : "–"]];
  return [`${+x.toPrecision(6)} s`, rows.map(([name, value], i) => [i < 2 ? [dot(i)] : [], name, value])];
}

/** The last place whose value is not above `value`; -1: none. */
function lastUpTo(values, value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

/** The part of a page that shows one of several sequences. `isLinked`: other charts have lines of the same flows. It draws itself when the page draws its charts: `draw`. */
function sequencePart(sequences, isLinked) {
  const place = element("div", { class: "chart-place sequence" });
  const pick = element("select", {}, ...sequences.map(({ name }, at) => element("option", { value: at }, name)));
  const label = element("label", { ...(sequences.length > 1 ? {} : { hidden: true }) }, "of ", pick);
  const note = element("p", { class: "note" });
  const section = element("section", { id: "sequence" }, element("div", { class: "head" }, element("h3", {}, "Time sequence", element("small", {}, "MB")), label), place, note);
  let seen = null;
  const draw = () => {
    place.plot?.destroy();
    const chart = sequenceChart(sequences[+pick.value]);
    place.chart = chart;
    drawChart(place, chart, { sync: "packets", zoom: seen, fill: sequenceAt, onZoom: (u) => { seen = [u.scales.x.min, u.scales.x.max]; } });
    offerFiles(one(".head", section), (size) => shownBy(place.plot, size));
    const thinned = chart.every > 1 ? `One of ${chart.every} packets is drawn. ` : "";
    const marked = chart.lines[0].events[0]?.at.length ?? 0;
    const lost = chart.losses > marked ? `The first ${marked} of ${chart.losses} losses are marked. ` : "";
    note.textContent = `${thinned}${lost}Across from line to line: how long a packet took; upright: what was on the way.${isLinked ? " A click on a flow's line in another chart opens it here." : ""}`;
  };
  pick.addEventListener("change", draw);
  /** Shows the sequence of this name around a time. */
  const open = (name, at) => {
    const found = sequences.findIndex((each) => each.name === name);
    if (found < 0) return false;
    pick.value = found;
    const { x } = sequenceChart(sequences[found]).lines[0];
    const half = Math.max(0.5, (x.at(-1) - x[0]) / 40);
    seen = [Math.max(x[0], at - half), Math.min(x.at(-1), at + half)];
    draw();
    section.scrollIntoView({ block: "center" });
    return true;
  };
  return { section, draw, open };
}
