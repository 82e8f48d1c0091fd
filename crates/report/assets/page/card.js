// The page in short, to be passed on: a picture of 1200 x 630 with title, sentence, chart and command, and its tables as Markdown.

const CARD = { width: 1200, height: 630 };
const CARD_CHART = { width: 1120, height: 330 };
const CARD_EDGE = 40;

/** Lets the reader have the card. `find` gives the drawing on it; null: the first chart of the page. */
function offerCard(find = () => null) {
  const first = () => shownBy([...document.querySelectorAll(".chart-place, .chart")].find((place) => place.plot)?.plot);
  const card = () => fileText(cardSvg((find() ?? first())?.drawing));
  const said = (words) => { one("#carry [role]").textContent = words; };
  // Some browsers do not let a page write there; then it is saved.
  const copy = (write, orElse) => Promise.resolve().then(write).then(() => said("Copied."), orElse);
  one("#carry").hidden = false;
  const fragment = playgroundFragment(commandLine(), durationWords());
  one("#playground").hidden = fragment === null;
  const toPlayground = () => {
    const back = wayBack(location.pathname.split("/").at(-1) + location.hash);
    one("#playground").href = `playground.html#${fragment}${back ? `&back=${encodeURIComponent(back)}` : ""}`;
  };
  if (fragment !== null) toPlayground();
  // The view may have changed.
  one("#playground").onclick = toPlayground;
  one("#save-card").onclick = () => savePng(card(), fileName(`${document.title} card`, "png"), 1);
  one("#copy-card").onclick = () => copy(
    () => navigator.clipboard.write([new ClipboardItem({ "image/png": new Promise((then) => pngOf(card(), then, 1)) })]), one("#save-card").onclick);
  one("#copy-markdown").onclick = () => copy(
    () => navigator.clipboard.writeText(markdown()), () => save(fileName(document.title, "md"), markdown(), "text/markdown"));
}

/** As an option takes it. */
const durationWords = () => ([...document.querySelectorAll("#conditions dt")].find((name) => name.textContent === "Duration")?.nextSibling.textContent ?? "").replaceAll(" ", "");

const commandLine = () => [...document.querySelectorAll("#made-by dt")].find((name) => name.textContent === "Command")?.nextSibling.textContent ?? "";

function cardSvg(drawing) {
  const command = commandLine();
  const svg = shape("svg", { ...CARD, viewBox: `0 0 ${CARD.width} ${CARD.height}` });
  let y = CARD_EDGE;
  const write = (words, size, most, attributes = {}) => {
    for (const line of wrapped(words, (CARD.width - 2 * CARD_EDGE) * 12 / size, most)) {
      y += Math.round(1.3 * size);
      svg.append(text(CARD_EDGE, y - 8, line, { style: `font-size: ${size}px`, ...attributes }));
    }
  };
  write(document.title, 34, 1, { class: "title" });
  write(one("#sentence").textContent, 22, 3);
  if (drawing) {
    const place = drawing.cloneNode(true);
    const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
    const room = { width: CARD.width - 2 * CARD_EDGE, height: CARD.height - y - 80 };
    const scale = Math.min(room.width / width, room.height / height);
    Object.entries({ x: (CARD.width - scale * width) / 2, y: y + 10, width: scale * width, height: scale * height }).forEach(([name, value]) => place.setAttribute(name, value));
    svg.append(place);
  }
  y = CARD.height - 50;
  write(command, 17, 1, { class: "command" });
  return svg;
}

/** Words in at most `most` lines of a width in pixels of the small font; what is left out is three dots. */
function wrapped(words, width, most) {
  const lines = [""];
  for (const word of words.split(/\s+/).filter(Boolean)) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (widthOf(longer) <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const shown = lines.slice(0, most);
  if (lines.length > most) shown[most - 1] += " …";
  const room = (line) => Math.floor(line.length * width / Math.max(widthOf(line), width));
  return shown.filter(Boolean).map((line) => shortened(line, room(line)));
}

/** Title, sentence, conditions and tables as they are shown. */
function markdown() {
  const isSeen = (part) => part.getClientRects().length > 0;
  const words = (part) => part.innerText.replace(/\s+/g, " ").trim().replaceAll("|", "\\|");
  const line = (row) => `| ${[...row.children].map(words).join(" | ")} |`;
  const table = (made) => {
    const [head, ...rows] = [...made.querySelectorAll("thead tr:last-child, tbody tr")].filter(isSeen);
    return [line(head), `|${" --- |".repeat(head.children.length)}`, ...rows.map(line)].join("\n");
  };
  const tables = [...document.querySelectorAll("main table")].filter((made) => isSeen(made) && made.tBodies[0]?.rows.length && made.tHead && !made.closest(".tip"));
  const command = [...document.querySelectorAll("#made-by div")].map((pair) => [...pair.children].map(words).join(": ")).join("  \n");
  return [`# ${document.title}`, one("#sentence").textContent, conditionsInWords(), ...tables.map(table), command].filter(Boolean).join("\n\n") + "\n";
}
