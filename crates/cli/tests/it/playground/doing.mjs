// Does in a browser what people do with the page: node doing.mjs CHROMIUM FOLDER PAGE [AXE]. FOLDER is for the
// browser's profile and the screenshots. Prints what was seen as JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser } from "./chromium.mjs";

const [program, folder, file, axe] = process.argv.slice(2);
const address = pathToFileURL(file).href;
const browser = await Browser.start(program, join(folder, "profile"));
const seen = { console: [], requests: [], errors: [], violations: [] };
const IDLE = "window.cellpace?.idle === true";
const FIGURES = "window.cellpace.figures";

async function opened(fragment, options) {
  const page = await browser.open(address + fragment, options);
  await page.until(`${IDLE} || window.cellpace?.errors.length > 0`);
  return page;
}

/** Notes what the console, the network and the page's own list of errors have. */
async function leave(page) {
  seen.console.push(...page.console);
  seen.requests.push(...page.requests);
  seen.errors.push(...await page.value("window.cellpace.errors"));
}

async function audit(page, name) {
  if (!axe) return;
  await page.value(readFileSync(axe, "utf8") + ";0");
  const found = await page.value(`axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then((result) =>
    result.violations.map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => node.html.slice(0, 160)) })))`);
  seen.violations.push(...found.map((violation) => ({ name, ...violation })));
}

