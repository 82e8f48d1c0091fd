// Parts of the page, in HTML and in SVG. Text only ever becomes text. The playground takes this file, too.

const SVG = "http://www.w3.org/2000/svg";
const one = (selector, within = document) => within.querySelector(selector);

function element(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function shape(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** `onclick` and the like become listeners; `true` is an attribute without a value, and what is not known or false is none. */
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (known(value) && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(known));
  return made;
}

function text(x, y, words, attributes) {
  const made = shape("text", { x, y, ...attributes });
  made.textContent = words;
  return made;
}

/** The heading of a chart with its buttons: the one right above it, or that of its section. */
const headOf = (where) => where.previousElementSibling?.matches("h3, .head") ? where.previousElementSibling : one(".head", where.closest("section"));
const titleOf = (where) => (one("h2, h3", headOf(where)) ?? headOf(where)).firstChild.textContent.trim();

/** The palette and the colours of the page as they are now, in light or dark. */
function pageColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const colours = Array.from({ length: 8 }, (_, i) => read("--c" + i));
  for (const name of ["ground", "text", "soft", "rule", "grid", "area", "edge", "focus"]) colours[name] = read("--" + name);
  return colours;
}

/** Lets the reader keep something as a file. */
function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A file name of words. */
const fileName = (words, ending) => `${words.replace(/[^\w.=-]+/g, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "chart"}.${ending}`;
