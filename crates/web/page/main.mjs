// The page: reads its state from the link, has the workers simulate it, and draws what they answer.
import { Charts } from "./charts.mjs";
import { Controls } from "./controls.mjs";
import { Engine } from "./engine.mjs";
import { Pen } from "./pen.mjs";
import { numberOf } from "./quantity.mjs";
import { fromFragment, parseSpec, toCommand, toFragment, toQueries } from "./state.mjs";

const MOST_WORKERS = 4;
/** A batch that takes longer than this is given up for a newer one. */
const PATIENCE_WITH_OLD_MS = 700;
/** Before this, progress is not worth showing. */
const SHOW_PROGRESS_MS = 250;
/** What is simulated of a longer run first when the page opens: the browser compiles the simulator for speed only while it runs. */
const FIRST_SECONDS = 15;
const MOST_FILE_BYTES = 64 << 20;

// What tests look at.
const seen = window.cellpace = { errors: [], batches: 0, drawn: {}, figures: [], idle: false };
addEventListener("error", (event) => seen.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));

looks = JSON.parse(one("#looks").textContent);
colours = pageColours();
const charts = new Charts();
let engine, choices, controls, pen, state;
let fileNumber = 0; // how many files there were: an answer belongs to the files of its time
let dropped = new Set();
let wanted = null, running = null;
let answers = new Map(); // of the last batch, by query

async function start() {
  const module = await WebAssembly.compile(await unpacked(one("#module").textContent));
  one("#module").remove();
  const count = Math.max(1, Math.min(navigator.hardwareConcurrency || 2, MOST_WORKERS));
  engine = new Engine(one("#worker").textContent, module, count);
  choices = await engine.choices();
  controls = new Controls(choices, { changed, openFile });
  pen = new Pen(drawTrace);
  listen();
  // On a phone the pictures come first.
  if (innerWidth < 600) document.querySelectorAll("#controls .group")[1].open = false;
  load();
}

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (sign) => sign.charCodeAt(0));
  return new Uint8Array(await new Response(decompressed(new Blob([bytes]).stream())).arrayBuffer());
}

const decompressed = (stream) => stream.pipeThrough(new DecompressionStream("gzip"));

// ---- state ----

/** Takes the state from the link. */
function load() {
  state = fromFragment(location.hash, choices.defaults);
  state.back = wayBack(state.back);
  one("#back").hidden = !state.back;
  if (state.back) one("#back").href = state.back;
  controls.draw(state);
  changed();
}

/** The state has changed: the link, the command, and soon the pictures. */
function changed() {
  const fragment = toFragment(state, choices.defaults);
  if (location.hash.slice(1) !== fragment) history.replaceState(null, "", `#${fragment}`);
  one("#command").textContent = toCommand(state, choices.defaults);
  const files = [state.trace, ...state.cc.map((cc) => parseSpec(cc).name)].filter((name) => dropped.has(name)).map((name) => name.replace(/^plugin:/, ""));
  one("#same-note").textContent = `The command needs the release of cellpace that this page is of, ${choices.version}, and gives the same figures to the last digit.`
    + (files.length ? ` Files are not in the link: whoever opens it drops ${files.join(" and ")} again; the command looks for them in its folder.` : "");
  request();
}

function drawTrace(trace) {
  state.trace = trace;
  controls.showTrace();
  changed();
}

// ---- simulation: the newest wish counts ----

function request() {
  wanted = toQueries(state);
  seen.idle = false;
  if (!running) return void work();
  if (performance.now() - running.since > PATIENCE_WITH_OLD_MS) engine.stop();
}

async function work() {
  running = { since: performance.now() };
  if (!seen.batches) await showBeginning(wanted);
  while (wanted) {
    const queries = wanted;
    wanted = null;
    running = { since: performance.now() };
    const late = setTimeout(showRunning, SHOW_PROGRESS_MS);
    const results = await simulate(queries);
    clearTimeout(late);
    hideRunning();
    if (results) show(queries, results, performance.now() - running.since);
  }
  running = null;
  seen.idle = true;
}

/** A new page shows the first seconds of a long run, and then all of it. */
async function showBeginning(queries) {
  if (!(numberOf("span", queries[0].duration) > FIRST_SECONDS * 1e3)) return;
  const results = await engine.run(queries.map((query) => ({ ...query, duration: `${FIRST_SECONDS}s` })), () => {});
  if (!results?.some((answer) => answer.figures)) return;
  show(queries, results, performance.now() - running.since);
  say(`The first ${FIRST_SECONDS} s of ${queries[0].duration}; the rest follows.`);
}

