// The controls: text fields with sliders beside them, made from what the module describes.
import { numberOf, scale, textOf } from "./quantity.mjs";
import { MOST_CONTROLLERS, MOST_HANDOVERS, formatSpec, parseSpec } from "./state.mjs";

/** Where the page's own sliders begin and end; a field takes whatever the module takes. */
const SLIDERS = {
  rtt: { type: "span", low: 1, high: 500, logarithmic: true },
  buffer: { type: "bytes", low: 1e4, high: 2e7, logarithmic: true },
  rate: { type: "rate", low: 0.2, high: 200, logarithmic: true },
  loss: { type: "percent", low: 0, high: 0.05 },
  flows: { type: "integer", low: 1, high: 8 },
  duration: { type: "span", low: 1e4, high: 3e5 },
};
const SLIDER_STEPS = 400;
let fields = 0;

/** Draws all controls for `state`; `changed(isFinal)` is called when they have changed it. */
export class Controls {
  constructor(choices, { changed, openFile }) {
    Object.assign(this, { choices, changed, openFile });
    one("#add-cc").addEventListener("click", () => this.addController());
  }

  draw(state) {
    this.state = state;
    this.drawLink();
    this.drawControllers();
  }

  // ---- link ----

  drawLink() {
    const { state } = this;
    const set = (field) => (value) => { state[field] = value; this.changed(); };
    one("#link").replaceChildren(
      this.traceField(),
      field({ name: "rtt", label: "RTT without queueing", value: state.rtt, slider: SLIDERS.rtt, input: set("rtt") }),
      ...this.queueFields(),
      field({ name: "loss", label: "Random loss", value: state.loss, slider: SLIDERS.loss, input: set("loss") }),
      this.handoverFields(),
      field({ name: "flows", label: "Flows of each controller", value: state.flows, slider: SLIDERS.flows, input: set("flows") }),
      field({ name: "duration", label: "Duration", value: state.duration, slider: SLIDERS.duration, input: set("duration") }),
      field({ name: "seed", label: "Seed", value: state.seed, input: set("seed") }),
    );
  }

  /** The trace was changed elsewhere: drawn or dropped. */
  showTrace() {
    one("#field-trace").replaceWith(this.traceField());
  }

  traceField() {
    const { state, choices } = this;
    const known = choices.traces.map((trace) => trace.name);
    const kind = known.includes(state.trace) ? state.trace : state.trace.startsWith("constant:") ? "constant" : state.trace.startsWith("step:") ? "step" : "other";
    const option = (value, text, title) => element("option", { value, title, selected: value === kind }, text);
    const pick = element("select", { "aria-label": "Trace", onchange: () => {
      if (pick.value === "file") {
        pick.value = kind;
        return this.openFile();
      }
      const forms = { constant: "constant:12mbit", step: "step:12mbit/5s,3mbit/5s", other: state.trace };
      state.trace = forms[pick.value] ?? pick.value;
      this.showTrace();
      this.changed();
    } },
      element("optgroup", { label: "Profiles of recorded links" }, ...choices.traces.filter((trace) => !trace.name.includes(":")).map((trace) => option(trace.name, trace.name, trace.about))),
      element("optgroup", { label: "A phone past masts" }, ...choices.traces.filter((trace) => trace.name.includes(":")).map((trace) => option(trace.name, `${trace.name.split(":")[1]}: ${trace.about}`, trace.about))),
      element("optgroup", { label: "Your own" }, option("constant", "a constant rate"), option("step", "drawn, or rates in turn"), option("file", "a file …"), ...(kind === "other" ? [option("other", state.trace)] : [])));
    const set = (value) => { state.trace = value; this.changed(); };
    const setRate = (value) => set(`constant:${value}`);
    const about = choices.traces.find((trace) => trace.name === state.trace)?.about;
    return element("div", { id: "field-trace" },
      element("div", { class: "field" }, element("span", { class: "label" }, "Trace"), pick),
      kind === "constant" ? field({ name: "rate", label: "Rate", value: state.trace.slice("constant:".length), slider: SLIDERS.rate, input: setRate }) : null,
      about ? element("p", { class: "note" }, about) : field({ name: "trace-text", label: "as written", value: state.trace, input: (value) => { set(value); } }),
      trouble("trace"));
  }

