// The live view: a stream of events becomes sums, charts, a table, and one connection opened.

import { TimeChart, Together } from "./charts.js";
import { Detail } from "./detail.js";
import { age, bytes, setText, short } from "./format.js";
import { clock, dot, element, known, one } from "./report.js";
import { Stream } from "./stream.js";
import { Table } from "./table.js";

const token = new URLSearchParams(location.hash.slice(1)).get("k") ?? "";
let subject = "";
let ended = ""; // when the command ended, in words

const together = new Together("all");
const rates = new TimeChart(one("#rate"), together, { unit: "Mbit/s" });
// One outage does not flatten all else.
const delays = new TimeChart(one("#delay"), together, { unit: "ms", log_y: true });
const waiting = new TimeChart(one("#bytes"), together, { unit: "MB" });
const table = new Table({ onView: follow, onChoose: choose });
const detail = new Detail(() => choose(null));
const stream = new Stream(token, { event: take, state: setState });

let opening = 0;
let shownUntil = -1; // seconds, up to which the charts are drawn

/** Has the server send what is in sight now. Several changes in a row become one. */
function follow() {
  clearTimeout(opening);
  opening = setTimeout(() => {
    const asked = new URLSearchParams(table.view);
    asked.set("since", shownUntil);
    if (known(detail.id)) asked.set("flow", detail.id);
    stream.open(asked);
  }, 20);
}

function choose(id) {
  const name = known(id) ? table.name(id) : "";
  table.choose(id);
  if (known(id)) detail.open(id, name);
  else detail.close();
  follow();
}

function setState(word, text = "") {
  one("#status").dataset.is = word;
  setText(one("#status"), [ended, text].filter(Boolean).join("; "));
}

function take(name, data) {
  if (name === "hello") hello(data);
  else if (name === "history") data.moments.forEach(([t, summary]) => draw(t, summary));
  else if (name === "flows") update(data);
  else if (name === "flow") detail.update(data);
  else if (name === "closed") showEnded(data);
  else if (name === "end") end(data);
}

function hello(data) {
  subject = data.subject;
  const title = `cellpace ${data.command} · ${subject}`;
  document.title = title;
  setText(one("#title"), title);
  setText(one("#command"), data.command_line);
  table.forget();
  const names = data.columns.map((column) => column.name).join();
  if (names !== hello.names) {
    hello.names = names;
    table.setColumns(data.columns);
    detail.setColumns(data.columns);
  }
}

function update(data) {
  if (data.summary) {
    draw(data.t, data.summary);
    showSums(data.t, data.summary);
  }
  table.update(data);
}

function draw(t, { rate_mbps, queue_ms, rtt_ms, in_flight_bytes, queued_bytes, capacity_mbps, controllers = [] }) {
  shownUntil = Math.max(shownUntil, t);
  arms = armsOf(controllers, rate_mbps);
  // Where all connections have one controller, they look like it.
  const as = arms.length ? "" : subject;
  rates.push(t, [["capacity of the link", capacity_mbps, { area: true }], ["all connections", rate_mbps, { as }], ...arms.map(({ name, rate }) => [name, rate])]);
  delays.push(t, [["queue, median", queue_ms?.p50], ["queue, 95 %", queue_ms?.p95], ["RTT, median", rtt_ms?.p50]]);
  waiting.push(t, [["in flight", in_flight_bytes / 1e6], ["waiting for the controller", queued_bytes / 1e6]]);
}

let arms = [];
let delivered = new Map(); // bytes, by controller, up to the moment before

/** Several controllers, the arms of an experiment: their sums, and what each has of the rate of all. */
function armsOf(controllers, sum) {
  const since = ({ controller, delivered_bytes: bytes }) => bytes - (delivered.get(controller) ?? 0);
  const all = controllers.reduce((bytes, each) => bytes + since(each), 0);
  const isKnown = known(sum) && delivered.size > 0;
  const found = controllers.map((each) => ({ ...each, name: each.controller || "none", rate: isKnown ? sum * since(each) / Math.max(1, all) : null }));
  delivered = new Map(controllers.map(({ controller, delivered_bytes: bytes }) => [controller, bytes]));
  return found;
}

const SUMS = [
  ["Open", (sum) => String(sum.open), "connections that are open"],
  ["Up to now", (sum) => String(sum.total), "connections up to now"],
  ["Throughput", (sum) => (known(sum.rate_mbps) ? `${short(sum.rate_mbps)} Mbit/s` : "–"), "what arrived at the other ends within the last half second"],
  ["Delivered", (sum) => bytes(sum.delivered_bytes), "what has arrived at the other ends up to now"],
  ["Queue", (sum) => (sum.queue_ms ? `${short(sum.queue_ms.p50)} / ${short(sum.queue_ms.p95)} ms` : "–"), "estimated time in queues: median / 95th percentile over the open connections"],
  ["Losses", (sum) => String(sum.lost), "segments sent again, or packets dropped"],
  ["Up", (_, t) => age(t), "time since the command began"],
];
let sums = null;

function showSums(t, summary) {
  if (!sums) {
    sums = SUMS.map(() => element("dd", {}));
    one("#sums").replaceChildren(...SUMS.map(([title, , help], index) =>
      element("div", { title: help }, element("dt", {}, title), sums[index])));
  }
  SUMS.forEach(([, text], index) => setText(sums[index], text(summary, t)));
  showArms();
}

/** Where connections have different controllers, what each of these got. */
function showArms() {
  one("#arms").hidden = !arms.length;
  const { looks } = rates;
  const row = ({ name, open, total, rate, delivered_bytes: delivered, lost }) => element("tr", {}, element("th", { scope: "row", class: "name" }, dot(looks.get(name) ?? 0), name),
    ...[open, total, known(rate) ? `${short(rate)} Mbit/s` : "–", bytes(delivered), lost].map((value) => element("td", {}, String(value))));
  one("#arms tbody").replaceChildren(...arms.map(row));
}

const MOST_ENDED = 50;

/** The last connections that have ended, the newest first. */
function showEnded({ t, connection, outcome, delivered_bytes: delivered, lost }) {
  one("#ended").hidden = false;
  const row = element("tr", {}, element("th", { scope: "row", class: "name" }, connection), ...[clock(t), outcome, bytes(delivered), String(lost)].map((value) => element("td", {}, value)));
  one("#ended tbody").prepend(row);
  while (one("#ended tbody").rows.length > MOST_ENDED) one("#ended tbody").lastChild.remove();
}

function end(data) {
  ended = `ended after ${age(data.t)}`;
  setState("ended");
  showSums(data.t, data.summary);
}

// Another link that is pasted into the same tab is followed.
addEventListener("hashchange", () => location.reload());
if (token) follow();
else setState("lost", "open the link as it was printed: the part behind # is the key");
