// Draws what the page shows of results that are no comparison: facts, charts, pictures, tables.
(() => {
  const told = window.cellpace = { drawn: {}, charts: 0, errors: [] };
  const show = () => document.documentElement.classList.add("drawn");
  const publish = () => { document.documentElement.dataset.cellpace = JSON.stringify(told); };
  window.addEventListener("error", (event) => { told.errors.push(String(event.message)); show(); publish(); });

  const { sections, made_by: madeBy } = JSON.parse(document.getElementById("sections-data").textContent);
  const home = document.getElementById("sections");
  const MARGIN = 1.06;
  let plots = [];

  const note = (text) => text ? [element("p", { class: "note" }, text)] : [];
  const facts = (pairs) => pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  const head = (level, title, unit) => element("div", { class: "head" }, element(level, {}, title, ...(unit ? [element("small", {}, unit)] : [])));

  /** The only section of a page has its title, sentence and facts in the page's head. */
  function part(section) {
    if (section.alone) {
      document.getElementById("conditions").replaceChildren(...facts(section.facts));
      return element("div", {}, ...body(section));
    }
    const sentence = section.sentence ? [element("p", { class: "sentence" }, section.sentence)] : [];
    const badge = section.badge ? [" ", element("span", { class: "badge", "data-verdict": section.badge.split(",")[0] }, section.badge)] : [];
    const text = section.text ? [element("p", { class: "more" }, section.text)] : [];
    return element("div", { class: "part", ...(section.id ? { id: section.id } : {}) }, element("h2", { class: "part-title" }, section.title, ...badge), ...sentence,
      element("dl", { class: "conditions" }, ...facts(section.facts)), ...text, ...body(section));
  }

  function body(section) {
    const maps = section.maps.length ? [element("div", { class: "maps" }, ...section.maps.map(picture))] : [];
    const tables = section.tables.map(table);
    const shown = section.folds_tables ? [element("details", { class: "tables" }, element("summary", {}, "Tables"), ...tables)] : tables;
    return [...section.charts.map(chartPlace), ...maps, ...shown];
  }

  function chartPlace(chart) {
    const place = element("div", { class: "chart-place" });
    place.chart = chart;
    return element("section", {}, head("h3", chart.title, chart.unit), place, ...note(chart.note));
  }

  function picture({ title, svg, note: text }) {
    const place = element("div", { class: "scroll", tabindex: 0 });
    // Made by the program, which has escaped the names in it.
    place.innerHTML = svg;
    return element("section", {}, head("h3", title), place, ...note(text));
  }

  /** Leads to pages beside this one and to parts of it, and nowhere else. */
  function link(address, words) {
    return /^([\w-][\w.-]*\.html)?(#[\w.-]+)?$/.test(address) ? element("a", { href: address }, words) : words;
  }

  function table({ title, header, rows, links = [], note: text }) {
    const isNumber = (column) => rows.every((row) => /^([-–]|$|[-+]?[\d.,]+([eE][-+]?\d+)?( ?[%A-Za-zµ/]+)?$)/.test(row[column] ?? ""));
    const classes = header.map((_, column) => column > 0 && isNumber(column) ? {} : { class: "word" });
    const looks = (cell, column) => cell.length > 28 ? { class: "word long" } : classes[column];
    const cells = (name, row, address) => element("tr", {}, ...row.map((cell, column) => element(name, { ...looks(cell, column), ...(name === "td" ? { "data-name": header[column] } : {}) }, !column && address ? link(address, cell) : cell)));
    const shape = rows.flat().some((cell) => cell.length > 28) && header.length > 2 ? "narrow cards" : "narrow";
    return element("section", {}, head("h3", title), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      element("table", { class: shape }, element("thead", {}, cells("th", header)), element("tbody", {}, ...rows.map((row, at) => cells("td", row, links[at]))))), ...note(text));
  }

  function drawAll() {
    plots.forEach((plot) => plot.destroy());
    plots = [...home.querySelectorAll(".chart-place")].map(draw);
    told.charts = plots.length;
  }

  function draw(place) {
    const chart = place.chart;
    place.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid") }, ticks: { stroke: colour("--rule") } };
    const shared = uPlot.join(chart.lines.map((line) => [line.x, line.y]), chart.lines.map(() => [2]));
    const ground = colour("--ground");
    const colourOf = (line, index) => colour(`--c${(line.look ?? index) % 8}`);
    const isFilled = chart.form === "marks" || chart.form === "regions";
    const lines = chart.lines.map((line, index) => ({
      label: line.name, stroke: colourOf(line, index), width: 1.5, points: { show: line.x.length < 60 && chart.form !== "stairs" },
      // What another result has no place for is no gap.
      spanGaps: false,
      ...(isFilled ? { paths: () => null, points: { show: true, size: 7, width: 1.5, fill: colourOf(line, index) } } : {}),
      ...(chart.names ? { paths: uPlot.paths.bars({ size: [0.85, 40] }), fill: colourOf(line, index), points: { show: false } } : {}),
      ...(chart.form === "stairs" ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      ...(chart.form === "steps" ? { paths: uPlot.paths.stepped({ align: 1 }), fill: colourOf(line, index) + "33", points: { show: false } } : {}),
      // What another source prints.
      ...(line.hollow ? { paths: () => null, fill: null, points: { show: true, size: 9, width: 2, fill: ground } } : {}),
    }));
    const range = (given) => given ? { range: given } : {};
    const place_x = chart.names ? { range: [-0.6, chart.names.length - 0.4] } : range(chart.x_range);
    const linear = { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * MARGIN : 1] };
    offerFiles(place.previousElementSibling, chart.title, () => place.plot);
    place.plot = new uPlot({
      width: place.clientWidth, height: 260,
      scales: { x: { time: false, distr: chart.log_x ? 3 : 1, ...place_x }, y: chart.y_range ? { distr: chart.log_y ? 3 : 1, ...range(chart.y_range) } : chart.log_y ? { distr: 3 } : linear },
      hooks: { drawClear: [(plot) => chart.lines.forEach((line, index) => drawRegions(plot, line, colourOf(line, index)))] },
      legend: { live: !chart.names && !isFilled },
      series: [{ label: chart.x_label }, ...lines],
      axes: [{ ...axis, label: chart.x_label, labelSize: 20, ...(chart.names ? named(chart.names) : {}) }, { ...axis, size: 56 }],
    }, shared, place);
    return place.plot;
  }

  /** The regions around the marks of a line: from least to most on both axes. */
  function drawRegions({ ctx, bbox, valToPos }, line, colour) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [left, right, low, high] of line.spread ?? []) {
      const [x, y] = [valToPos(left, "x", true), valToPos(high, "y", true)];
      const sides = [x, y, valToPos(right, "x", true) - x, valToPos(low, "y", true) - y];
      ctx.fillStyle = colour + "33";
      ctx.fillRect(...sides);
      ctx.strokeStyle = colour;
      ctx.strokeRect(...sides);
    }
    ctx.restore();
  }

  /** An axis with names at the places 0, 1, ...; short where there is little room. */
  function named(names) {
    const shown = (plot, at) => {
      const room = Math.floor(plot.width / names.length / 8);
      const name = names[at] ?? "";
      return name.length > room ? `${name.slice(0, Math.max(room - 1, 1))}…` : name;
    };
    return { splits: () => names.map((_, at) => at), values: (plot, splits) => splits.map((at) => shown(plot, at)) };
  }

  // Paper has no way to open them.
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  home.append(...sections.map(part));
  document.getElementById("made-by").append(...facts(madeBy));
  drawAll();
  let width = home.clientWidth;
  window.addEventListener("resize", () => {
    if (home.clientWidth === width) return;
    width = home.clientWidth;
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  show();
  setTimeout(() => {
    told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    told.tables = home.querySelectorAll("table.narrow").length;
    told.maps = home.querySelectorAll("svg.heat").length;
    told.cut = [...home.querySelectorAll("th, td, h2, h3, dd")].filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth).map((part) => part.textContent.slice(0, 40));
    told.headings = [...document.querySelectorAll("h1, h2")].filter((part) => part.getClientRects().length).map((part) => part.textContent);
    told.links = [...home.querySelectorAll("a")].map((part) => part.getAttribute("href"));
    told.done = true;
    publish();
  }, 0);
})();
