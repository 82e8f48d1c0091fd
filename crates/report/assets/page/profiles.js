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
    run.series.profiles.forEach((profile, k) => grid.children[k].append(profilePanel(run, profile, width)));
    told.drawn.profiles += run.series.profiles.length;
  });
}

function profilePanel(run, profile, width) {
  const all = run.series.profiles.flatMap((each) => [...each.points, ...each.curve]).filter(([w, d]) => known(w) && known(d));
  const most = [highest(all.map((p) => p[0])) || 1, highest(all.map((p) => p[1])) || 1];
  const height = Math.round(Math.min(190, width * 0.85));
  const box = { left: 36, right: width - 8, top: 22, bottom: height - 32 };
  const x = (packets) => box.left + (box.right - box.left) * packets / (most[0] * 1.03);
  const y = (ms) => box.bottom - (box.bottom - box.top) * ms / (most[1] * 1.05);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Delay profile of ${data.controllers[run.cc]} at ${brief(profile.at)} s` });
  const flow = run.flows.length > 1 ? `, flow ${profile.flow + 1}` : "";
  svg.append(text(box.left, 12, `${brief(profile.at)} s${flow}`, { class: "title" }), text(box.right, 12, "ms", { "text-anchor": "end" }));
  for (const tick of linearTicks(0, most[1] * 1.05, 3)) svg.append(shape("line", { class: tick ? "grid" : "axis", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }), text(box.left - 6, y(tick) + 4, brief(tick), { "text-anchor": "end" }));
  for (const tick of linearTicks(0, most[0] * 1.03, width / 60)) svg.append(text(x(tick), box.bottom + 14, brief(tick), { "text-anchor": "middle" }));
  svg.append(text((box.left + box.right) / 2, height - 4, "window [packets]", { "text-anchor": "middle" }));
  const whole = ([w, d]) => known(w) && known(d);
  const dots = profile.points.filter(whole).map(([w, d]) => `M${x(w).toFixed(1)} ${y(d).toFixed(1)}h0`).join("");
  const line = profile.curve.filter(whole).map(([w, d]) => `${x(w).toFixed(1)} ${y(d).toFixed(1)}`).join("L");
  svg.append(shape("path", { d: dots, stroke: colours.soft, "stroke-width": 3.2, "stroke-linecap": "round", "stroke-opacity": 0.55, fill: "none" }));
  if (line) svg.append(shape("path", { d: "M" + line, stroke: colour(run.cc), "stroke-width": 2.2, "stroke-linejoin": "round", fill: "none", "data-curve": "" }));
  return svg;
}
