// The live view: a stream of events becomes sums, charts, a table, and one connection opened.

import { LineChart } from "./charts.js";
import { Detail } from "./detail.js";
import { age, bytes, clock, element, known, one, setText, short } from "./format.js";
import { Stream } from "./stream.js";
import { Table } from "./table.js";

const token = new URLSearchParams(location.hash.slice(1)).get("k") ?? "";
let hasEnded = false;

const rates = new LineChart(one("#rate"), ["all connections", "capacity of the link"]);
const delays = new LineChart(one("#delay"), ["queue, median", "queue, 95 %", "RTT, median"], { isLog: true });
const waiting = new LineChart(one("#bytes"), ["in flight", "waiting for the controller"]);
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

function setState(word, text) {
  // Another command answers: it begins anew.
  if (word === "again") return location.reload();
  if (hasEnded) return;
  one("#status").dataset.is = word;
  setText(one("#status"), text);
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
  const title = `cellpace ${data.command} · ${data.subject}`;
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
    showSums(data.t, data.summary);
    draw(data.t, data.summary);
  }
  table.update(data);
}

function draw(t, { rate_mbps, queue_ms, rtt_ms, in_flight_bytes, queued_bytes, capacity_mbps }) {
  shownUntil = Math.max(shownUntil, t);
  rates.push(t, [rate_mbps, capacity_mbps ?? null]);
  delays.push(t, [queue_ms?.p50 ?? null, queue_ms?.p95 ?? null, rtt_ms?.p50 ?? null]);
  waiting.push(t, [in_flight_bytes / 1e6, queued_bytes / 1e6]);
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
  showControllers(t, summary.controllers ?? []);
}

let before = { t: 0, delivered: new Map() };

/** Where connections have different controllers, what each of these got: the arms of an experiment. */
function showControllers(t, all) {
  one("#arms").hidden = all.length < 2;
  if (all.length < 2) return;
  const rate = ({ controller, delivered_bytes: bytes }) => {
    const last = before.delivered.get(controller);
    return known(last) && t > before.t ? `${short((bytes - last) * 8e-6 / (t - before.t))} Mbit/s` : "–";
  };
  const row = (arm) => element("tr", {}, element("th", { scope: "row", class: "name" }, arm.controller || "none"),
    ...[arm.open, arm.total, rate(arm), bytes(arm.delivered_bytes), arm.lost].map((value) => element("td", {}, String(value))));
  one("#arms tbody").replaceChildren(...all.map(row));
  before = { t, delivered: new Map(all.map(({ controller, delivered_bytes: bytes }) => [controller, bytes])) };
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
  setState("ended", `ended after ${age(data.t)}; this page shows what follows at the same link`);
  hasEnded = true;
  showSums(data.t, data.summary);
}

// Another link that is pasted into the same tab is followed.
addEventListener("hashchange", () => location.reload());
if (token) follow();
else setState("lost", "open the link as it was printed: the part behind # is the key");
