// Numbers as text. Text from outside becomes text, never markup.

import { known } from "./report.js";

/** Sets text only where it differs: what stays the same is not laid out again. */
export function setText(of, text) {
  if (of.textContent !== text) of.textContent = text;
}

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

export const words = (name) => name.replaceAll("_", " ");
