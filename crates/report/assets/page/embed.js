// One part of the page alone, for a frame in another page: `page.html#embed=cdf` or `page.html?embed=cdf`.

/** The name of a part in an address: its id, or the words of its heading. */
const partName = (section) => section.id || (one("h2, h3", section)?.firstChild.textContent ?? "").trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");

/** The part that an address asks for; null: all of the page. */
const embedded = () => new URLSearchParams(location.search).get("embed") ?? new URLSearchParams(location.hash.slice(1)).get("embed");

/** Hides all but that part. Of a name that no part has, the page says which there are. */
function showEmbedded() {
  const name = embedded();
  if (name === null) return;
  const isCompared = document.getElementById("data").textContent !== "null";
  const sections = [...document.querySelectorAll(isCompared ? "main section" : "#sections section")].filter((section) => one(".head", section));
  const found = sections.find((section) => partName(section) === name);
  if (!found) {
    one("h1").after(element("p", { role: "alert" }, `No part of this page is called "${name}"; there are: ${[...new Set(sections.filter((section) => !section.hidden).map(partName))].join(", ")}.`));
    return;
  }
  document.documentElement.classList.add("embed");
  for (let part = found; part !== document.body; part = part.parentElement) part.classList.add("embedded");
}
