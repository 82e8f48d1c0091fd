// A picture of a dashboard with one of its connections opened: node dashboard.mjs CHROMIUM PROFILE LINK PNG WIDTH HEIGHT.
import { writeFileSync } from "node:fs";
import { Browser } from "../playground/chromium.mjs";

/** Seconds until a connection is opened, and from then on. */
const [BEFORE_S, OPEN_S] = [25, 15];

const [program, profile, link, file, width, height] = process.argv.slice(2);
const rest = (seconds) => new Promise((go) => setTimeout(go, 1000 * seconds));
const browser = await Browser.start(program, profile);
const page = await browser.open(link, { width: Number(width), height: Number(height) });
const row = "document.querySelector('#scroll tbody tr:not(.space):not([hidden])')";
await page.until(`${row} !== null`);
await rest(BEFORE_S);
await page.value(`${row}.click()`);
await rest(OPEN_S);
await page.value("scrollTo(0, 0)");
const { data } = await page.send("Page.captureScreenshot");
writeFileSync(file, Buffer.from(data, "base64"));
await browser.close();
