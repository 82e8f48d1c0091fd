// Charts as files: SVG and PNG of whatever is drawn, by uPlot or as SVG.

/** Puts two buttons beside the heading of a chart. `find` gives the uPlot or the SVG that is there now. */
function offerFiles(head, title, find) {
  if (one(".files", head)) return;
  const button = (ending, make) => {
    const made = element("button", { type: "button", title: `Save this chart as ${ending.toUpperCase()}` }, ending.toUpperCase());
    made.addEventListener("click", () => make(find(), fileName(`${document.title} ${title}`, ending)));
    return made;
  };
  head.append(element("span", { class: "files" },
    button("svg", (drawn, name) => drawn && save(name, svgText(drawn, title), "image/svg+xml")),
    button("png", (drawn, name) => drawn && savePng(drawn, title, name))));
}

const svgText = (drawn, title) => new XMLSerializer().serializeToString(drawn instanceof SVGElement ? standalone(drawn) : svgOfPlot(drawn, title));

/** An SVG of the page with the styles that it has there. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const style = getComputedStyle(document.documentElement);
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule.selectorText?.startsWith("svg"));
  const words = rules.map((rule) => rule.cssText.replaceAll(/^svg(\.heat)? /g, "")).join("\n");
  const resolve = (css) => css.replaceAll(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  copy.prepend(element("style", {}, resolve(words)));
  for (const part of copy.querySelectorAll("stop")) part.setAttribute("stop-color", resolve(part.getAttribute("stop-color") ?? ""));
  copy.setAttribute("xmlns", SVG);
  copy.insertBefore(shape("rect", { width: "100%", height: "100%", fill: style.getPropertyValue("--ground").trim() }), copy.children[1] ?? null);
  return copy;
}

/** The same lines, axes and names as on the canvas. */
function svgOfPlot(plot, title) {
  const colours = pageColours();
  const ratio = plot.pxRatio ?? devicePixelRatio;
  const [left, top, width, height] = ["left", "top", "width", "height"].map((side) => plot.bbox[side] / ratio);
  const shown = plot.series.map((series, k) => [series, k]).slice(1).filter(([series]) => series.show !== false);
  const above = 26 + 18 * Math.ceil(shown.length / 3);
  const svg = shape("svg", { xmlns: SVG, width: plot.width, height: plot.height + above, viewBox: `0 ${-above} ${plot.width} ${plot.height + above}`, "font-family": "Helvetica,Arial,sans-serif", "font-size": 12 });
  svg.append(shape("rect", { y: -above, width: "100%", height: "100%", fill: colours.ground }), text(left, 16 - above, [title, plot.chart.unit].filter(Boolean).join(", "), { fill: colours.text, "font-weight": "bold" }));
  if (plot.chart.x_label) svg.append(text(left + width / 2, plot.height - 4, plot.chart.x_label, { fill: colours.soft, "text-anchor": "middle" }));
  const stroke = ([series, k]) => typeof series.stroke === "function" ? series.stroke(plot, k) : series.stroke;
  shown.forEach(([series, k], place) => {
    const [x, y] = [left + (place % 3) * (width / 3), 36 - above + 18 * Math.floor(place / 3)];
    svg.append(shape("line", { x1: x, x2: x + 22, y1: y - 4, y2: y - 4, stroke: stroke([series, k]), "stroke-width": 2, "stroke-dasharray": (series.dash ?? []).join(" ") }), text(x + 28, y, series.label, { fill: colours.text }));
  });
  for (const [axis, isBelow] of [[plot.axes[0], true], [plot.axes[1], false]]) {
    (axis._splits ?? []).forEach((split, i) => {
      const place = plot.valToPos(split, isBelow ? "x" : "y") + (isBelow ? left : top);
      svg.append(shape("line", isBelow ? { x1: place, x2: place, y1: top, y2: top + height, stroke: colours.grid } : { x1: left, x2: left + width, y1: place, y2: place, stroke: colours.grid }));
      const words = axis._values?.[i];
      if (words) svg.append(text(isBelow ? place : left - 6, isBelow ? top + height + 16 : place + 4, words, { fill: colours.soft, "text-anchor": isBelow ? "middle" : "end" }));
    });
  }
  svg.append(shape("clipPath", { id: "frame" }));
  svg.lastChild.append(shape("rect", { x: left, y: top, width, height }));
  const inside = shape("g", { "clip-path": "url(#frame)" });
  svg.append(inside);
  const x = (value) => plot.valToPos(value, "x") + left;
  const y = (value) => plot.valToPos(value, "y") + top;
  for (const [, k] of shown) {
    const line = plot.chart.lines[k - 1];
    const points = plot.data[0].map((at, i) => known(plot.data[k][i]) ? [x(at), y(plot.data[k][i])] : plot.data[k][i]).filter((point) => point !== undefined);
    for (const [from, to, low, high] of line.spread ?? []) inside.append(shape("rect", { x: x(from), y: y(high), width: x(to) - x(from), height: y(low) - y(high), fill: colour(line.look ?? k - 1), "fill-opacity": 0.2 }));
    inside.append(...shapesOf(plot.chart, line, k - 1, points, top + height));
  }
  return svg;
}

/** A line in its form; `null` among the points is a gap. */
function shapesOf({ names, form }, line, index, points, foot) {
  const at = line.look ?? index;
  const own = colour(at);
  const found = points.filter(known);
  if (line.hollow) return found.map(([cx, cy]) => shape("circle", { cx, cy, r: 4.5, fill: "none", stroke: own, "stroke-width": 2 }));
  if (form === "marks" || form === "regions") return found.map(([x, y]) => markerAt(at, x, y, 4.4));
  if (names) {
    const width = Math.min(40, 0.85 * lowest(found.slice(1).map(([x], i) => x - found[i][0])) || 40);
    return found.map(([x, y]) => shape("rect", { x: x - width / 2, y, width, height: Math.max(0, foot - y), fill: own }));
  }
  // What is level over a bin turns between the middles of bins, stairs at their places.
  const step = line.area ? ([x, y], [before]) => `H${((x + before) / 2).toFixed(1)}V${y.toFixed(1)}H${x.toFixed(1)}` : form === "stairs" || form === "steps" ? ([x, y]) => `H${x.toFixed(1)}V${y.toFixed(1)}` : ([x, y]) => `L${x.toFixed(1)} ${y.toFixed(1)}`;
  const d = points.map((point, i) => !point ? "" : points[i - 1] ? step(point, points[i - 1]) : `M${point[0].toFixed(1)} ${point[1].toFixed(1)}`).join("");
  const outline = shape("path", { d, fill: "none", stroke: line.area ? colours.edge : line.pale ? own + "40" : own, "stroke-width": 1.5, "stroke-linejoin": "round", "stroke-dasharray": form === "stack" || line.area ? "" : look(at).dashes.join(" ") });
  const isFilled = line.area || form === "stack" || form === "steps";
  if (!isFilled || !found.length) return [outline];
  const fill = shape("path", { d: `${d}V${foot}H${found[0][0].toFixed(1)}Z`, fill: line.area ? colours.area : own, ...(form === "steps" ? { "fill-opacity": 0.2 } : {}) });
  return [fill, outline];
}

function savePng(drawn, title, name) {
  const picture = new Image();
  picture.onload = () => {
    const scale = 2;
    const canvas = element("canvas", { width: picture.naturalWidth * scale, height: picture.naturalHeight * scale });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => blob && save(name, blob));
  };
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(drawn, title));
}
