// A worker: one instance of the simulator, one run at a time, in slices so that it can be stopped.
import { Simulator } from "./module.mjs";

/** How long a slice should take in ms: a request to stop waits that long. */
const SLICE_MS = 12;

let module = null;
let simulator = null;
let starting = null;
let files = [];
let wanted = 0; // the run that goes on; 0: none

const instantiate = async () => {
  simulator = new Simulator(await WebAssembly.instantiate(module, {}));
  for (const { name, bytes } of files) simulator.store(name, bytes);
};

/** Lets messages in between two slices. */
const channel = new MessageChannel();
const pause = () => new Promise((go) => {
  channel.port1.onmessage = go;
  channel.port2.postMessage(null);
});

/** An instance that trapped is replaced; its state is not to be trusted. */
async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    await instantiate();
    return { trap: String(error) };
  }
}

async function run(id, query) {
  wanted = id;
  let answer = await guarded(() => simulator.begin(query));
  let step = 250;
  while (answer?.share !== undefined) {
    const before = performance.now();
    answer = await guarded(() => simulator.advance(step));
    const took = performance.now() - before;
    step = Math.max(1, Math.min(60_000, Math.round(step * Math.min(4, SLICE_MS / Math.max(took, 1)))));
    if (answer?.share === undefined) break;
    await pause();
    if (wanted !== id) return;
    postMessage({ kind: "progress", id, share: answer.share });
  }
  if (wanted === id) postMessage({ kind: "answer", id, answer });
}

async function store({ name, bytes, isModule }) {
  const answer = await guarded(() => simulator.store(name, bytes, isModule));
  if (!answer?.error && !answer?.trap) files = [...files.filter((file) => file.name !== name), { name, bytes }];
  postMessage({ kind: "stored", answer });
}

onmessage = async ({ data }) => {
  switch (data.kind) {
    case "module":
      ({ module, files } = data);
      await (starting = instantiate());
      postMessage({ kind: "ready", choices: simulator.describe() });
      break;
    case "file":
      await starting;
      await store(data);
      break;
    case "run":
      await starting;
      await run(data.id, data.query);
      break;
    case "stop":
      wanted = 0;
      break;
    case "echo":
      data.port.postMessage(null);
      break;
  }
};
