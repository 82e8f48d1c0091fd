"""Charts of a page as SVG, as the page's own buttons save them in a headless Chromium."""

import html
import os
import re
import subprocess
import tempfile
from pathlib import Path

# Presses the button and leaves what it saves in the document, from where --dump-dom prints it.
SCRIPT = """<script>addEventListener("load", () => setTimeout(async () => {
  const make = URL.createObjectURL;
  const saved = new Promise((then) => { URL.createObjectURL = (blob) => (then(blob), make(blob)); });
  HTMLAnchorElement.prototype.click = () => {};
  const heading = [...document.querySelectorAll("h2, h3")].find((each) => each.textContent.startsWith(TITLE));
  heading.parentElement.querySelector(".files button").click();
  document.documentElement.dataset.picture = await (await saved).text();
}, 300));</script>"""


def picture(page, title):
    """The chart of the page (a path) whose heading begins with `title`, as SVG."""
    text = Path(page).read_text()
    script = SCRIPT.replace("TITLE", "'" + title.replace("'", "\\'") + "'")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        at = text.rindex("</body>")
        copy.write_text(text[:at] + script + text[at:])
        command = [os.environ.get("CHROMIUM", "chromium"), "--headless", "--no-sandbox", "--disable-gpu",
                   "--window-size=1000,900", "--virtual-time-budget=5000", f"--user-data-dir={folder}/profile",
                   "--dump-dom", copy.as_uri()]
        dom = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r'data-picture="([^"]*)"', dom)
    if not found:
        raise SystemExit(f"{page}: no chart is called {title!r}")
    return html.unescape(found.group(1)) + "\n"
