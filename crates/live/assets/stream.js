// The stream of events. `fetch` and not EventSource: the token goes in a field, and so into no address.

const RETRY_MS = 1000;
/** After the end of a command another one, with another link, may begin at the same address. */
const ENDED_MS = 5000;
const BUSY_MS = 5000;

export class Stream {
  #token;
  #on;
  #abort = new AbortController();
  #last = null;
  #hasEnded = false;

  /** `on`: `event(name, data)` and `state(word, text)`. */
  constructor(token, on) {
    this.#token = token;
    this.#on = on;
  }

  /** Follows what a query asks for, in place of what was followed before. */
  open(query) {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.#follow(query, this.#abort.signal);
  }

  async #follow(query, signal) {
    while (!signal.aborted) {
      let pause = RETRY_MS;
      try {
        pause = await this.#connect(query, signal);
      } catch {
        // It was aborted by the page, or the server is gone.
      }
      if (signal.aborted || pause === null) return;
      if (this.#hasEnded) pause = ENDED_MS;
      else if (pause === RETRY_MS) this.#on.state("lost", "connection lost, trying again");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** Returns the time to wait before the next attempt; null: none makes sense. */
  async #connect(query, signal) {
    const headers = { Authorization: `Bearer ${this.#token}` };
    if (this.#last !== null) headers["Last-Event-ID"] = this.#last;
    const answer = await fetch(`/api/events?${query}`, { headers, signal, cache: "no-store" });
    if (answer.status === 401) {
      // What has ended stays on the page.
      if (this.#hasEnded) this.#on.state("ended", "another command runs here now: open the link that it printed");
      else this.#on.state("lost", "this link is not valid (any more): open the one that was printed last");
      return null;
    }
    if (answer.status === 503) {
      this.#on.state("lost", "too many pages are open, waiting");
      return BUSY_MS;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    if (!this.#hasEnded) this.#on.state("live", "live");
    await this.#read(answer.body.pipeThrough(new TextDecoderStream()).getReader(), signal);
    return RETRY_MS;
  }

  async #read(reader, signal) {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) this.#take(event);
    }
  }

  #take(text) {
    let name = null;
    let data = null;
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith("id: ")) this.#last = line.slice(4);
    }
    if (name === null || data === null) return;
    if (name === "end") this.#hasEnded = true;
    this.#on.event(name, JSON.parse(data));
  }
}
