// Looks for what breaks the rules of WCAG 2.1 AA, and writes down what it found.
setTimeout(async () => {
  const found = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
  const text = ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join("; ")}`;
  cellpace.axe = found.violations.map(text);
  document.documentElement.dataset.cellpace = JSON.stringify(cellpace);
}, 300);