async function looks() {
  seen.looks = [];
  for (const [width, dark] of [[1280, false], [1280, true], [400, false], [400, true]]) {
    const name = `${width}-${dark ? "dark" : "light"}`;
    const page = await opened("#trace=lte-driving&handover=30s/500ms&cc=verus:r=4&cc=copa&cc=cubic&cc=bbr", { width, height: 900, dark });
    await page.value("document.querySelectorAll('#controls details').forEach((details, i) => { details.open = i < 4; })");
    await audit(page, name);
    writeFileSync(join(folder, `${name}.png`), await page.screenshot());
    seen.looks.push({ name, drawn: await page.value("window.cellpace.drawn"), overflow: await page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") });
    await leave(page);
  }
}

/** A slider moves with the mouse, and pictures follow before it is let go. */
async function drag() {
  const page = await opened("#trace=constant:12mbit&cc=verus&cc=copa&cc=cubic&cc=bbr");
  const measured = "({ ms: window.cellpace.simulatedMs, drawing: window.cellpace.drawingMs, first: window.cellpace.firstMs })";
  seen.minute = { opening: await page.value(measured) };
  // The same again, of which nothing is kept.
  for (let rtt = 41; rtt <= 44; rtt++) {
    await page.value(`window.cellpace.idle = false; location.hash = "trace=constant:12mbit&rtt=${rtt}ms&cc=verus&cc=copa&cc=cubic&cc=bbr"`);
    await page.until(`${IDLE} && document.querySelector("#command").textContent.includes("${rtt}ms")`);
  }
  seen.minute.later = await page.value(measured);
  const slider = '#link input[type="range"]';
  await page.value(`document.querySelectorAll('${slider}').forEach((range) => { if (range.getAttribute("aria-label") === "RTT without queueing") range.id = "slide"; })`);
  const { x, y, width, height } = await page.box("#slide");
  const before = await page.value("window.cellpace.batches");
  const values = [];
  await page.mouse("mousePressed", x + width * 0.3, y + height / 2);
  for (let step = 0; step < 20; step++) {
    await page.mouse("mouseMoved", x + width * (0.3 + step * 0.02), y + height / 2);
    if (step % 5 === 4) {
      const batches = await page.value("window.cellpace.batches");
      await page.until(`window.cellpace.batches > ${batches} || ${IDLE}`);
      values.push(await page.value("document.querySelector('[data-field=rtt]').value"));
    }
  }
  const during = await page.value("window.cellpace.batches") - before;
  await page.mouse("mouseReleased", x + width * 0.68, y + height / 2);
  await page.until(IDLE);
  seen.drag = { during, values, figures: await page.value(FIGURES), command: await page.value("document.querySelector('#command').textContent") };
  // With the keyboard, too.
  await page.value("document.querySelector('#slide').focus()");
  const rtt = await page.value("document.querySelector('[data-field=rtt]').value");
  await page.press("ArrowRight");
  seen.drag.keyboard = [rtt, await page.value("document.querySelector('[data-field=rtt]').value")];
  await page.until(IDLE);
  await leave(page);
}

/** A file is dropped; its name is text, whatever it is. */
async function drop() {
  const page = await opened("#cc=cubic&cc=copa&duration=20s");
  const name = "<img src=x onerror=alert(1)> it's.down";
  const text = Array.from({ length: 3000 }, (_, i) => 2 * i + (i % 7)).sort((a, b) => a - b).join("\n") + "\n";
  const dropped = (name, text) => page.value(`(() => {
    const data = new DataTransfer();
    data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}));
    for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
    window.cellpace.idle = false;
  })()`);
  await dropped(name, text);
  await page.until(`${IDLE} && location.hash.includes("down")`);
  seen.drop = { name, text, figures: await page.value(FIGURES), command: await page.value("document.querySelector('#command').textContent"),
    images: await page.value("document.images.length"), note: await page.value("document.querySelector('#same-note').textContent") };
  await dropped("broken.down", "1\nnonsense\n");
  await page.until("document.querySelector('#trouble-trace').textContent !== ''");
  seen.drop.trouble = await page.value("document.querySelector('#trouble-trace').textContent");
  await page.until(IDLE);
  await leave(page);
}

/** A module is dropped and is a controller with its parameters; one that does not run is refused. */
async function modules() {
  const page = await opened("#trace=lte-driving&cc=cubic&duration=30s");
  const dropped = (name) => page.value(`(() => {
    const data = new DataTransfer();
    const bytes = Uint8Array.from(atob("${readFileSync(join(folder, name)).toString("base64")}"), (sign) => sign.charCodeAt(0));
    data.items.add(new File([bytes], "${name}"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  })()`);
  const command = "document.querySelector('#command').textContent";
  await dropped("builtin.wasm");
  await page.until(`${IDLE} && ${command}.includes("builtin.wasm") && ${FIGURES}.length === 2`);
  seen.modules = { listed: await page.value("[...document.querySelectorAll('#ccs .cc:last-child option')].map((option) => option.textContent)") };
  await page.value(`(() => { const which = document.querySelector('#ccs .cc:last-child input[placeholder]'); which.value = "6"; which.dispatchEvent(new Event("input", { bubbles: true })); })()`);
  await page.until(`${IDLE} && ${FIGURES}[1]?.cc.endsWith("which=6")`);
  Object.assign(seen.modules, { command: await page.value(command), figures: await page.value(FIGURES),
    ms: await page.value("window.cellpace.simulatedMs"), note: await page.value("document.querySelector('#same-note').textContent") });
  await dropped("bad.wasm");
  await page.until("!document.querySelector('#trouble').hidden");
  seen.modules.refused = await page.value("document.querySelector('#trouble').textContent");
  await leave(page);
}

/** The capacity is drawn with the mouse, then changed with the keyboard; the link holds it. */
async function draw() {
  const page = await opened("#trace=constant:12mbit&cc=cubic&cc=verus&duration=20s");
  const { x, y, width, height } = await page.box("#pen");
  await page.mouse("mousePressed", x + width * 0.3, y + height * 0.7);
  for (let step = 1; step <= 10; step++) await page.mouse("mouseMoved", x + width * (0.3 + 0.04 * step), y + height * (0.7 - 0.03 * step));
  await page.mouse("mouseReleased", x + width * 0.7, y + height * 0.4);
  await page.until(IDLE);
  const command = "document.querySelector('#command').textContent";
  const mouse = await page.value(command);
  for (const key of ["ArrowRight", "ArrowUp", "ArrowUp"]) await page.press(key);
  await page.until(IDLE);
  seen.draw = { mouse, command: await page.value(command), figures: await page.value(FIGURES), spoken: await page.value("document.querySelector('#pen').getAttribute('aria-valuetext')") };
  const fragment = await page.value("location.hash");
  await leave(page);
  const again = await opened(fragment);
  seen.draw.again = { command: await again.value(command), figures: await again.value(FIGURES) };
  await leave(again);
}

/** A long run is cancelled; the page is never blocked, and goes on. */
async function cancel() {
  const page = await opened("#trace=constant:12mbit&cc=cubic&duration=10s");
  await page.value(`(() => { window.longest = 0; let last = performance.now(); const tick = () => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now; setTimeout(tick, 5); }; tick(); })()`);
  await page.value("location.hash = 'trace=constant:3gbit&cc=cubic&cc=verus&duration=600s'");
  await page.until("document.body.classList.contains('running')");
  await page.click("#cancel");
  await page.until(IDLE);
  seen.cancel = { status: await page.value("document.querySelector('#status').textContent"), running: await page.value("document.body.classList.contains('running')"), longest: await page.value("window.longest") };
  await page.value("location.hash = 'trace=constant:12mbit&cc=cubic&duration=11s'");
  await page.until(`${IDLE} && document.querySelector('#status').textContent.includes('11s')`);
  seen.cancel.after = await page.value("window.cellpace.figures.length");
  await leave(page);
}

/** Links from elsewhere: hostile texts are text, errors are sentences. */
async function hostile() {
  const nasty = "<img src=x onerror=alert(1)></script><script>alert(1)</script>";
  const page = await opened(`#cc=${encodeURIComponent(nasty)}&cc=cubic&cc=cubic&trace=constant:5mbit&duration=10s&queue=${encodeURIComponent(nasty)}`);
  seen.hostile = { images: await page.value("document.images.length"), troubles: await page.value("[...document.querySelectorAll('.trouble')].map((place) => place.textContent).filter(Boolean)"), scripts: await page.value("document.scripts.length") };
  await leave(page);
  const other = await opened(`#cc=${encodeURIComponent(nasty)}&cc=cubic&cc=cubic&trace=constant:5mbit&duration=10s`);
  seen.hostile.others = await other.value("[...document.querySelectorAll('.trouble')].map((place) => place.textContent).filter(Boolean)");
  seen.hostile.left = await other.value("window.cellpace.figures.length");
  await leave(other);
}

/** Choosing, adding, removing; parameters come from the module. */
async function choose() {
  const page = await opened("#trace=constant:12mbit&cc=verus&duration=10s");
  await page.value("document.querySelector('#ccs details').open = true");
  const command = "document.querySelector('#command').textContent";
  const change = (selector, value, kind) => page.value(`(() => { const place = document.querySelector('${selector}'); place.value = ${JSON.stringify(value)}; place.dispatchEvent(new Event('${kind}', { bubbles: true })); window.cellpace.idle = false; })()`);
  seen.choose = { sliders: await page.value("document.querySelectorAll('#ccs input[type=range]').length") };
  await change('#ccs select[aria-label="Preset"]', "original", "change");
  await page.until(`${command}.includes("verus:original")`);
  await change('#ccs .cc input[placeholder]', "3", "input");
  seen.choose.command = await page.value(command);
  await page.click("#add-cc");
  await page.click("#add-handover");
  await page.until(`${command}.includes("--handover")`);
  seen.choose.more = await page.value(command);
  await page.until(IDLE);
  await leave(page);
}

/** A page of results led here: there is a way back, also after the state has changed, and only into the same folder. */
async function back() {
  const page = await opened("#trace=constant:12mbit&cc=cubic&duration=10s&back=compare.html%23zoom%3D1%2C2");
  const way = "(() => { const { hidden, href } = document.querySelector('#back'); return hidden ? null : href.split('/').pop(); })()";
  seen.back = { first: await page.value(way) };
  await page.click("#add-cc");
  await page.until(`${IDLE} && window.cellpace.figures.length === 2`);
  seen.back.later = await page.value(way);
  seen.back.hash = await page.value("location.hash");
  await leave(page);
  const other = await opened("#trace=constant:12mbit&cc=cubic&duration=10s&back=javascript:alert(1)//.html");
  seen.back.hostile = await other.value(way);
  await leave(other);
}

async function paper() {
  const page = await opened("#trace=lte-driving&cc=verus&cc=copa&cc=cubic&duration=20s", { width: 720 });
  await page.send("Emulation.setEmulatedMedia", { media: "print" });
  seen.paper = { cut: await page.value("[...document.querySelectorAll('#shown section, #shown table')].filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.id || part.tagName)"),
    controls: await page.value("getComputedStyle(document.querySelector('#controls')).display") };
  const { data } = await page.send("Page.printToPDF", {});
  writeFileSync(join(folder, "paper.pdf"), Buffer.from(data, "base64"));
  await leave(page);
}

try {
  for (const part of [looks, drag, drop, modules, draw, cancel, hostile, choose, back, paper]) {
    try {
      await part();
    } catch (error) {
      throw new Error(`${part.name}: ${error.stack}`);
    }
  }
  process.stdout.write(`${JSON.stringify(seen)}\n`);
} finally {
  await browser.close();
}
