// Unfolds each command line and folds it again, from the keyboard's place: one is seen at a time, within the page.
setTimeout(() => {
  const isSeen = (part) => part.getClientRects().length > 0;
  const shown = () => [...document.querySelectorAll(".command code")].filter(isSeen);
  const unfolded = { texts: [], wrong: [] };
  const check = (is, words) => is || unfolded.wrong.push(words);
  check(!shown().length, "something is unfolded at first");
  for (const button of document.querySelectorAll(".unfold")) {
    const name = button.getAttribute("aria-label");
    button.focus();
    check(document.activeElement === button && button.tabIndex === 0, `${name}: not reached`);
    button.click();
    const [code, ...others] = shown();
    check(code && !others.length && button.getAttribute("aria-expanded") === "true", `${name}: not unfolded`);
    unfolded.texts.push(code?.textContent);
    const [box, space] = [code, code?.closest(".scroll")].map((part) => part?.getBoundingClientRect());
    check(box?.width > 150 && (!code.closest(".matrix") || box.right <= space.right), `${name}: ${box?.width} px wide, up to ${box?.right}`);
    button.click();
    check(!shown().length && button.getAttribute("aria-expanded") === "false", `${name}: not folded`);
  }
  // Another figure and order leaves open what is open.
  const matrix = document.querySelector("#sections .matrix table");
  matrix.querySelector(".unfold").click();
  const pick = document.querySelector("#sections .matrix select");
  pick.value = "utilization";
  pick.dispatchEvent(new Event("change"));
  check(shown().length === 1, "folded by another figure");
  cellpace.unfolded = unfolded;
  document.documentElement.dataset.cellpace = JSON.stringify(cellpace);
}, 60);
