"use strict";
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

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

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
    return element("div", { class: "part" }, element("h2", { class: "part-title" }, section.title), ...sentence,
      element("dl", { class: "conditions" }, ...facts(section.facts)), ...body(section));
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

  function table({ title, header, rows, note: text }) {
    const isNumber = (column) => rows.every((row) => /^([-–]|$|[-+]?[\d.,]+([eE][-+]?\d+)?( ?[%A-Za-zµ/]+)?$)/.test(row[column] ?? ""));
    const classes = header.map((_, column) => column > 0 && isNumber(column) ? {} : { class: "word" });
    const cells = (name, row) => element("tr", {}, ...row.map((cell, column) => element(name, classes[column], cell)));
    return element("section", {}, head("h3", title), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      element("table", { class: "narrow" }, element("thead", {}, cells("th", header)), element("tbody", {}, ...rows.map((row) => cells("td", row))))), ...note(text));
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
    const lines = chart.lines.map((line, index) => ({
      label: line.name, stroke: colour(`--c${index % 8}`), width: 1.5, points: { show: line.x.length < 60 },
      // What another result has no place for is no gap.
      spanGaps: false,
      ...(chart.marks ? { paths: () => null, points: { show: true, size: 7, width: 1.5 } } : {}),
      ...(chart.names ? { paths: uPlot.paths.bars({ size: [0.85, 40] }), fill: colour(`--c${index % 8}`), points: { show: false } } : {}),
      ...(chart.steps ? { paths: uPlot.paths.stepped({ align: 1 }), fill: colour(`--c${index % 8}`) + "33", points: { show: false } } : {}),
    }));
    const linear = { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * MARGIN : 1] };
    return new uPlot({
      width: place.clientWidth, height: 260,
      scales: { x: { time: false, distr: chart.log_x ? 3 : 1, ...(chart.names ? { range: [-0.6, chart.names.length - 0.4] } : {}) }, y: chart.log_y ? { distr: 3 } : linear },
      series: [{ label: chart.x_label }, ...lines],
      axes: [{ ...axis, label: chart.x_label, labelSize: 20, ...(chart.names ? named(chart.names) : {}) }, { ...axis, size: 56 }],
    }, shared, place);
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
  window.addEventListener("beforeprint", () => home.querySelectorAll("details").forEach((each) => { each.open = true; }));
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
    told.done = true;
    publish();
  }, 0);
})();
