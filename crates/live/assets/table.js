// The table of connections. The server sorts and searches and sends the rows around those in sight; only
// rows in sight are elements.

import { age, bytes, setText, short, words } from "./format.js";
import { element, known, one } from "./report.js";

const ROW_PX = 28;
const AROUND = 40;

export class Table {
  #columns = [];
  #rows = new Map();
  #order = [];
  #matching = 0;
  #now = 0;
  #shown = [];
  #used = new Set(["connection", "rate", "lost", "opened"]);
  #above = space();
  #below = space();
  #isDue = false;
  #isHeld = false;
  #next = null; // the order that waits while rows keep their places
  #controllers = new Set();
  #onView;
  #onChoose;
  chosen = null;
  view = { sort: "rate", order: "descending", search: "", from: 0, rows: 100 };

  constructor({ onView, onChoose }) {
    this.#onView = onView;
    this.#onChoose = onChoose;
    one("#scroll").addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#scrolled()).observe(one("#scroll"));
    // A row under the pointer must not move before the click.
    one("#scroll").addEventListener("pointerover", (event) => { if (event.target.closest("tbody tr:not(.space)")) this.#isHeld = true; });
    one("#scroll").addEventListener("pointerleave", () => this.#release());
    let typing = 0;
    one("#search").addEventListener("input", (event) => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        one("#scroll").scrollTop = 0;
        this.#change({ search: event.target.value, from: 0 });
      }, 150);
    });
  }

  setColumns(columns) {
    this.#columns = columns;
    one("#scroll thead tr").replaceChildren(...columns.map((column) => this.#title(column)));
    one("#scroll tbody").replaceChildren(this.#above, this.#below);
    this.#shown = [];
    this.#hideUnused();
    this.#mark();
  }

  /** The rows of another stream follow. */
  forget() {
    this.#rows.clear();
  }

  update(data) {
    this.#now = data.t;
    if (known(data.matching)) {
      this.#matching = data.matching;
      const { open } = data.summary;
      // A few connections leave no empty space; there is always some.
      one("#scroll").style.setProperty("--rows", Math.max(3, Math.min(30, this.#matching)));
      setText(one("#count"), this.#matching === open ? `${open}` : `${this.#matching} of ${open}`);
    }
    for (const row of data.rows) this.#rows.set(row[0], row);
    if (data.order) {
      this.#next = data.order;
      if (!this.#isHeld || !this.#order.length) this.#takeOrder();
    }
    this.#due();
  }

  /** Rows go where they belong again. */
  #release() {
    this.#isHeld = false;
    if (this.#next) this.#takeOrder();
    this.#due();
  }

  #takeOrder() {
    this.#order = this.#next;
    this.#next = null;
    const kept = new Set(this.#order);
    for (const id of this.#rows.keys()) if (!kept.has(id)) this.#rows.delete(id);
  }

  name(id) {
    return this.#rows.get(id)?.[1] ?? "";
  }

  choose(id) {
    this.chosen = id;
    this.#due();
  }

  #title(column) {
    const unit = column.unit && column.unit !== "bytes" ? [element("small", {}, column.unit)] : [];
    const button = element("button", { type: "button", title: column.help }, column.title, ...unit);
    button.addEventListener("click", () => {
      const isSame = this.view.sort === column.name;
      const order = isSame && this.view.order === "descending" ? "ascending" : "descending";
      one("#scroll").scrollTop = 0;
      this.#change({ sort: column.name, order, from: 0 });
    });
    return element("th", { scope: "col", "data-column": column.name }, button);
  }

  #mark() {
    for (const title of document.querySelectorAll("#scroll thead th")) {
      if (title.dataset.column === this.view.sort) title.setAttribute("aria-sort", this.view.order);
      else title.removeAttribute("aria-sort");
    }
  }

  #change(view) {
    this.#isHeld = false;
    Object.assign(this.view, view);
    this.#mark();
    this.#onView();
  }

  #inSight() {
    const { scrollTop, clientHeight } = one("#scroll");
    const first = Math.floor(scrollTop / ROW_PX);
    return [first, first + Math.ceil(clientHeight / ROW_PX) + 1];
  }

  #scrolled() {
    const [first, end] = this.#inSight();
    const { from, rows } = this.view;
    const isCovered = (first >= from || from === 0) && Math.min(end, this.#matching) <= from + rows;
    if (!isCovered || end - first + AROUND > rows) {
      const start = Math.max(0, first - AROUND);
      this.#change({ from: start, rows: Math.min(500, end - start + AROUND) });
    }
    this.#due();
  }

  #due() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (!document.hidden) this.#draw();
    });
  }

  #draw() {
    if (!this.#columns.length) return;
    const [first, end] = this.#inSight();
    const from = Math.max(first, this.view.from);
    const ids = this.#order.slice(from - this.view.from, Math.max(0, end - this.view.from));
    this.#above.firstChild.style.height = `${from * ROW_PX}px`;
    this.#below.firstChild.style.height = `${Math.max(0, this.#matching - from - ids.length) * ROW_PX}px`;
    while (this.#shown.length < ids.length) this.#addRow();
    this.#shown.forEach((row, index) => this.#fill(row, ids[index]));
  }

  #addRow() {
    const button = element("button", { type: "button" });
    const cells = this.#columns.map((column, index) => index === 0
      ? element("td", { class: "name" }, button)
      : element("td", { class: isWord(column) ? "word" : "" }));
    cells.forEach((cell, index) => { cell.hidden = !this.#used.has(this.#columns[index].name); });
    const row = element("tr", {}, ...cells);
    row.addEventListener("click", () => { if (known(row.of)) this.#onChoose(row.of); });
    row.cells_ = [button, ...cells.slice(1)];
    this.#shown.push(row);
    this.#below.before(row);
  }

  #fill(row, id) {
    const values = this.#rows.get(id);
    row.hidden = !values;
    row.of = values ? id : null;
    if (!values) return;
    row.classList.toggle("chosen", id === this.chosen);
    row.classList.toggle("ended", this.#next !== null && !this.#next.includes(id));
    this.#columns.forEach((column, index) => {
      const value = values[index + 1];
      if (column.name === "controller" && known(value)) this.#controllers.add(value);
      const isTold = column.name === "controller" ? this.#controllers.size > 1 : known(value);
      if (isTold && !this.#used.has(column.name)) {
        this.#used.add(column.name);
        this.#hideUnused();
      }
      setText(row.cells_[index], this.#text(column, value));
    });
    if (row.cells_[0].title !== values[1]) row.cells_[0].title = values[1];
  }

  #text(column, value) {
    if (!known(value)) return "";
    if (column.name === "opened") return age(Math.max(0, this.#now - value));
    if (column.unit === "bytes") return bytes(value);
    if (typeof value === "string") return column.name === "phase" ? words(value) : value;
    return column.unit === "" ? String(value) : short(value);
  }

  /** Columns of which nothing is known here stay away. */
  #hideUnused() {
    const hide = (cells) => [...cells].forEach((cell, index) => {
      cell.hidden = !this.#used.has(this.#columns[index].name);
    });
    hide(one("#scroll thead tr").children);
    for (const row of this.#shown) hide(row.children);
    const shown = this.#columns.filter((column) => this.#used.has(column.name)).length;
    one("#scroll table").style.minWidth = `${384 + 84 * (shown - 1)}px`;
    for (const of of [this.#above, this.#below]) of.firstChild.colSpan = shown;
  }
}

const isWord = (column) => ["phase", "driver", "controller"].includes(column.name);

function space() {
  return element("tr", { class: "space", "aria-hidden": "true" }, element("td", {}));
}
