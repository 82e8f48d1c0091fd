// What is simulated, as text: in the link of the page, as queries, and as a command.

/** Fields of a query that the page has a control for, beside the controllers. */
const FIELDS = ["trace", "rtt", "queue", "loss", "flows", "duration", "seed"];

/** The state of a new page. */
export function initialState(defaults) {
  return { ...defaults, handover: [], cc: ["verus", "copa", "cubic", "bbr"] };
}

/** Only what is not as at first stands in a link, and always trace and controllers. */
export function toFragment(state, defaults) {
  const first = initialState(defaults);
  // Signs that a link may have stay readable.
  const encode = (text) => encodeURIComponent(text).replace(/%(3A|2F|2C|3D)/g, (sign) => decodeURIComponent(sign));
  const pairs = FIELDS.filter((field) => field === "trace" || state[field] !== first[field]).map((field) => [field, state[field]]);
  pairs.push(...state.handover.map((one) => ["handover", one]), ...state.cc.map((one) => ["cc", one]));
  if (state.back) pairs.push(["back", state.back]);
  return pairs.map(([field, value]) => `${field}=${encode(value)}`).join("&");
}

/** The state behind a link; what it leaves out is as at first, what it does not know is passed over. */
export function fromFragment(fragment, defaults) {
  const state = initialState(defaults);
  const given = new URLSearchParams(fragment.replace(/^#/, "").replaceAll("+", "%2B"));
  for (const field of FIELDS) if (given.has(field)) state[field] = given.get(field);
  state.handover = given.getAll("handover").slice(0, MOST_HANDOVERS);
  const cc = given.getAll("cc").slice(0, MOST_CONTROLLERS);
  if (cc.length) state.cc = cc;
  if (given.has("back")) state.back = given.get("back");
  return state;
}

export const MOST_CONTROLLERS = 24;
export const MOST_HANDOVERS = 8;

/** One query for each controller. */
export function toQueries(state) {
  const { back: _, ...asked } = state;
  return state.cc.map((cc) => ({ ...asked, cc }));
}

/** The command that does the same. */
export function toCommand(state, defaults) {
  const words = ["cellpace", "compare", "--trace", state.trace];
  for (const cc of state.cc) words.push("--cc", cc);
  for (const field of FIELDS.slice(1))
    if (field === "duration" || state[field] !== defaults[field]) words.push(`--${field}`, state[field]);
  for (const handover of state.handover) words.push("--handover", handover);
  return words.map(quoted).join(" ");
}

/** A word as a shell takes it. */
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** A module's file belongs to its controller's name. */
const isModule = (text) => text.trimStart().startsWith("plugin:");

/** `name:preset,key=value` (or `name:size`, `plugin:FILE,key=value`) in parts. */
export function parseSpec(text) {
  const at = text.indexOf(isModule(text) ? "," : ":");
  const [name, rest] = at < 0 ? [text.trim(), ""] : [text.slice(0, at).trim(), text.slice(at + 1)];
  const spec = { name, preset: "", values: new Map() };
  rest.split(",").map((part) => part.trim()).filter(Boolean).forEach((part, index) => {
    const is = part.indexOf("=");
    if (is < 0 && index === 0) spec.preset = part;
    else spec.values.set(is < 0 ? part : part.slice(0, is).trim(), is < 0 ? "" : part.slice(is + 1).trim());
  });
  return spec;
}

export function formatSpec({ name, preset, values }) {
  const parts = [...(preset ? [preset] : []), ...[...values].map(([key, value]) => `${key}=${value}`)];
  return parts.length ? `${name}${isModule(name) ? "," : ":"}${parts.join(",")}` : name;
}