  queueFields() {
    const { state, choices } = this;
    const spec = parseSpec(state.queue);
    const info = choices.queues.find((queue) => queue.name === spec.name);
    const set = () => { state.queue = formatSpec(spec); this.changed(); };
    const pick = element("select", { "aria-label": "Queue", onchange: () => {
      const sized = choices.queues.find((queue) => queue.name === pick.value)?.is_sized;
      state.queue = sized ? `${pick.value}:${info?.is_sized && spec.preset || "2MB"}` : pick.value;
      this.drawLink();
      this.changed();
    } }, ...choices.queues.map((queue) => element("option", { value: queue.name, title: queue.summary, selected: queue === info }, queue.name)),
    info ? null : element("option", { value: spec.name, selected: true }, spec.name));
    return [
      element("div", { class: "field" }, element("span", { class: "label" }, "Queue"), pick),
      info ? element("p", { class: "note" }, info.summary) : null,
      info?.is_sized ? field({ name: "buffer", label: "Buffer", value: spec.preset || "2MB", slider: SLIDERS.buffer, input: (value) => { spec.preset = value; set(); } }) : null,
      info?.params.length ? element("details", {}, element("summary", {}, `Parameters of ${info.name}`), ...this.parameterFields(info.params, spec, [], set)) : null,
      trouble("queue"),
    ].filter(Boolean);
  }

  handoverFields() {
    const { state } = this;
    const redraw = () => { this.drawLink(); this.changed(); };
    return element("div", {},
      element("div", { class: "field" }, element("span", { class: "label" }, "Handovers"),
        element("button", { type: "button", id: "add-handover", disabled: state.handover.length >= MOST_HANDOVERS, onclick: () => {
          state.handover.push(`${20 + 10 * state.handover.length}s/500ms`);
          redraw();
        } }, "Add")),
      ...state.handover.map((handover, index) => element("div", { class: "field wide" },
        element("input", { value: handover, "aria-label": `Handover ${index + 1}: when, then interruption, new RTT, kept or lost`, title: "30s/200ms/80ms/lost: when, interruption, new RTT, what becomes of the queue", spellcheck: "false",
          oninput: (event) => { state.handover[index] = event.target.value; this.changed(); } }),
        element("button", { type: "button", "aria-label": `Remove handover ${index + 1}`, onclick: () => { state.handover.splice(index, 1); redraw(); } }, "×"))),
      trouble("handover"));
  }

  // ---- controllers ----

  addController() {
    const { state, choices } = this;
    const unused = choices.controllers.find((info) => !state.cc.some((cc) => parseSpec(cc).name === info.name));
    state.cc.push(unused?.name ?? `${choices.controllers[0].name}:`);
    this.drawControllers();
    this.changed();
  }

  /** A module has become a controller: it is in the list, and runs in the place of the one at `index`, or beside all. */
  takeModule(module, index) {
    const { state, choices } = this;
    choices.controllers = [...choices.controllers.filter((one) => one.name !== module.name), module];
    const runs = state.cc.some((cc) => parseSpec(cc).name === module.name);
    if (!runs && (index !== undefined || state.cc.length < MOST_CONTROLLERS)) state.cc[index ?? state.cc.length] = module.name;
    this.drawControllers();
    this.changed();
  }

  drawControllers() {
    const open = new Set([...document.querySelectorAll("#ccs details[open]")].map((details) => details.id));
    one("#ccs").replaceChildren(...this.state.cc.map((_, index) => this.controller(index, open)));
    one("#add-cc").disabled = this.state.cc.length >= MOST_CONTROLLERS;
  }

  controller(index, open) {
    const { state, choices } = this;
    const spec = parseSpec(state.cc[index]);
    const info = choices.controllers.find((one) => one.name === spec.name);
    const redraw = () => { this.drawControllers(); this.changed(); };
    const text = element("input", { value: state.cc[index], "aria-label": `Controller ${index + 1} as written`, spellcheck: "false", autocapitalize: "off",
      oninput: () => { state.cc[index] = text.value; this.changed(); }, onchange: () => this.drawControllers() });
    const set = () => { state.cc[index] = text.value = formatSpec(spec); this.changed(); };
    const pick = element("select", { "aria-label": `Controller ${index + 1}`, onchange: () => {
      if (pick.value === "file") {
        pick.value = spec.name;
        return this.openFile(index);
      }
      state.cc[index] = pick.value;
      redraw();
    } },
      ...choices.controllers.map((one) => element("option", { value: one.name, title: one.summary, selected: one === info }, one.name)),
      info ? null : element("option", { selected: true }, spec.name || "?"),
      element("option", { value: "file" }, "a module …"));
    const remove = element("button", { type: "button", "aria-label": `Remove ${state.cc[index]}`, disabled: state.cc.length < 2, onclick: () => { state.cc.splice(index, 1); redraw(); } }, "×");
    const id = `more-${index}`;
    return element("div", { class: "cc" },
      element("div", { class: "field" }, swatch(lookPlaces(state.cc, looks.length)[index]), pick, text, remove),
      trouble(`cc-${index}`),
      info ? element("details", { id, open: open.has(id) }, element("summary", {}, "Parameters"),
        element("p", { class: "note" }, info.summary), ...this.controllerFields(info, spec, set, redraw, index)) : null);
  }

