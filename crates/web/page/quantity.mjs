// Written quantities, as far as sliders need them. What counts is what the module reads.

const UNITS = {
  number: { "": 1, "%": 0.01 },
  integer: { "": 1 },
  span: { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1e3, min: 6e4, m: 6e4, h: 3.6e6 },
  bytes: { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1 << 20, bit: 1 / 8, kbit: 125, mbit: 125e3, pkts: 1500, pkt: 1500 },
  rate: { bit: 1e-6, kbit: 1e-3, mbit: 1, gbit: 1e3 },
};

/** What a written value is in the unit of its kind (ms, bytes, Mbit/s); NaN if it does not read. */
export function numberOf(type, text) {
  const [, digits, unit] = /^\s*([\d.eE+-]+)\s*([^\d\s]*)\s*$/.exec(text) ?? [];
  return Number(digits) * (UNITS[type]?.[unit] ?? NaN);
}

/** A value as it is written, with three digits. */
export function textOf(type, value) {
  const short = (number) => String(+number.toPrecision(3));
  switch (type) {
    case "integer": return String(Math.round(value));
    case "span": return value >= 1e4 ? `${short(value / 1e3)}s` : value >= 1 || value === 0 ? `${short(value)}ms` : `${short(value * 1e3)}us`;
    case "bytes": return value >= 1e6 ? `${short(value / 1e6)}MB` : value >= 1e3 ? `${short(value / 1e3)}kB` : `${Math.round(value)}B`;
    case "rate": return value >= 1 || value === 0 ? `${short(value)}mbit` : `${short(value * 1e3)}kbit`;
    case "percent": return `${short(value * 100)}%`;
    default: return short(value);
  }
}

/** The way from a slider's place (0 to 1) to a value and back: logarithmic, linear, or with most room at the low end. */
export function scale(low, high, logarithmic, isCurved) {
  if (isCurved) return { value: (place) => low + place ** 3 * (high - low), place: (value) => Math.cbrt((value - low) / (high - low)) };
  if (logarithmic && low > 0) {
    const ratio = Math.log(high / low);
    return { value: (place) => low * Math.exp(place * ratio), place: (value) => Math.log(value / low) / ratio };
  }
  return { value: (place) => low + place * (high - low), place: (value) => (value - low) / (high - low) };
}