/** The answers to all queries, those of the last batch taken from there. Null: stopped. */
async function simulate(queries) {
  const keys = queries.map((query) => JSON.stringify([fileNumber, query]));
  const missing = keys.flatMap((key, i) => answers.has(key) || keys.indexOf(key) < i ? [] : [i]);
  const found = await engine.run(missing.map((i) => queries[i]), (share) => { one("#progress").value = share; });
  if (!found) return null;
  missing.forEach((i, k) => answers.set(keys[i], found[k]));
  answers = new Map(keys.map((key) => [key, answers.get(key)]));
  return keys.map((key) => answers.get(key));
}

function show(queries, results, took) {
  const before = performance.now();
  const marked = results.map((answer, i) => queries.findIndex((query) => query.cc === queries[i].cc) < i
    ? { error: `${queries[i].cc} is there twice`, field: "cc" } : answer);
  const others = controls.showTroubles(marked);
  const trapped = marked.find((answer) => answer.trap);
  if (trapped) others.push(`The simulator failed, which is a bug: please report the link of this page (${trapped.trap}).`);
  tell(others.join(" "));
  const places = lookPlaces(queries.map((query) => query.cc), looks.length);
  const runs = marked.flatMap((answer, i) => answer.figures ? [{ cc: queries[i].cc, index: places[i], ...answer }] : []);
  document.body.classList.toggle("stale", runs.length === 0);
  if (runs.length) {
    charts.show(runs);
    pen.show(runs[0].series.capacity_mbps, runs[0].series.bin_s);
  }
  const drawing = performance.now() - before;
  seen.firstMs ??= performance.now();
  const number = runs.length === 1 ? "1 controller" : `${runs.length} controllers`;
  say(runs.length ? `${number} over ${queries[0].duration} of virtual time, simulated in ${took.toFixed(0)} ms.` : "Nothing to show.");
  document.documentElement.classList.add("drawn");
  Object.assign(seen, { batches: seen.batches + 1, simulatedMs: took, drawingMs: drawing, drawn: { ...charts.drawn }, figures: runs.map(({ cc, figures }) => ({ cc, figures })) });
}

function showRunning() {
  document.body.classList.add("running");
  one("#progress").value = 0;
}

const hideRunning = () => document.body.classList.remove("running");
const say = (text) => { one("#status").textContent = text; };

function tell(text) {
  one("#trouble").hidden = !text;
  if (one("#trouble").textContent !== text) one("#trouble").textContent = text;
}

function cancel() {
  wanted = null;
  engine.stop();
  say("Cancelled. Change anything to go on.");
}

// ---- files ----

/** A module takes the place of the controller at `index`, if it was asked for there. */
function openFile(index) {
  const input = document.createElement("input");
  input.type = "file";
  input.addEventListener("change", () => input.files[0] && take(input.files[0], index));
  input.click();
}

async function take(file, index) {
  if (file.size > MOST_FILE_BYTES) return tell(`${file.name}: ${(file.size / 1e6).toFixed(0)} MB are more than the ${MOST_FILE_BYTES >> 20} MB that the page takes.`);
  const isModule = file.name.endsWith(".wasm");
  const name = isModule ? file.name : `./${file.name}`;
  let bytes;
  try {
    bytes = await contents(file);
  } catch (error) {
    return tell(`${file.name} does not read: ${error.message}`);
  }
  const answer = await engine.store(name, bytes, isModule);
  if (answer?.error || answer?.trap) return tell(answer.error ?? answer.trap);
  fileNumber++;
  dropped.add(isModule ? answer.name : name);
  if (!isModule) return drawTrace(name);
  controls.takeModule(answer, index);
}

/** A file's bytes, uncompressed where it is gzipped, and never more than the most. */
async function contents(file) {
  const magic = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  if (magic[0] !== 0x1f || magic[1] !== 0x8b) return new Uint8Array(await file.arrayBuffer());
  const reader = decompressed(file.stream()).getReader();
  const parts = [];
  let total = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    total += part.value.length;
    if (total > MOST_FILE_BYTES) throw new Error(`it holds more than ${MOST_FILE_BYTES >> 20} MB`);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// ---- events ----

function listen() {
  addEventListener("hashchange", load);
  one("#cancel").addEventListener("click", cancel);
  addEventListener("keydown", (event) => { if (event.key === "Escape" && running) cancel(); });
  one("#controls").addEventListener("submit", (event) => event.preventDefault());
  one("#copy-command").addEventListener("click", (event) => copy(event.target, one("#command").textContent));
  one("#copy-link").addEventListener("click", (event) => copy(event.target, location.href));
  const redo = () => { colours = pageColours(); charts.redo(); pen.paint(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redo);
  let width = innerWidth;
  addEventListener("resize", () => { if (width !== innerWidth) { width = innerWidth; redo(); } });
  for (const kind of ["focus", "blur"]) one("#pen").addEventListener(kind, () => pen.paint());
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); one("#drop").hidden = false; } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) one("#drop").hidden = true; });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    one("#drop").hidden = true;
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
}

async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(one("#command"));
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

start().catch((error) => {
  seen.errors.push(String(error));
  say(`The simulator does not start: ${error.message ?? error}`);
});
