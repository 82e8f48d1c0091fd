// Runs the module in Node: node module.mjs MODULE PAGE_FOLDER. Standard input has one state of the page a
// line; one line of output each: the page's command for it, and the module's answers.
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [file, folder] = process.argv.slice(2);
const page = (name) => import(pathToFileURL(join(folder, name)));
const { Simulator } = await page("module.mjs");
const { fromFragment, initialState, toCommand, toFragment, toQueries } = await page("state.mjs");

const module = await WebAssembly.compile(readFileSync(file));
const simulator = new Simulator(await WebAssembly.instantiate(module, {}));
const choices = simulator.describe();

/** A run in steps of `step` ms of virtual time; `most` steps at most. */
function run(query, step, most) {
  let answer = simulator.begin(query);
  for (let k = 0; answer.share !== undefined && k < most; k++) answer = simulator.advance(step);
  return answer;
}

const bytes = () => simulator.exports.memory.buffer.byteLength;
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

print({ choices, imports: WebAssembly.Module.imports(module) });
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const state = { ...initialState(choices.defaults), ...asked.state };
  const stored = asked.file && simulator.store(asked.file.name, Buffer.from(asked.file.text));
  const controller = asked.module && simulator.store(basename(asked.module), readFileSync(asked.module), true);
  try {
    // What stands in a link comes back from it.
    const link = toFragment(state, choices.defaults);
    const again = toFragment(fromFragment(link, choices.defaults), choices.defaults);
    const answers = toQueries(state).map((query) => run(query, asked.step ?? 5000, asked.most ?? 1e6));
    const kept = answers.map(({ figures, error, field, share }) => ({ figures, error, field, share }));
    print({ command: toCommand(state, choices.defaults), link, again, stored, controller, answers: kept, bytes: bytes() });
  } catch (error) {
    print({ trap: String(error), state });
    process.exit(1);
  }
}
