// Numbers and elements. Text from outside becomes text, never markup.

export const one = (selector) => document.querySelector(selector);

export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets text only where it differs: what stays the same is not laid out again. */
export function setText(of, text) {
  if (of.textContent !== text) of.textContent = text;
}

export const known = (value) => value !== null && value !== undefined;

/** Three significant digits. */
export function short(value) {
  if (!known(value)) return "";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toString();
  if (size >= 10) return value.toFixed(1);
  return size === 0 ? "0" : value.toFixed(2);
}

export function bytes(value) {
  if (!known(value)) return "";
  for (const [unit, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= unit) return `${short(value / unit)} ${name}`;
  }
  return `${value} B`;
}

export function age(seconds) {
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Seconds since the command began as m:ss. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export const words = (name) => name.replaceAll("_", " ");