  controllerFields(info, spec, set, redraw, index) {
    const preset = info.presets.find((one) => one.name === spec.preset);
    const pick = element("select", { "aria-label": "Preset", onchange: () => {
      spec.preset = pick.value;
      this.state.cc[index] = formatSpec(spec);
      redraw();
    } }, element("option", { value: "" }, "none"), ...info.presets.map((one) => element("option", { value: one.name, title: `${one.summary} (${one.source})`, selected: one === preset }, one.name)));
    const common = info.params.filter((param) => !param.expert);
    const expert = info.params.filter((param) => param.expert);
    const ofPreset = preset ? [...parseSpec(`:${preset.values}`).values] : [];
    return [
      info.presets.length ? element("div", { class: "field" }, element("span", { class: "label" }, "Preset"), pick) : null,
      ...this.parameterFields(common, spec, ofPreset, set),
      expert.length ? element("details", {}, element("summary", {}, `${expert.length} more for experts`), ...this.parameterFields(expert, spec, ofPreset, set)) : null,
    ].filter(Boolean);
  }

  /** A field for each parameter; one that is at its default does not stand in the text. */
  parameterFields(params, spec, ofPreset, set) {
    const defaults = new Map(ofPreset);
    return params.map((param) => {
      const standard = defaults.get(param.key) ?? param.default;
      const input = (value) => {
        if (value.trim() === "" || value === standard) spec.values.delete(param.key);
        else spec.values.set(param.key, value);
        set();
      };
      const label = param.unit ? `${param.key} (${param.unit})` : param.key;
      const help = `${param.help} [${param.allowed}] (${param.source})`;
      return field({ label, help, value: spec.values.get(param.key) ?? "", standard, ...looksOf(param), input });
    });
  }

  // ---- errors ----

  /** Shows the errors of a batch where they belong, and returns those that belong nowhere. */
  showTroubles(answers) {
    const texts = new Map();
    const others = new Set();
    answers.forEach((answer, index) => {
      if (!answer.error) return;
      const name = answer.field === "cc" ? `cc-${index}` : answer.field;
      if (name && one(`#trouble-${name}`)) texts.set(name, answer.error);
      else others.add(answer.error);
    });
    for (const place of document.querySelectorAll(".trouble")) {
      const text = texts.get(place.id.slice("trouble-".length)) ?? "";
      if (place.textContent !== text) place.textContent = text;
    }
    return [...others];
  }
}

/** Words have a list, numbers between two ends a slider. */
function looksOf({ kind, logarithmic, default: standard }) {
  if (kind.type === "bool") return { words: ["true", "false"] };
  if (kind.type === "word") return { words: kind.words };
  if (kind.type === "text" || !(kind.high > kind.low)) return {};
  // Ranges over many decades are logarithmic, or their slider would have but one useful place.
  const isCurved = kind.low <= 0 && numberOf(kind.type, standard) - kind.low < (kind.high - kind.low) / 20;
  return { slider: { ...kind, isCurved, logarithmic: kind.low > 0 && (logarithmic || kind.high / kind.low > 200) } };
}

const trouble = (name) => element("p", { class: "trouble", id: `trouble-${name}`, role: "alert" });

/** A labelled text with a slider or a list where there is one. */
function field({ name, label, help, value, standard, slider, words, input }) {
  const id = `f${++fields}`;
  const text = words ? wordList(id, words, value, standard, input) : element("input", { id, value, placeholder: standard || null, spellcheck: "false", autocapitalize: "off", "data-field": name });
  const row = element("div", { class: slider ? "field slides" : "field", title: help },
    element("label", { for: id, class: "label" }, label), text);
  if (!words) text.addEventListener("input", () => { place?.(); input(text.value); });
  const place = slider && addSlider(row, text, { ...slider, label, standard, input });
  const named = name && ["rtt", "loss", "flows", "duration", "seed"].includes(name);
  return named ? element("div", {}, row, trouble(name)) : row;
}

function wordList(id, words, value, standard, input) {
  const list = element("select", { id, onchange: () => input(list.value) },
    ...words.map((word) => element("option", { value: word, selected: word === (value || standard) }, word)));
  // What is neither word stays as it was written.
  if (!words.includes(value || standard)) list.prepend(element("option", { value, selected: true }, value));
  return list;
}

/** Adds the slider and returns what moves it to where the text is. */
function addSlider(row, text, { type, low, high, logarithmic, isCurved, label, standard, input }) {
  const way = scale(low, high, logarithmic, isCurved);
  const range = element("input", { type: "range", min: 0, max: SLIDER_STEPS, step: 1, "aria-label": label });
  const number = () => {
    const read = numberOf(type === "percent" ? "number" : type, text.value || standard || "");
    return Number.isFinite(read) ? read : low;
  };
  const place = () => {
    range.value = Math.round(SLIDER_STEPS * Math.min(1, Math.max(0, way.place(number()))));
    range.setAttribute("aria-valuetext", text.value || standard || "unset");
  };
  range.addEventListener("input", () => {
    text.value = textOf(type, way.value(range.value / SLIDER_STEPS));
    range.setAttribute("aria-valuetext", text.value);
    input(text.value);
  });
  place();
  row.append(range);
  return place;
}
