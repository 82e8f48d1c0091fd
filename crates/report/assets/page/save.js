// Charts as files: SVG and PDF as wide as a column of a paper, and PNG as on the screen, drawn by still.js whatever the page shows.

/** A column of a paper in two columns, and how high a chart is in it, in px: letters are then as large as a caption's. */
const COLUMN = { width: 340, height: 200 };

/** Puts buttons beside the heading of a chart. `find` gives its title and its drawing as it is now, in a size where one is asked for;
    null: there is none. */
function offerFiles(head, find) {
  if (one(".files", head)) return;
  const button = (ending, what, size, make) => {
    const made = element("button", { type: "button", title: `Save this chart as ${ending.toUpperCase()}, ${what}` }, ending.toUpperCase());
    const keep = () => {
      const found = find(size);
      if (found) make(captioned(found.drawing), fileName(`${document.title} ${found.title}`, ending));
    };
    // A paper is white.
    made.addEventListener("click", () => size ? inLight(keep) : keep());
    return made;
  };
  head.append(element("span", { class: "files" },
    button("svg", "as wide as a column", COLUMN, (drawing, name) => save(name, fileText(drawing), "image/svg+xml")),
    button("pdf", "as wide as a column", COLUMN, printAlone), button("png", "as on the screen", undefined, (drawing, name) => savePng(fileText(drawing), name))));
}

/** Does something with the colours for a white ground. */
function inLight(what) {
  const before = colours;
  document.documentElement.classList.add("paper");
  colours = pageColours();
  what();
  document.documentElement.classList.remove("paper");
  colours = before;
}

/** Has the browser print nothing but a drawing, on paper of its size. */
function printAlone(drawing, name) {
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  Object.entries({ width, height }).forEach(([side, length]) => drawing.setAttribute(side, length));
  const sheet = element("div", { id: "sheet" }, element("style", {}, `@page { size: ${width}px ${height + 1}px; margin: 0; }`), drawing);
  const title = document.title;
  document.title = name.replace(/\.pdf$/, "");
  document.documentElement.classList.add("one-sheet");
  document.body.append(sheet);
  const clean = () => {
    if (!sheet.isConnected) return;
    sheet.remove();
    document.title = title;
    document.documentElement.classList.remove("one-sheet");
  };
  window.addEventListener("afterprint", clean, { once: true });
  window.print();
  // Where printing does not hold the page up and says nothing at its end.
  setTimeout(clean, 1000);
}

/** A chart as a drawing of its own. */
const drawingOf = (chart, size) => ({ title: chart.title, drawing: chartSvg(chart, { ...size, isFile: true }) });

/** What a plot shows now: zoomed as it is, in its size unless another is asked for. */
function shownBy(plot, size = plot && { width: plot.width, height: plot.height }) {
  if (!plot) return null;
  const { min, max } = plot.scales.x;
  return drawingOf(plot.chart.names ? plot.chart : { ...plot.chart, x_range: [min, max] }, size);
}

/** The conditions as the page has them, in a line. */
const conditionsInWords = () => [...document.querySelectorAll("#conditions div")].map((pair) => [...pair.children].map((part) => part.textContent).join(" ")).join(", ");

const CAPTION = 15; // px a line

/** A drawing with the conditions below it: whoever has the file alone has them, too. */
function captioned(drawing) {
  const words = conditionsInWords();
  // A heat map is the page's own: to print it would take it away.
  const copy = drawing.cloneNode(true);
  if (!words) return copy;
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  const lines = wrapped(words, width - 12, 8);
  const whole = height + CAPTION * lines.length + 4;
  copy.setAttribute("viewBox", [x, y, width, whole].join(" "));
  if (copy.hasAttribute("height")) copy.setAttribute("height", Number(copy.getAttribute("height")) * whole / height);
  copy.append(...lines.map((line, at) => text(x + 6, y + height + CAPTION * at + 12, line, { class: "caption" })));
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
