// Draws what the page shows of results that are no comparison: facts, charts, pictures, tables.
(() => {
  const told = window.cellpace = { drawn: {}, charts: 0, errors: [] };
  const show = () => document.documentElement.classList.add("drawn");
  const publish = () => { document.documentElement.dataset.cellpace = JSON.stringify(told); };
  window.addEventListener("error", (event) => { told.errors.push(String(event.message)); show(); publish(); });

  const { index, sections, looks: all, names, made_by: madeBy } = JSON.parse(document.getElementById("sections-data").textContent);
  looks = looksFor(names, all);
  const home = document.getElementById("sections");

  /** Words that have a colour. */
  const VERDICTS = new Set(["pass", "fail"]);
  /** A table of more rows is searched and sorted. */
  const LONG_TABLE = 20;
  /** What the axis of charts of packets over time says. */
  const OVER_TIME = "time [s]";
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
    section.rows = tables.flatMap((each) => [...each.querySelectorAll("tbody tr")]);
    const shown = section.folds_tables ? [element("details", { class: "tables" }, element("summary", {}, "Tables"), ...tables)] : tables;
    section.sequence = section.sequences ? sequencePart(section.sequences, section.of_runs) : null;
    const matrix = section.matrix ? [matrixPart(section.matrix)] : [];
    return [...choiceOfResults(section), ...matrix, ...charts(section), ...(section.sequence ? [section.sequence.section] : []), ...maps, ...shown];
  }

  /** Which of the results that stand side by side are shown. */
  function choiceOfResults(section) {
    section.hidden = new Set();
    if (!section.results) return [];
    const choice = section.results.map((name, at) => {
      const box = element("input", { type: "checkbox", checked: "" });
      box.addEventListener("change", () => {
        box.checked ? section.hidden.delete(at) : section.hidden.add(at);
        // Something is always shown.
        if (section.hidden.size === section.results.length) {
          section.hidden.delete(at);
          box.checked = true;
        }
        showResults(section);
      });
      return element("label", {}, box, " ", name);
    });
    return [element("fieldset", { class: "results" }, element("legend", {}, "Compared"), ...choice)];
  }

  function showResults(section) {
    const hidden = new Set([...section.hidden].map((at) => section.results[at]));
    section.rows.forEach((row) => { row.hidden = hidden.has(row.firstChild.textContent); });
    drawAll();
    publish();
  }

  /** Charts with the same lines have one legend, which hides a line in all of them. */
  function charts(section) {
    const all = section.charts;
    const names = all.map((chart) => JSON.stringify([chart.names && 1, chart.form, chart.lines.map((line) => line.name)]));
    const isShared = all.length > 1 && all[0].lines.length > 1 && new Set(names).size === 1;
    const shared = { legend: element("div", { class: "legend", role: "group", "aria-label": "Lines shown" }), hides: new Set(), places: [] };
    const parts = all.map((chart) => chartPlace(chart, section, isShared ? shared : { hides: new Set(), places: [] }));
    return isShared ? [shared.legend, ...parts] : parts;
  }

  function chartPlace(chart, section, group) {
    const place = element("div", { class: "chart-place" });
    // A line keeps its look when others are hidden.
    const places = sums(chart.lines.map((line) => line.area ? 0 : 1));
    chart.lines = chart.lines.map((line, at) => ({ ...line, look: line.look ?? Math.max(0, places[at] - 1) }));
    Object.assign(place, { chart, section, group });
    group.places.push(place);
    const own = !group.legend && chart.lines.length > 1 ? [group.legend = element("div", { class: "legend", role: "group", "aria-label": "Lines shown" })] : [];
    const alone = chart.lines.length === 1 && chart.lines[0].name !== chart.title ? chart.lines[0].name : "";
    return element("section", {}, head("h3", chart.title, [alone, chart.unit].filter(Boolean).join(", ")), ...own, place, ...note(chart.note));
  }

  /** Controllers against conditions, one figure at a time. */
  function matrixPart({ controllers: names, conditions }) {
    const title = "Controllers and conditions";
    const place = element("table", {});
    const figures = Object.entries(FIGURES).filter(([key]) => conditions[0].figures[key]);
    const pick = element("select", {}, ...figures.map(([key, words]) => element("option", { value: key }, words)));
    let sortedBy = 0;
    const fill = () => fillMatrix(place, {
      what: "Condition", names, figure: pick.value, sortedBy, sortBy: (key) => { sortedBy = key; fill(); },
      conditions: conditions.map(({ figures, ...condition }) => ({ ...condition, values: figures[pick.value] })),
    });
    pick.addEventListener("change", fill);
    place.fill = fill;
    const heading = head("h3", title);
    heading.append(element("label", {}, "shown ", pick));
    return element("section", { class: "matrix" }, heading, element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, place),
      ...note("The more colour, the better under its condition, by rank; bold: best. Delays have geometric means. A heading sorts by its figures, and $ shows the command line that runs a condition again."));
  }

  function picture(map) {
    const place = element("div", { class: "scroll", tabindex: 0 }, heatSvg(map));
    const heading = head("h3", map.title);
    offerFiles(heading, () => ({ title: map.title, drawing: place.firstElementChild }));
    return element("section", {}, heading, place, ...note(map.note));
  }

  /** Leads to pages beside this one and to parts of it, and nowhere else. */
  function link(address, words) {
    return /^([\w-][\w.-]*\.html)?(#[\w.-]+)?$/.test(address) ? element("a", { href: address }, words) : words;
  }

  function table({ title, header, rows, links = [], commands = [], note: text }) {
    const isNumber = (column) => rows.every((row) => /^([-–]|$|[-+]?[\d.,]+([eE][-+]?\d+)?( ?[%A-Za-zµ/]+)?( \*)?$)/.test(row[column] ?? ""));
    const classes = header.map((_, column) => column > 0 && isNumber(column) ? {} : { class: "word" });
    const looks = (cell, column) => VERDICTS.has(cell) ? { class: `word ${cell}` } : cell.length > 28 ? { class: "word long" } : classes[column];
    const cells = (name, row, address) => element("tr", {}, ...row.map((cell, column) => element(name, { ...looks(cell, column), ...(name === "td" ? { "data-name": header[column] } : {}) }, !column && address ? link(address, cell) : cell)));
    const shape = header.length > 8 || (rows.flat().some((cell) => cell.length > 28) && header.length > 2) ? "narrow cards" : "narrow";
    const isLong = rows.length > LONG_TABLE;
    const made = element("table", { class: shape }, element("thead", {}, cells("th", header)), element("tbody", {}, ...rows.map((row, at) => cells("td", row, links[at]))));
    if (commands.some(Boolean)) [...made.rows].forEach((row, at) => row.append(at ? commandCell(commands[at - 1], rows[at - 1][0]) : element("th", { class: "word command" }, "again")));
    const heading = head("h3", title);
    if (isLong) heading.append(searchOf(made, heading.firstChild, rows.length));
    if (isLong) sortable(made);
    return element("section", {}, heading, element("div", { class: isLong ? "scroll tall" : "scroll", tabindex: 0, role: "region", "aria-label": title }, made), ...note(text));
  }

  /** The command line that does a row again, folded. */
  function commandCell(command, name) {
    const code = element("code", {}, command);
    return element("td", { class: "word command", "data-name": "again" }, ...(command ? [unfolding(code, name), code] : []));
  }

  /** A field that leaves the rows that hold its words. */
  function searchOf(made, title, count) {
    const many = element("small", {}, String(count));
    title.append(many);
    const field = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...made.tBodies[0].rows];
      rows.forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); });
      const shown = rows.filter((row) => !row.hidden).length;
      many.textContent = shown === count ? String(count) : `${shown} of ${count}`;
    });
    return element("label", {}, "Search ", field);
  }

  const UNIT_SIZES = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

  /** What a cell is sorted by: its number with its unit, or its words. */
  function sortKey(words) {
    const found = /^([-+]?[\d.]+(?:[eE][-+]?\d+)?)(?: (B|kB|MB|GB|TB|%|\*))?$/.exec(words);
    return found ? Number(found[1]) * (UNIT_SIZES[found[2]] ?? 1) : words;
  }

  /** Headings sort by their column, the largest first, then the other way round. */
  function sortable(made) {
    const headings = [...made.tHead.rows[0].cells];
    headings.forEach((cell, column) => {
      const button = element("button", { type: "button" }, cell.textContent);
      cell.replaceChildren(button);
      cell.setAttribute("scope", "col");
      button.addEventListener("click", () => {
        const isRising = cell.getAttribute("aria-sort") === "descending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", isRising ? "ascending" : "descending");
        const keyed = [...made.tBodies[0].rows].map((row) => [sortKey(row.cells[column]?.textContent ?? ""), row]);
        const order = ([a], [b]) => typeof a === "number" && typeof b === "number" ? a - b : (typeof a === "string") - (typeof b === "string") || String(a).localeCompare(String(b), undefined, { numeric: true });
        keyed.sort((a, b) => isRising ? order(a, b) : order(b, a));
        made.tBodies[0].append(...keyed.map(([, row]) => row));
      });
    });
  }

  function drawAll() {
    colours = pageColours();
    const places = [...home.querySelectorAll(".chart-place:not(.sequence)")];
    places.forEach((place) => { place.plot?.destroy(); draw(place); });
    home.querySelectorAll(".matrix table").forEach((place) => place.fill());
    sections.forEach((section) => section.sequence?.draw());
    told.charts = home.querySelectorAll(".chart-place").length;
  }

  function draw(place) {
    const { chart, section, group: { legend, hides, places } } = place;
    const isCompared = (line) => !section.hidden.has(line.result ?? 0);
    const lines = chart.lines.map((line, index) => ({ ...line, hidden: hides.has(index) || !isCompared(line) }));
    const redraw = () => places.forEach((each) => { each.plot.destroy(); draw(each); });
    const entry = (line, index) => [line.look, line.name, { key: index, form: line.hollow ? "hollow" : line.area ? "area" : chart.names ? "bars" : chart.form }];
    if (legend && place === places[0]) fillLegend(legend, lines.map(entry).filter((_, at) => isCompared(lines[at])), hides, redraw);
    const plot = drawChart(place, { ...chart, lines }, chart.names ? {} : { sync: `${section.title} ${chart.x_label}`, opens: opening(section, chart) });
    offerFiles(one(".head", place.closest("section")), (size) => shownBy(place.plot, size));
  }

  /** Opens the packets of the flow, or of the first flow of the run, that a line over time is of. */
  function opening({ sequence, sequences }, chart) {
    if (!sequence || chart.x_label !== OVER_TIME) return undefined;
    return ({ name, result = 0 }, at) => {
      const own = sequences.filter((each) => each.result === result);
      const found = own.find((each) => each.name === name) ?? own.find(({ run }) => new RegExp(`\\brun ${run}:`).test(name)) ?? own[0];
      sequence.open((each) => each === found, at);
    };
  }

  // Paper has no way to open them.
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  // Charts are drawn in colours, which paper has others of than a dark screen.
  const drawFor = (isPaper) => { document.documentElement.classList.toggle("paper", isPaper); drawAll(); };
  if (matchMedia("(prefers-color-scheme: dark)").matches) {
    window.addEventListener("beforeprint", () => drawFor(true));
    window.addEventListener("afterprint", () => drawFor(false));
  }
  if (sections.some((section) => section.maps.length)) document.head.append(element("style", {}, heatStyle()));
  home.append(...sections.map(part));
  if (sections[0]?.first) one("#comparison").before(home);
  if (index) {
    const place = document.getElementById("index");
    const many = index.files.rows.length > 12;
    const leftOut = index.left_out ? `, ${index.left_out.rows.length} left out` : "";
    const list = element("details", many ? {} : { open: "" }, element("summary", {}, `${index.files.rows.length} files${leftOut}`), table(index.files), ...(index.left_out ? [table(index.left_out)] : []));
    place.append(list);
    place.hidden = false;
  }
  document.getElementById("made-by").append(...facts(madeBy));
  showEmbedded();
  drawAll();
  if (told.charts) offerCard();
  let width = home.clientWidth;
  window.addEventListener("resize", () => {
    if (home.clientWidth === width) return;
    width = home.clientWidth;
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  one("#hint").hidden = !document.getElementById("data").textContent.startsWith("{") && !told.charts;
  show();
  setTimeout(() => {
    told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    told.tables = home.querySelectorAll("table.narrow").length;
    told.maps = [...home.querySelectorAll("svg.heat")].map(heatSeen);
    told.cut = [...home.querySelectorAll("th, td, h2, h3, dd")].filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth).map((part) => part.textContent.slice(0, 40));
    told.headings = [...document.querySelectorAll("h1, h2")].filter((part) => part.getClientRects().length).map((part) => part.textContent);
    told.links = [...home.querySelectorAll("a")].map((part) => part.getAttribute("href"));
    told.done = true;
    publish();
  }, 0);
})();
