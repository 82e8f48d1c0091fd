// Charts as files: SVG and PNG, drawn by still.js whatever the page shows.

/** Puts two buttons beside the heading of a chart. `find` gives its title and its drawing as it is now; null: there is none. */
function offerFiles(head, find) {
  if (one(".files", head)) return;
  const button = (ending, make) => {
    const made = element("button", { type: "button", title: `Save this chart as ${ending.toUpperCase()}` }, ending.toUpperCase());
    made.addEventListener("click", () => {
      const found = find();
      if (found) make(fileText(captioned(found.drawing)), fileName(`${document.title} ${found.title}`, ending));
    });
    return made;
  };
  head.append(element("span", { class: "files" }, button("svg", (drawn, name) => save(name, drawn, "image/svg+xml")), button("png", savePng)));
}

/** A chart as a drawing of its own. */
const drawingOf = (chart, size) => ({ title: chart.title, drawing: chartSvg(chart, { ...size, isFile: true }) });

/** What a plot shows now: zoomed as it is, in its size. */
function shownBy(plot) {
  if (!plot) return null;
  const { min, max } = plot.scales.x;
  return drawingOf(plot.chart.names ? plot.chart : { ...plot.chart, x_range: [min, max] }, { width: plot.width, height: plot.height });
}

/** The conditions as the page has them, in a line. */
const conditionsInWords = () => [...document.querySelectorAll("#conditions div")].map((pair) => [...pair.children].map((part) => part.textContent).join(" ")).join(", ");

const CAPTION = 18; // px

/** A drawing with the conditions below it: whoever has the file alone has them, too. */
function captioned(drawing) {
  const words = conditionsInWords();
  if (!words) return drawing;
  const copy = drawing.cloneNode(true);
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("viewBox", [x, y, width, height + CAPTION].join(" "));
  if (copy.hasAttribute("height")) copy.setAttribute("height", Number(copy.getAttribute("height")) * (height + CAPTION) / height);
  copy.append(text(x + 6, y + height + 12, shortened(words, Math.floor(width / 6.5)), { class: "caption" }));
  return copy;
}

/** The content of a file of its own. */
const fileText = (drawing) => new XMLSerializer().serializeToString(standalone(drawing));

/** An SVG of the page with the styles that it has there. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const style = getComputedStyle(document.documentElement);
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule.selectorText?.startsWith("svg") || (svg.matches(".heat") && /^\.[hf]\d+$/.test(rule.selectorText)));
  const words = rules.map((rule) => rule.cssText.replaceAll(/^svg(\.heat)? /g, "")).join("\n");
  const resolve = (css) => css.replaceAll(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  copy.prepend(element("style", {}, resolve(words)));
  for (const part of copy.querySelectorAll("stop")) part.setAttribute("stop-color", resolve(part.getAttribute("stop-color") ?? ""));
  copy.setAttribute("xmlns", SVG);
  copy.insertBefore(shape("rect", { width: "100%", height: "100%", fill: style.getPropertyValue("--ground").trim() }), copy.children[1] ?? null);
  return copy;
}

const savePng = (drawn, name, scale = 2) => pngOf(drawn, (blob) => blob && save(name, blob), scale);

/** Gives `then` the picture of a drawing, `scale` pixels for each of its own. */
function pngOf(drawn, then, scale) {
  const picture = new Image();
  picture.onload = () => {
    const canvas = element("canvas", { width: picture.naturalWidth * scale, height: picture.naturalHeight * scale });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(then);
  };
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawn);
}
