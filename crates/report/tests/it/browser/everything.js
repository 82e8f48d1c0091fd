// Does everything that the page lets a reader do, one after the other: chooses each option, presses each button, points at and
// drags over each chart. What went wrong is in the page's own list of errors; files that are saved are only counted.
const done = { options: 0, buttons: 0, files: {}, tips: 0, spoken: 0, zooms: 0, bars: 0, plots: 0 };
window.print = () => { done.files.pdf = (done.files.pdf ?? 0) + 1; saved.push(new XMLSerializer().serializeToString(document.querySelector("#sheet svg")).replaceAll(/var\([^)]*\)/g, "")); };
HTMLAnchorElement.prototype.click = function () {
  if (!this.download) return;
  const ending = this.download.split(".").pop();
  done.files[ending] = (done.files[ending] ?? 0) + 1;
};
// Charts that were saved as SVG.
const saved = [];
window.Blob = new Proxy(Blob, {
  construct(made, [parts, options]) {
    if (options?.type === "image/svg+xml") saved.push(parts.join(""));
    return new made(parts, options);
  },
});
/** What is wrong with a saved chart: its own end, numbers that are none, colours that only the page has. */
function wrongs(words) {
  const svg = new DOMParser().parseFromString(words, "image/svg+xml").documentElement;
  const isWhole = svg.localName === "svg" && !svg.querySelector("parsererror") && svg.querySelectorAll("path, circle, rect").length > 2 && svg.querySelector("text");
  const odd = /NaN|Infinity|undefined|var\(/.exec(words)?.[0];
  return isWhole && !odd ? [] : [odd ?? "no picture", words.slice(0, 200)];
}
const rest = (ms = 5) => new Promise((then) => setTimeout(then, ms));
/** Whether something becomes true soon: on a busy machine it takes its time. */
const becomes = async (is) => {
  for (let i = 0; i < 200 && !is(); i++) await rest();
  return Number(is());
};
const isSeen = (part) => part.getClientRects().length > 0;
const all = (selector) => [...document.querySelectorAll(selector)].filter(isSeen);
const mouse = (over, type, x) => {
  const box = over.getBoundingClientRect();
  (type === "mouseup" ? document : over).dispatchEvent(new MouseEvent(type, { bubbles: true, button: 0, movementX: 9, clientX: box.left + x * box.width, clientY: box.top + box.height / 2 }));
};
(async () => {
  await rest(50);
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  await rest(30);
  for (let i = 0; i < all(".u-over").length; i++) {
    const over = () => all(".u-over")[i];
    done.plots++;
    mouse(over(), "mouseenter", 0.4); mouse(over(), "mousemove", 0.4);
    done.tips += await becomes(() => all(".tip").length > 0);
    const chart = over().closest("[role=application]");
    chart.focus();
    document.querySelector("#spoken")?.replaceChildren();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "ArrowUp"]) chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    for (let i = 0; i < 49 && !document.querySelector("#spoken")?.textContent; i++) chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    done.spoken += document.activeElement === chart && /\d/.test(document.querySelector("#spoken")?.textContent ?? "");
    chart.blur();
    const place = over().closest(".chart-place");
    const beside = (place?.group?.places ?? []).filter(({ chart }) => chart.x_label === place.chart.x_label);
    const spans = () => beside.map(({ plot }) => plot.scales.x.max - plot.scales.x.min);
    const whole = spans();
    // A stretch that holds all values is the whole chart, as where all are alike.
    const at = (share) => place.plot.posToVal(share * place.plot.over.clientWidth, "x");
    const holdsAll = place && [place.plot.data[0][0], place.plot.data[0].at(-1)].every((x) => (x - at(0.3)) * (x - at(0.7)) <= 0);
    mouse(over(), "mousedown", 0.3); mouse(over(), "mousemove", 0.7); mouse(over(), "mouseup", 0.7);
    // A chart that is zoomed takes those with the same lines over the same axis along.
    const isZoomed = () => all("#unzoom").length > 0 || (Boolean(place) && spans().every((span, k) => span < 0.9 * whole[k]));
    const isStill = Boolean(place?.chart.names || over().closest("#cdf") || holdsAll);
    if (isStill) done.bars++;
    else done.zooms += await becomes(isZoomed);
    if (all("#unzoom").length) all("#unzoom")[0].click(); else over().dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    await rest(20);
  }
  for (let i = 0; i < all("main select").length; i++) {
    const first = all("main select")[i].value;
    for (const value of [...[...all("main select")[i].options].map((option) => option.value), first]) {
      const select = all("main select")[i];
      select.value = value;
      select.dispatchEvent(new Event("change"));
      done.options++;
      await rest();
    }
  }
  // Twice each, so that what was hidden is shown again.
  for (let i = 0; i < all("main button, main input").length; i++) for (let twice = 0; twice < 2; twice++) {
    all("main button, main input")[i]?.click();
    done.buttons++;
    await rest();
  }
  // With nothing left to show.
  for (let i = 0; i < all("#legend button").length; i++) { all("#legend button")[i].click(); await rest(); }
  await rest(150);
  // Pictures take real time, of which a busy machine has little.
  for (let i = 0; i < 200 && (done.files.png ?? 0) < (done.files.svg ?? 0); i++) await rest(20);
  const isOutside = ({ name }) => !/^(data|blob):/.test(name);
  done.requests = performance.getEntriesByType("resource").filter(isOutside).map(({ name }) => name);
  done.wrong = saved.flatMap(wrongs);
  done.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  cellpace.did = done;
  document.documentElement.dataset.cellpace = JSON.stringify(cellpace);
})();
