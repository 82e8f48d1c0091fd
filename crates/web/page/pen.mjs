// The capacity as a curve that can be drawn: it becomes `step:RATE/TIME,...`, which the program reads, too.
import { textOf } from "./quantity.mjs";

const MOST_STEPS = 60;
const MARGIN = { left: 34, bottom: 18, top: 6 };

/** Draws capacity into the canvas and lets it be drawn anew. */
export class Pen {
  /** `drawn(trace, isFinal)` gets what was drawn as a trace. */
  constructor(drawn) {
    Object.assign(this, { drawn, rates: [], step: 1, top: 20, at: 0, stroke: null });
    this.canvas = one("#pen");
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => this.end());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    one("#draw-top").addEventListener("change", (event) => {
      const top = Number(event.target.value);
      if (top > 0 && top <= 1e4) this.top = top;
      this.paint();
    });
  }

  /** Shows the capacity of a run, in bins of `bin` seconds. */
  show(capacity, bin) {
    if (this.stroke) return;
    const duration = capacity.length * bin;
    this.step = Math.max(1, Math.ceil(duration / MOST_STEPS));
    const each = Math.round(this.step / bin);
    this.fine = { capacity, bin, duration };
    this.rates = Array.from({ length: Math.max(1, Math.ceil(capacity.length / each)) }, (_, i) => {
      const bins = capacity.slice(i * each, (i + 1) * each);
      return bins.reduce((sum, rate) => sum + (rate ?? 0), 0) / Math.max(1, bins.length);
    });
    const highest = Math.max(...capacity, 0.1);
    if (highest > this.top || highest < this.top / 4) this.top = rounded(highest * 1.3);
    if (document.activeElement !== one("#draw-top")) one("#draw-top").value = this.top;
    this.at = Math.min(this.at, this.rates.length - 1);
    this.paint();
    this.tell();
  }

  begin(event) {
    if (!this.rates.length || event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.stroke = this.place(event);
    this.set(this.stroke, this.stroke);
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
  }

  move(event) {
    if (!this.stroke) return;
    const place = this.place(event);
    this.set(this.stroke, place);
    this.stroke = place;
  }

  end() {
    if (!this.stroke) return;
    this.stroke = null;
    this.drawn(this.trace(), true);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, bottom, top } = MARGIN;
    const x = (event.clientX - box.left - left) / (box.width - left);
    const y = (event.clientY - box.top - top) / (box.height - top - bottom);
    return { index: clamp(Math.floor(x * this.rates.length), 0, this.rates.length - 1), rate: clamp(1 - y, 0, 1) * this.top };
  }

  /** Sets all steps between two places, as a line. */
  set(from, to) {
    const span = to.index - from.index;
    for (let k = 0; k <= Math.abs(span); k++) {
      const share = span ? k / Math.abs(span) : 1;
      this.rates[from.index + Math.sign(span) * k] = from.rate + share * (to.rate - from.rate);
    }
    this.at = to.index;
    this.fine = null;
    this.paint();
    this.tell();
    this.drawn(this.trace(), false);
  }

  key(event) {
    const sideways = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    const upwards = { ArrowUp: 1, ArrowDown: -1, PageUp: 5, PageDown: -5 }[event.key];
    if (!sideways && !upwards) return;
    event.preventDefault();
    if (sideways) {
      this.at = clamp(this.at + sideways, 0, this.rates.length - 1);
      this.paint();
      return this.tell();
    }
    const place = { index: this.at, rate: clamp(this.rates[this.at] + upwards * this.top / 40, 0, this.top) };
    this.set(place, place);
  }

  /** What is drawn, as a trace; equal neighbours are one step. */
  trace() {
    const steps = [];
    for (const rate of this.rates) {
      const text = textOf("rate", rate);
      if (steps.at(-1)?.text === text) steps.at(-1).length += this.step;
      else steps.push({ text, length: this.step });
    }
    return `step:${steps.map(({ text, length }) => `${text}/${length}s`).join(",")}`;
  }

  tell() {
    const rate = this.rates[this.at] ?? 0;
    this.canvas.setAttribute("aria-valuemax", this.top);
    this.canvas.setAttribute("aria-valuenow", rate.toFixed(2));
    this.canvas.setAttribute("aria-valuetext", `second ${this.at * this.step}: ${rate.toFixed(1)} Mbit/s`);
  }

  paint() {
    const { canvas, top } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const { left, bottom } = MARGIN;
    const foot = height - bottom;
    const y = (rate) => foot - (foot - MARGIN.top) * Math.min(rate, top * 1.02) / top;
    const bars = this.fine ? [this.fine.capacity, this.fine.bin] : [this.rates, this.step];
    const duration = this.fine?.duration ?? this.rates.length * this.step;
    const x = (second) => left + (width - left) * second / duration;
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = colours.soft;
    c.strokeStyle = colours.grid;
    for (const share of [0, 0.5, 1]) {
      c.textAlign = "right";
      c.fillText(+(top * share).toPrecision(3), left - 6, y(top * share) + 4 + (share === 1 ? 4 : 0));
      c.beginPath();
      c.moveTo(left, y(top * share));
      c.lineTo(width, y(top * share));
      c.stroke();
    }
    c.textAlign = "center";
    const every = [1, 2, 5, 10, 20, 30, 60, 120].find((second) => duration / second <= width / 60) ?? 300;
    for (let second = every; second < duration; second += every) c.fillText(`${second} s`, x(second), height - 4);
    c.beginPath();
    c.moveTo(left, foot);
    bars[0].forEach((rate, i) => {
      c.lineTo(x(i * bars[1]), y(rate ?? 0));
      c.lineTo(x((i + 1) * bars[1]), y(rate ?? 0));
    });
    c.lineTo(x(bars[0].length * bars[1]), foot);
    c.fillStyle = colours.area;
    c.fill();
    c.strokeStyle = colours.edge;
    c.stroke();
    if (document.activeElement === canvas) {
      c.fillStyle = colours.focus;
      c.beginPath();
      c.arc(x((this.at + 0.5) * this.step), y(this.rates[this.at] ?? 0), 4.5, 0, 7);
      c.fill();
    }
  }
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** A round number not below. */
function rounded(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return +([1, 2, 3, 5, 8, 10].find((step) => step * unit >= value) * unit).toPrecision(2);
}
