// Flows that share a link: their figures, throughput, shares, Jain's index, windows.

function drawFlows(timed) {
  const runs = group().runs.filter((run) => run.seed === state.seed && run.flows.length > 1);
  one("#flows").hidden = !runs.length;
  told.drawn.flows = 0;
  if (!runs.length) return;
  // Where nothing is compared, the flows are what the page is about.
  if (group().rows.length === 1 && (data.groups.length === 1 || data.has_uplink)) one("#scatter").before(one("#flows"));
  const run = runs[Math.min(state.flowsOf, runs.length - 1)];
  choose("#pick-flows", runs.map((each, i) => [i, data.controllers[each.cc]]), runs.indexOf(run), runs.length > 1);
  drawFlowTable(run, timed);
  const drawn = timed.includes(run) && run.series.flows.length > 1;
  const isMany = timed.includes(run) && run.series.bands?.length > 0;
  one("#flows .over-time").hidden = !drawn && !isMany;
  fillLegend(one("#flows .legend"), drawn ? run.series.flows.map((_, i) => [i, flowName(run, i)]) : [], state.hiddenFlows, refresh);
  if (isMany) drawBands(run);
  if (!drawn) return;
  state.drawsFlows = true;
  const lines = (all) => all.map((values, i) => ({ ...packetsOf(run, i), look: i, name: flowName(run, i), bin: run.series.bin, values: whileOn(values, run, i), hidden: state.hiddenFlows.has(i), events: eventsOf(run, i) }));
  const place = (of) => one(`#flows [data-of="${of}"]`);
  const marks = run.flows.flatMap(([, start, stop], i) => [...(start > 0 ? [{ at: start, words: `${i + 1} starts` }] : []), ...(stop < state.end - run.series.bin ? [{ at: stop, words: `${i + 1} stops` }] : [])]);
  const rates = lines(run.series.flows);
  told.drawn.flows = timeChart("#flows", place("throughput"), rates, { unit: "Mbit/s", capacity: capacityOf([run]), marks, merged: mean });
  const delays = lines(run.series.flow_p95 ?? []).filter((line) => line.values.some(known));
  timeChart("#flows", place("delay"), delays, { unit: "ms", log: true, marks, merged: highest });
  timeChart("#flows", place("shares"), rates.filter((line) => !line.hidden), { unit: "Mbit/s", stacked: true, capacity: capacityOf([run]), merged: mean });
  const shared = rates.filter((_, i) => isControlled(run, i));
  const jain = run.series.flows[0].map((_, bin) => {
    const on = shared.map((line) => line.values[bin]).filter(known);
    return on.length > 1 ? jainOf(on) : null;
  });
  timeChart("#flows", place("jain"), shared.length < 2 ? [] : [{ look: 0, name: "Jain's index", bin: run.series.bin, values: jain }], { unit: "index", top: 1.05, marks, merged: mean });
  const windows = lines(run.series.cwnd).filter((line) => line.values.some(known));
  timeChart("#flows", place("cwnd"), windows, { unit: "packets", log: true, least: 1, merged: mean });
  state.drawsFlows = false;
}

const BANDS = ["5 %", "25 %", "median", "75 %", "95 %"];

/** Flows that are too many for a line each: percentiles of their throughputs, and Jain's index. */
function drawBands(run) {
  const place = (of) => one(`#flows [data-of="${of}"]`);
  state.drawsFlows = true;
  const lines = BANDS.map((name, i) => ({ look: run.cc, name, bin: run.series.bin, values: run.series.bands[i], isEdge: i !== 2 }));
  told.drawn.flows = timeChart("#flows", place("throughput"), lines, { unit: "Mbit/s", bands: [[4, 0], [3, 1]], merged: mean });
  timeChart("#flows", place("jain"), [{ look: run.cc, name: "Jain's index", bin: run.series.bin, values: run.series.jain }], { unit: "index", top: 1.05, merged: mean });
  for (const of of ["delay", "shares", "cwnd"]) timeChart("#flows", place(of), [], {});
  state.drawsFlows = false;
}

/** Whether a controller drives the flow: UDP at a constant rate takes no share, it has one. */
const isControlled = (run, i) => !/^udp(:|$)/.test(run.flows[i]?.[0] ?? "");

const flowName = (run, i) => run.flows[i]?.[0] ? `${i + 1}: ${run.flows[i][0]}` : `flow ${i + 1}`;

/** A flow that is off has a gap, not zero. */
function whileOn(values, run, flow) {
  const [, start, stop] = run.flows[flow] ?? ["", 0, Infinity];
  return values.map((value, bin) => (bin + 1) * run.series.bin <= start || bin * run.series.bin >= stop ? null : value);
}

function drawFlowTable(run, timed) {
  const names = ["Flow", "starts, s", "stops, s", "Mbit/s", "queue delay p50, ms", "p95, ms", "lost"];
  const cell = (value, digits) => element("td", {}, known(value) ? value.toFixed(digits) : "–");
  const means = group().flow_means?.[run.cc];
  const spread = ({ v, ci }, digits) => element("td", {}, known(v) ? `${v.toFixed(digits)} ± ${ci.toFixed(digits)}` : "–");
  const isMany = run.flows.length + (run.more ?? 0) > 16;
  const udp = run.flows.filter((_, i) => !isControlled(run, i)).length;
  const rows = run.flows.map(([, start, stop, rate, p50, p95, lost], i) => element("tr", {},
    element("th", { scope: "row", class: "name" }, ...(isMany ? [] : [dot(i)]), flowName(run, i)), cell(start, 1), cell(stop, 1),
    ...(means ? [spread(means[i].throughput, 2), spread(means[i].p50, 1), spread(means[i].p95, 1), spread(means[i].lost, 1)] : [cell(rate, 2), cell(p50, 1), cell(p95, 1), cell(lost, 0)])));
  one("#flows table").replaceChildren(element("thead", {}, element("tr", {}, ...names.map((name, i) => element("th", i ? {} : { class: "word" }, name)))), element("tbody", {}, ...rows));
  one("#flows-note").textContent = [
    means && `The table has means over ${seedsOf(group()).length} seeds with the half width of their 95 % interval. The charts are of ${seedWords("")}.`,
    timed.includes(run) && run.series.bands?.length ? "Throughput over time, second by second: the median of the flows that are on, and bands that hold half and 90 % of them." : "",
    run.more ? `The first ${run.flows.length} of ${run.flows.length + run.more} flows.` : "",
    udp ? "Jain's index is of the flows with a controller: those of UDP are left out." : "",
  ].filter(Boolean).join(" ");
  one("#flows .scroll").classList.toggle("tall", rows.length > 20);
  told.flowRows = rows.length;
}
