// A headless Chromium, driven through a pipe with its DevTools protocol: no package, no port.
import { spawn } from "node:child_process";

/** How long a browser may take for one thing, in ms: then the test fails. */
const PATIENCE_MS = 60_000;

export class Browser {
  /** Starts `program` with its profile in `folder`. */
  static async start(program, folder) {
    const browser = new Browser();
    browser.child = spawn(program, [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
      "--remote-debugging-pipe", `--user-data-dir=${folder}`, "about:blank",
    ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    browser.listen();
    return browser;
  }

  listen() {
    this.next = 1;
    this.waiting = new Map();
    this.listeners = [];
    let buffered = Buffer.alloc(0);
    this.child.stdio[4].on("data", (bytes) => {
      buffered = Buffer.concat([buffered, bytes]);
      for (let end = buffered.indexOf(0); end >= 0; end = buffered.indexOf(0)) {
        this.receive(JSON.parse(buffered.subarray(0, end)));
        buffered = buffered.subarray(end + 1);
      }
    });
  }

  receive(message) {
    const { id, method, params, result, error, sessionId } = message;
    if (!id) return this.listeners.forEach((listener) => listener(method, params, sessionId));
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    error ? reject(new Error(error.message)) : resolve(result);
  }

  send(method, params = {}, sessionId) {
    const id = this.next++;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return within(method, new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject })));
  }

  /** Opens a page of a size; it collects messages of the console, errors and requests. */
  async open(address, { width = 1280, height = 900, dark = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.send(`${domain}.enable`);
    await page.size(width, height);
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await page.send("Page.navigate", { url: address });
    return page;
  }

  async close() {
    this.child.kill();
  }
}

export class Page {
  constructor(browser, session) {
    Object.assign(this, { browser, session, console: [], requests: [] });
    browser.listeners.push((method, params, sessionId) => sessionId === session && this.note(method, params));
  }

  note(method, params) {
    if (method === "Runtime.consoleAPICalled") this.console.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    if (method === "Runtime.exceptionThrown") this.console.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded") this.console.push(params.entry.text);
    // The page itself, and what it makes itself, is no request to anybody.
    if (method === "Network.requestWillBeSent" && !/^(file|blob|data):/.test(params.request.url)) this.requests.push(params.request.url);
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  size(width, height) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  /** What an expression, which may be a promise, is in the page. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true, userGesture: true });
    if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression) {
    const end = Date.now() + PATIENCE_MS;
    while (!(await this.value(expression))) {
      if (Date.now() > end) throw new Error(`never: ${expression}`);
      await new Promise((go) => setTimeout(go, 20));
    }
  }

  async box(selector) {
    return this.value(`(() => { const place = document.querySelector(${JSON.stringify(selector)}); place.scrollIntoView({ block: "center" }); const { x, y, width, height } = place.getBoundingClientRect(); return { x, y, width, height }; })()`);
  }

  mouse(type, x, y) {
    return this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons: type === "mouseReleased" ? 0 : 1, clickCount: 1 });
  }

  async click(selector) {
    const { x, y, width, height } = await this.box(selector);
    for (const type of ["mousePressed", "mouseReleased"]) await this.mouse(type, x + width / 2, y + height / 2);
  }

  async press(key) {
    for (const type of ["keyDown", "keyUp"]) await this.send("Input.dispatchKeyEvent", { type, key, code: key });
  }

  async screenshot() {
    const { cssContentSize } = await this.send("Page.getLayoutMetrics");
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true, clip: { x: 0, y: 0, width: cssContentSize.width, height: cssContentSize.height, scale: 1 } });
    return Buffer.from(data, "base64");
  }
}

function within(what, promise) {
  let late;
  const timeout = new Promise((_, reject) => { late = setTimeout(() => reject(new Error(`${what} takes too long`)), PATIENCE_MS); });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(late));
}
