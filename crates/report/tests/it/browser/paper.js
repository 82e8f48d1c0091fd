// Lays the page, drawn for a screen, out as on A4 without its margins, and looks for what sticks out.
setTimeout(() => {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const print = rules.filter((rule) => rule.media?.mediaText === "print").flatMap((rule) => [...rule.cssRules]);
  const style = document.createElement("style");
  style.textContent = print.map((rule) => rule.cssText).join("\n") + "\nbody { width: 703px; }";
  document.head.append(style);
  dispatchEvent(new Event("beforeprint"));
  const parts = [...document.querySelectorAll("canvas, main svg, main table")].filter((part) => part.getClientRects().length);
  const isCut = (part) => part.getBoundingClientRect().right > 704
    || part.closest(".chart, .chart-place, .scroll")?.scrollWidth > 704;
  const rows = [...document.querySelectorAll("main table tr")].filter((row) => row.getClientRects().length && !row.closest(".tip"));
  cellpace.paper = {
    parts: parts.length, cut: parts.filter(isCut).map((part) => part.closest("section")?.textContent.slice(0, 60) ?? part.outerHTML.slice(0, 60)),
    last: [...new Set(rows.map((row) => [...row.children].findLast((cell) => cell.getClientRects().length).textContent.replaceAll(/\s/g, "")))],
  };
  document.documentElement.dataset.cellpace = JSON.stringify(cellpace);
}, 100);
