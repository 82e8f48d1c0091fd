// What happened to controllers and what they decided, as signs on the charts over time.

const SHOWN_AT_FIRST = ["timeout", "handover"];

/** The toggles of the kinds that there are. */
function drawEvents(timed) {
  const shown = timed.filter((run) => !state.hidden.has(run.cc)).map((run) => run.series.events ?? []);
  // All runs have the same handovers.
  const all = shown.flatMap((events, i) => i ? events.filter((each) => each.event !== "handover") : events);
  const count = (kind, of) => all.filter((each) => each.event === kind).reduce((sum, each) => sum + of(each), 0);
  const kinds = Object.keys(EVENTS).filter((kind) => count(kind, (each) => each.count));
  one("#events").hidden = !kinds.length;
  const focused = document.activeElement?.dataset?.event;
  one("#events").replaceChildren(...kinds.map((kind) => {
    const [sign, name] = EVENTS[kind];
    const [drawn, found] = [count(kind, (each) => each.at_s.length), count(kind, (each) => each.count)];
    const title = drawn < found ? `${drawn} of ${found} are drawn` : `${found} in all`;
    const button = element("button", { type: "button", class: "toggle", "aria-pressed": String(state.events.has(kind)), "data-event": kind, title }, element("b", { "aria-hidden": "true" }, sign), element("span", {}, `${name} ${found}`));
    button.addEventListener("click", () => {
      state.events.has(kind) ? state.events.delete(kind) : state.events.add(kind);
      refresh();
    });
    return button;
  }));
  if (focused) one(`#events [data-event="${focused}"]`)?.focus();
  const isThinned = kinds.some((kind) => count(kind, (each) => each.at_s.length) < count(kind, (each) => each.count));
  one("#events-note").textContent = isThinned ? "Of many events of a kind only some are marked; the numbers count all." : "";
  told.events = Object.fromEntries(kinds.map((kind) => [kind, count(kind, (each) => each.count)]));
}

/** The events of a run, or of one of its flows, that are shown. A handover concerns all. */
function eventsOf(run, flow = null) {
  const isShown = (each) => each.event !== "handover" && state.events.has(each.event) && (flow === null || each.flow === flow);
  return (run.series.events ?? []).filter(isShown).map(({ event, phase, at_s: at }) => ({ sign: EVENTS[event]?.[0] ?? "•", name: phase ? phase.replaceAll("_", " ") : EVENTS[event]?.[1] ?? event, at }));
}

/** Handovers of the path, which all controllers share. */
function handoversShown() {
  if (!state.events.has("handover")) return [];
  const first = timedRuns().flatMap((run) => run.series.events ?? []).find((each) => each.event === "handover");
  return (first?.at_s ?? []).map((at) => ({ at, words: "handover" }));
}
