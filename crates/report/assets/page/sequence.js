// The packets of one flow in their order over time: what was sent, arrived, acknowledged and lost, the window, and what was let leave.

const SEQUENCE_UNITS = 1e5; // a second

const sums = (values) => { let sum = 0; return values.map((value) => sum += value ?? 0); };

/** The chart of a sequence: bytes over time, once when they were sent, once when they had arrived and once when an ack said so. Above
    what was acknowledged stand the window, and all that the controller then let be on the way. */
function sequenceChart({ name, every, sent, took, bytes, acked = [], window = [], permitted = [], lost, losses }) {
  const [begun, total] = [sums(sent), sums(bytes)];
  const y = total.map((value) => value / 1e6);
  const marked = lost.length ? [{ sign: "×", name: "lost", at: lost.map((at) => at / SEQUENCE_UNITS) }] : [];
  // What overtook another is drawn in the order of time.
  const inOrder = (x, values = y) => { const order = x.map((_, i) => i).filter((i) => known(x[i]) && known(values[i])).sort((a, b) => x[a] - x[b]); return { x: order.map((i) => x[i]), y: order.map((i) => values[i]) }; };
  const ackedAt = acked.map((after, i) => known(after) ? (begun[i] + took[i] + after) / SEQUENCE_UNITS : null);
  const windows = sums(window).map((size, i) => known(window[i]) ? size : null);
  const above = (sizes) => inOrder(ackedAt, sizes.map((size, i) => known(size) ? y[i] + size / 1e6 : null));
  const isMore = permitted.some((beyond, i) => beyond || (known(beyond) && !known(window[i])));
  const ofAcks = [
    { name: "acknowledged", look: 2, ...inOrder(ackedAt) },
    { name: "window", look: 3, ...above(windows) },
    { name: "permitted", look: 4, ...above(isMore ? permitted.map((beyond, i) => known(beyond) ? (windows[i] ?? 0) + beyond : null) : []) },
  ];
  return {
    title: `Time sequence, ${name}`, unit: "MB", x_unit: "s", x_label: "time [s]", follows: true, every, losses, isBound: !isMore && permitted.some(known),
    lines: [
      { name: "sent", look: 0, ...inOrder(begun.map((at) => at / SEQUENCE_UNITS)), events: marked },
      { name: "arrived", look: 1, ...inOrder(begun.map((at, i) => (at + took[i]) / SEQUENCE_UNITS)) },
      ...ofAcks.filter((line) => line.x.length > 0),
    ],
  };
}

/** What the tip tells: what was sent, has arrived and is acknowledged by then, what is between, how long the last one took, and what
    the window and the permit were. */
function sequenceAt(u) {
  const x = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
  if (x === null) return null;
  const { lines } = u.chart;
  const values = Object.fromEntries(lines.map((line) => [line.name, line.y[lastUpTo(line.x, x)] ?? 0]));
  const { sent, arrived, acknowledged } = values;
  const reached = lines[1].x[lastUpTo(lines[0].y, arrived)];
  const waited = reached - lines[0].x[lastUpTo(lines[0].y, arrived)];
  const beyond = (name) => [[dot(lines.find((line) => line.name === name).look)], name, `${brief((values[name] - acknowledged) * 1e3)} kB`];
  const rows = [
    [[dot(0)], "sent", `${brief(sent)} MB`], [[dot(1)], "arrived", `${brief(arrived)} MB`], ...(known(acknowledged) ? [[[dot(2)], "acknowledged", `${brief(acknowledged)} MB`]] : []),
    [[], "on the way", `${brief((sent - arrived) * 1e3)} kB`], [[], "the last took", known(waited) && !Number.isNaN(waited) ? `${brief(waited * 1e3)} ms` : "–"],
    ...["window", "permitted"].filter((name) => known(values[name])).map(beyond),
  ];
  return [`${+x.toPrecision(6)} s`, rows];
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

/** The part of a page that shows one of several sequences. `ofRuns`: their runs are those of the comparison. It draws
    itself when the page draws its charts: `draw`. */
function sequencePart(sequences, ofRuns) {
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
    const has = (name) => chart.lines.some((line) => line.name === name);
    const above = [has("window") ? "the window" : "", has("permitted") ? "all that was let be on the way (permitted)" : ""].filter(Boolean).join(" and ");
    const acks = !has("acknowledged") ? "The log has no acks. " : above ? `Above what was acknowledged: ${above}${chart.isBound ? ", which is all that was let be on the way" : ""}. ` : "";
    note.textContent = `${thinned}${lost}${acks}Across from line to line: how long a packet took; upright: what was on the way. A click on a line or an event of another chart over time, or Enter at its cursor, opens that flow and time here.`;
  };
  pick.addEventListener("change", draw);
  /** Shows the first sequence of which `is` holds around a time. False: there is none. */
  const open = (is, at) => {
    const found = sequences.findIndex(is);
    if (found < 0) return false;
    pick.value = found;
    const { x } = sequenceChart(sequences[found]).lines[0];
    const half = Math.max(0.5, (x.at(-1) - x[0]) / 40);
    seen = [Math.max(x[0], at - half), Math.min(x.at(-1), at + half)];
    draw();
    section.scrollIntoView({ block: "center" });
    return true;
  };
  if (ofRuns) packetsOfRuns = open;
  return { section, draw, open };
}

/** Opens the packets of a run of the page's comparison; null: the page has none. */
let packetsOfRuns = null;
