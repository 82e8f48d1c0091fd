// The workers: queries in, answers out, never on the page's own thread.

/** How long workers may take to stop before they are replaced, in ms. */
const PATIENCE_MS = 400;

/** Runs queries in workers. One batch at a time; a newer one, or `stop`, ends the one before. */
export class Engine {
  /**
   * @param {string} source the worker's script
   * @param {WebAssembly.Module} module
   * @param {number} count workers at most
   */
  constructor(source, module, count) {
    this.address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.module = module;
    this.files = [];
    this.batch = null;
    this.next = 1;
    this.workers = Array.from({ length: count }, () => this.start({}));
  }

  /** What there is to choose, from the module. */
  choices() {
    return this.workers[0].ready;
  }

  /** Gives all workers a file; resolves to an error, or to null or the controller in a module. */
  async store(name, bytes, isModule) {
    this.stop();
    const answers = await Promise.all(this.workers.map((worker) => new Promise((stored) => {
      worker.storing = { file: { kind: "file", name, bytes, isModule }, stored };
      worker.thread.postMessage(worker.storing.file);
    })));
    const refused = answers.find((answer) => answer?.error || answer?.trap);
    if (!refused) this.files = [...this.files.filter((file) => file.name !== name), { name, bytes }];
    return refused ?? answers[0];
  }

  /** Resolves to the answers in the order of the queries, or to null when stopped. */
  run(queries, onProgress) {
    this.stop();
    return new Promise((resolve) => {
      this.batch = { queries, answers: [], left: queries.length, next: 0, shares: [], onProgress, resolve };
      if (!queries.length) return this.finish([]);
      for (const worker of this.workers) if (!worker.query) this.feed(worker);
    });
  }

  /** Ends the batch that goes on. */
  stop() {
    if (!this.batch) return;
    for (const worker of this.workers.filter((one) => one.query)) {
      worker.query = null;
      worker.thread.postMessage({ kind: "stop" });
      this.expectEnd(worker);
    }
    this.finish(null);
  }

  finish(answers) {
    const { resolve } = this.batch;
    this.batch = null;
    resolve(answers);
  }

  start(worker) {
    Object.assign(worker, { thread: new Worker(this.address), query: null });
    worker.ready = new Promise((ready, failed) => {
      worker.thread.onmessage = ({ data }) => data.kind === "ready" ? ready(data.choices) : this.receive(worker, data);
      worker.thread.onerror = (event) => failed(new Error(event.message || "its worker fails"));
    });
    worker.thread.postMessage({ kind: "module", module: this.module, files: this.files });
    return worker;
  }

  feed(worker) {
    const { batch } = this;
    if (!batch || batch.next >= batch.queries.length) return;
    this.send(worker, batch.next++);
  }

  send(worker, index) {
    worker.query = { id: this.next++, index };
    worker.thread.postMessage({ kind: "run", id: worker.query.id, query: this.batch.queries[index] });
  }

  receive(worker, data) {
    if (data.kind === "stored") {
      worker.storing.stored(data.answer);
      worker.storing = null;
      return;
    }
    const { batch } = this;
    if (!batch || worker.query?.id !== data.id) return;
    const { index } = worker.query;
    batch.shares[index] = data.kind === "progress" ? data.share : 1;
    batch.onProgress?.(batch.shares.reduce((sum, share) => sum + (share ?? 0), 0) / batch.queries.length);
    if (data.kind !== "answer") return;
    worker.query = null;
    batch.answers[index] = data.answer;
    if (--batch.left === 0) return this.finish(batch.answers);
    this.feed(worker);
  }

  /** A worker that does not come back to its messages soon is replaced; the new one gets its work. */
  expectEnd(worker) {
    const { thread } = worker;
    const { port1, port2 } = new MessageChannel();
    const late = setTimeout(() => {
      if (worker.thread !== thread) return;
      const { query } = worker;
      thread.terminate();
      this.start(worker);
      if (worker.storing) worker.thread.postMessage(worker.storing.file);
      if (query && this.batch) this.send(worker, query.index);
    }, PATIENCE_MS);
    port1.onmessage = () => {
      clearTimeout(late);
      port1.close();
    };
    thread.postMessage({ kind: "echo", port: port2 }, [port2]);
  }
}
