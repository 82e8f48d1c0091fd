// Elements from data. Text only ever becomes text.

export const one = (selector, within = document) => within.querySelector(selector);
export const known = (value) => value !== null && value !== undefined;

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (known(value) && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(known));
  return made;
}
