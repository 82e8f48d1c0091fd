// The WebAssembly module: JSON in, JSON out. Used by the worker, and by tests in Node.

/** One instance of the simulator. A trap (out of memory, or a bug) makes it useless. */
export class Simulator {
  /** @param {WebAssembly.Instance} instance */
  constructor(instance) {
    this.exports = instance.exports;
  }

  /** What there is to choose. */
  describe() {
    return this.answer(this.exports.describe());
  }

  /** Keeps a file that traces may name, or a module, a controller's. Returns an error, or null or the controller. */
  store(name, bytes, isModule) {
    const header = new TextEncoder().encode(name);
    const input = new Uint8Array(header.length + bytes.length);
    input.set(header);
    input.set(bytes, header.length);
    this.write(input);
    return this.answer(isModule ? this.exports.store_module(header.length) : this.exports.store(header.length));
  }

  /** Begins a run: { share } or { error, field }. */
  begin(query) {
    this.write(new TextEncoder().encode(JSON.stringify(query)));
    return this.answer(this.exports.begin());
  }

  /** Goes on with it: { share }, { error, field }, or at the end { figures, series }. */
  advance(milliseconds) {
    return this.answer(this.exports.advance(milliseconds));
  }

  // Memory may move in any call: it is looked up anew each time.
  write(bytes) {
    const address = this.exports.reserve(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
  }

  answer(length) {
    const address = this.exports.answer_address() >>> 0;
    return JSON.parse(new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, address, length)));
  }
}
