"use strict";
// Draws the charts of the data in the page, one below the other.
(() => {
  const told = window.cellpace = { drawn: 0, errors: [] };
  window.addEventListener("error", (event) => { told.errors.push(String(event.message)); });
  const charts = JSON.parse(document.getElementById("data").textContent);
  const home = document.getElementById("charts");
  let plots = [];

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function drawAll() {
    plots.forEach((plot) => plot.destroy());
    plots = [];
    home.replaceChildren();
    charts.forEach(draw);
    told.drawn = plots.length;
  }

  function draw(chart) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const section = element("section");
    const heading = element("h2", chart.title + " ");
    heading.append(element("small", chart.unit));
    const place = element("div", "", "chart");
    section.append(heading, place);
    if (chart.note) section.append(element("p", chart.note, "note"));
    home.append(section);
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid") }, ticks: { stroke: colour("--rule") } };
    const lines = chart.lines.map((line, index) => ({
      label: line.name, stroke: colour(`--c${index % 8}`), width: 1.5, points: { show: chart.x.length < 60 },
      ...(chart.bars ? { paths: uPlot.paths.bars({ size: [0.8, 60] }), fill: colour(`--c${index % 8}`) + "55" } : {}),
    }));
    plots.push(new uPlot({
      width: home.clientWidth, height: 260,
      scales: { x: { time: false, distr: chart.log_x ? 3 : 1 }, y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * 1.06 : 1] } },
      series: [{ label: chart.x_label }, ...lines],
      axes: [{ ...axis, label: chart.x_label, labelSize: 20, stroke: colour("--soft") }, axis],
    }, [chart.x, ...chart.lines.map((line) => line.y)], place));
  }

  drawAll();
  let width = home.clientWidth;
  window.addEventListener("resize", () => {
    if (home.clientWidth === width) return;
    width = home.clientWidth;
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
