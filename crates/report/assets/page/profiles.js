// Learnt delay profiles.

function drawProfiles(timed) {
  const runs = timed.filter((run) => run.series.profiles.length && !state.hidden.has(run.cc));
  one("#profiles").hidden = !timed.some((run) => run.series.profiles.length);
  told.drawn.profiles = 0;
  one("#profiles .panels").replaceChildren(...runs.map((run) => {
    const grid = element("div", { class: "grid-of-panels" });
    const part = element("div", {}, element("h3", {}, dot(run.cc), " ", data.controllers[run.cc]), grid);
    grid.append(...run.series.profiles.map((_, i) => element("div", { "data-panel": i })));
    return part;
  }));
  // The panels' width is known only once they are in the page.
  runs.forEach((run, i) => {
    const grid = one("#profiles .panels").children[i].lastChild;
    const width = Math.max(120, Math.floor(grid.firstChild?.clientWidth || 230));
    run.series.profiles.forEach((chart, k) => grid.children[k].append(chartSvg(chart, { width, height: Math.round(Math.min(190, width * 0.85)), isSmall: true })));
    told.drawn.profiles += run.series.profiles.length;
  });
}
