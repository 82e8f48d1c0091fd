// One connection: its window and RTT over time, what its controller holds and has decided.

import { ProfileChart, TimeChart, Together } from "./charts.js";
import { setText, short, words } from "./format.js";
import { EVENTS, clock, element, known, one } from "./report.js";

const MAX_EVENTS = 100;

export class Detail {
  #together = new Together("detail");
  #windows = new TimeChart(one("#detail-window"), this.#together, { unit: "kB" });
  #rtts = new TimeChart(one("#detail-rtt"), this.#together, { unit: "ms" });
  #profile = new ProfileChart(one("#detail-profile"));
  #columns = new Map();
  #values = new Map();
  id = null;

  constructor(onClose) {
    one("#close").addEventListener("click", onClose);
  }

  setColumns(columns) {
    this.#columns = new Map(columns.map((column, index) => [column.name, index + 1]));
  }

  open(id, name) {
    this.id = id;
    setText(one("#detail-title"), name);
    one("#detail").hidden = false;
    one("#profile").hidden = true;
    one("#events").replaceChildren();
    one("#values").replaceChildren();
    this.#values.clear();
    this.#windows.clear();
    this.#rtts.clear();
    this.#profile.clear();
    one("#detail").scrollIntoView({ block: "nearest" });
  }

  close() {
    this.id = null;
    one("#detail").hidden = true;
  }

  update(data) {
    if (data.id !== this.id) return;
    if (!data.row) {
      setText(one("#detail-title"), `${one("#detail-title").textContent} (ended)`);
      return;
    }
    const of = (name) => data.row[this.#columns.get(name)];
    setText(one("#detail-title"), of("connection"));
    const kilobytes = (name) => (known(of(name)) ? of(name) / 1e3 : null);
    for (const [t, name] of data.events) {
      // Losses are no decisions, and many.
      if (!EVENTS[name] || name === "loss") continue;
      this.#windows.happened(t, EVENTS[name]);
      this.#rtts.happened(t, EVENTS[name]);
    }
    const own = { as: of("controller") };
    this.#windows.push(data.t, [["window", kilobytes("cwnd"), own], ["in flight", kilobytes("in_flight")], ["TCP's window", kilobytes("tcp_cwnd")]]);
    this.#rtts.push(data.t, [["RTT", of("rtt"), own], ["smallest", of("min_rtt")]]);
    this.#showValues(data.values);
    this.#showEvents(data.events);
    const profile = data.profile;
    if (profile && profile.points.length + profile.curve.length > 0) {
      one("#profile").hidden = false;
      this.#profile.show(profile, of("controller") ?? "");
    }
  }

  #showValues(values) {
    for (const [name, value] of Object.entries(values)) {
      let shown = this.#values.get(name);
      if (!shown) {
        shown = element("dd", {});
        this.#values.set(name, shown);
        one("#values").append(element("div", {}, element("dt", {}, words(name)), shown));
      }
      setText(shown, short(value));
    }
  }

  #showEvents(events) {
    const list = one("#events");
    for (const [t, name, more] of events) {
      const text = Object.entries(more).map(([key, value]) => `${words(key)} ${typeof value === "string" ? words(value) : short(value)}`);
      list.prepend(element("li", {}, element("time", {}, clock(t)), `${words(name)} ${text.join(", ")}`));
    }
    while (list.children.length > MAX_EVENTS) list.lastChild.remove();
  }
}
