/* lanes.js - tokens on the left and right with lines between them, as opaque as the weights. Lines
 * of several heads lie side by side, and are the thinner the more heads there are. Only the largest
 * weights have lines, and a note tells which, until a token is chosen. The token under the pointer,
 * or with the keyboard focus, shows only its own lines, all of them, its weights as boxes on the
 * other side, and a list of these weights as numbers. A clicked token stays selected; each token of
 * the other side then shows a single weight. */

const ROW = 22;        /* pixels per token */
const BETWEEN = 150;   /* pixels for the lines */
const FAINTEST = 1 / 512; /* fainter lines are invisible */
const TALLEST = 4096;  /* pixels; only the visible part of a taller canvas is drawn */
const LISTED = 12;
const SPREAD = 14;     /* pixels for the lines of all heads between two tokens */
const THICKEST = 2;    /* pixels of a line */
const LINES_PER_TOKEN = 6; /* while no token is chosen */

class Lanes {
  /* Options: `rowHeight`, `between`, and `changed`, which is called when another token is
   * selected. */
  constructor(options = {}) {
    this.row = options.rowHeight ?? ROW;
    this.between = options.between ?? BETWEEN;
    this.changed = options.changed ?? (() => {});
    this.chosen = this.pinned = this.other = null;
    this.draw = scheduler(() => this.drawNow());
    this.canvas = element("canvas", { aria: { hidden: "true" } });
    this.sides = ["left", "right"].map(side => this.makeSide(side));
    this.space = element("div", { className: "between" });
    this.stage = element("div", { className: "stage" }, this.sides[0], this.space, this.sides[1],
      this.canvas);
    this.readout = element("div", { className: "readout", aria: { role: "status", live: "polite" } });
    this.root = element("div", { className: "lanes" }, this.stage, this.readout);
    this.stage.addEventListener("mouseleave", () => this.leave());
    addEventListener("scroll", () => this.isLong && this.root.isConnected && this.draw(), true);
    addEventListener("resize", () => this.root.isConnected && this.draw());
  }

  /* Shows channels (heads): { head, colour, weight(i, j), values }. If `keep`, the selected token
   * stays selected. */
  show({ filter, channels, keep }) {
    this.channels = channels;
    if (!keep || filter !== this.filter) {
      this.chosen = this.pinned = this.other = null;
      this.filter = filter;
      this.fill(0, filter.left);
      this.fill(1, filter.right);
    }
    this.space.style.width = `${this.between}px`;
    this.lines = this.findLines();
    this.cutoff = this.findCutoff();
    this.kept = this.lines.reduce((sum, lines) =>
      sum + lines.reduce((n, line) => n + (line.weight >= this.cutoff), 0), 0);
    this.refresh();
  }

  get height() {
    return Math.max(this.filter.left.length, this.filter.right.length) * this.row;
  }

  get isLong() {
    return this.filter && this.height > TALLEST;
  }

  /* ---- Tokens ---- */

  makeSide(side) {
    const list = element("ul", { className: `tokens ${side}`, aria: { role: "listbox",
      label: side === "left" ? "Attending tokens" : "Tokens attended to" } });
    const at = event => {
      const item = event.target.closest("li");
      return item && { side, index: item.index };
    };
    list.addEventListener("mouseover", event => at(event) && this.point(at(event)));
    list.addEventListener("focusin", event => at(event) && this.point(at(event)));
    list.addEventListener("focusout", event => !list.contains(event.relatedTarget) && this.leave());
    list.addEventListener("click", event => at(event) && this.pin(at(event)));
    list.addEventListener("keydown", event => at(event) && this.key(event, at(event)));
    return list;
  }

  fill(side, tokens) {
    this.sides[side].replaceChildren(...tokens.map((token, index) => {
      const item = element("li", { dir: "auto", title: token, tabIndex: index ? -1 : 0, index,
        aria: { role: "option", selected: "false" } }, token);
      item.style.height = item.style.lineHeight = `${this.row}px`;
      return item;
    }));
  }

  item({ side, index }) {
    return this.sides[side === "left" ? 0 : 1].children[index];
  }

  token({ side, index }) {
    return this.filter[side][index];
  }

  /* Returns "#12" for the token at position 12 of the text, counted from 0. */
  position({ side, index }) {
    return `#${index + (side === "left" ? this.filter.row : this.filter.column)}`;
  }

  /* Returns elements that show a token and its position. */
  named(place) {
    return [element("b", {}, element("bdi", {}, this.token(place))), " ",
      element("span", { className: "position" }, this.position(place))];
  }

  /* ---- Choosing ---- */

  point(place) {
    if (this.pinned && place.side !== this.pinned.side)
      this.other = place;
    else if (this.pinned)
      this.other = null;
    else
      this.chosen = place;
    this.refresh();
  }

  leave() {
    this.chosen = this.pinned;
    this.other = null;
    this.refresh();
  }

  pin(place) {
    const again = this.pinned && this.pinned.side === place.side &&
      this.pinned.index === place.index;
    this.pinned = again ? null : place;
    this.chosen = place;
    this.other = null;
    this.refresh();
  }

  key(event, { side, index }) {
    const last = this.filter[side].length - 1;
    const rows = { ArrowUp: index - 1, ArrowDown: index + 1, Home: 0, End: last };
    const columns = { ArrowLeft: "left", ArrowRight: "right" };
    if (event.key in rows)
      this.focus({ side, index: Math.min(Math.max(rows[event.key], 0), last) });
    else if (event.key in columns)
      this.focus({ side: columns[event.key],
        index: Math.min(index, this.filter[columns[event.key]].length - 1) });
    else if (event.key === "Enter" || event.key === " ")
      this.pin({ side, index });
    else if (event.key === "Escape" && this.pinned) {
      this.pinned = null;
      this.leave();
    } else
      return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* One token of each side is in the tab order. */
  focus(place) {
    for (const item of this.sides[place.side === "left" ? 0 : 1].children)
      item.tabIndex = item.index === place.index ? 0 : -1;
    this.item(place).focus();
  }

  /* ---- Showing ---- */

  refresh() {
    this.mark();
    this.tell();
    this.changed();
    this.draw();
  }

  weights(place, other) {
    return this.channels.map(c => place.side === "left" ? c.weight(place.index, other)
      : c.weight(other, place.index));
  }

  mark() {
    const chosen = this.chosen;
    for (const side of ["left", "right"])
      for (const item of this.sides[side === "left" ? 0 : 1].children) {
        const isIt = chosen?.side === side && chosen.index === item.index;
        item.classList.toggle("chosen", isIt);
        item.classList.toggle("pinned", isIt && this.pinned !== null);
        item.setAttribute("aria-selected", isIt);
        item.style.backgroundImage = chosen && chosen.side !== side ? this.boxes(item.index) : "";
      }
  }

  /* A box for each head, as opaque as its weight. */
  boxes(index) {
    const width = 100 / this.channels.length, weights = this.weights(this.chosen, index);
    if (!weights.some(w => w >= FAINTEST))
      return "";
    const stops = weights.map((w, n) =>
      `${faint(this.channels[n].colour, w)} ${n * width}% ${(n + 1) * width}%`);
    return `linear-gradient(to right, ${stops.join(", ")})`;
  }

  tell() {
    if (!this.chosen) {
      this.readout.replaceChildren(element("p", { className: "note" }, this.hint()));
      return;
    }
    const { side } = this.chosen, opposite = side === "left" ? "right" : "left";
    const rows = this.other ? this.rowsOf(this.other.index)
      : this.filter[opposite].flatMap((_, index) => this.rowsOf(index));
    /* NaN comes first. */
    const key = row => Number.isNaN(row.weight) ? Infinity : row.weight;
    if (!this.other)
      rows.sort((a, b) => key(b) - key(a) || a.index - b.index);
    const arrow = side === "left" ? "→" : "←";
    const heading = element("p", {}, ...this.named(this.chosen), ` ${arrow} `);
    if (this.other)
      heading.append(...this.named(this.other));
    this.readout.replaceChildren(heading, element("table", {},
      ...rows.slice(0, this.other ? rows.length : LISTED).map(row => this.line(row, opposite))));
    if (rows.length > LISTED && !this.other)
      this.readout.append(element("p", { className: "note" }, `and ${rows.length - LISTED} more`));
  }

  hint() {
    const many = n => n.toLocaleString("en");
    const all = this.channels.length * this.filter.left.length * this.filter.right.length;
    return `Lines show ${many(this.kept)} of ${many(all)} weights: those of at ` +
      `least ${Number(this.cutoff.toPrecision(2))}. Hover over a token to see all its weights; click it to keep it selected`;
  }

  rowsOf(index) {
    return this.weights(this.chosen, index).map((weight, n) =>
      ({ index, weight, channel: this.channels[n] }));
  }

  line({ index, weight, channel }, side) {
    const row = element("tr");
    if (!this.other)
      row.append(element("td", {}, element("bdi", {}, this.filter[side][index])),
        element("td", { className: "position" }, this.position({ side, index })));
    if (this.channels.length > 1)
      row.append(element("td", {}, element("span", { className: "swatch",
        style: { "--colour": channel.colour } }), `head ${channel.head}`));
    row.append(element("td", { className: "number", title: number(weight, channel.values) },
      brief(weight, channel.values)));
    return row;
  }

  /* ---- Lines ---- */

  /* Returns the visible lines of each channel. */
  findLines() {
    const rows = this.filter.left.length, columns = this.filter.right.length;
    return this.channels.map(channel => {
      const found = [];
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) {
          const weight = channel.weight(i, j);
          if (weight >= FAINTEST)
            found.push({ i, j, weight });
        }
      return found;
    });
  }

  /* Returns the weight, in hundredths, below which lines are left out while no token is chosen: the
   * least one that leaves few lines for each token, unless it leaves none. */
  findCutoff() {
    const most = LINES_PER_TOKEN * Math.max(this.filter.left.length, this.filter.right.length);
    const counts = new Array(101).fill(0);
    for (const lines of this.lines)
      for (const { weight } of lines)
        counts[Math.min(Math.floor(weight * 100), 100)]++;
    let n = 101, above = 0;
    while (n > 1 && (above === 0 || above + counts[n - 1] <= most))
      above += counts[--n];
    return Math.max(Math.min(n, 100) / 100, FAINTEST);
  }

  /* Returns the vertical range that is drawn. */
  band() {
    if (!this.isLong)
      return [0, this.height];
    const top = this.stage.getBoundingClientRect().top;
    const from = Math.min(Math.max(-top - 200, 0), this.height);
    return [from, Math.min(from + innerHeight + 400, this.height)];
  }

  /* Places the canvas over a vertical range of the space between the tokens. Returns its context,
   * whose y counts from the top of that space. */
  begin(from, to) {
    this.canvas.style.left = `${this.space.offsetLeft}px`;
    this.canvas.style.top = `${from}px`;
    const c = context(this.canvas, this.between, to - from);
    c.translate(0, -from);
    return c;
  }

  drawNow() {
    if (!this.root.isConnected)
      return;
    const [from, to] = this.band(), c = this.begin(from, to);
    const pitch = Math.min(SPREAD / this.channels.length, THICKEST);
    c.lineWidth = pitch;
    this.channels.forEach((channel, n) => {
      c.strokeStyle = channel.colour;
      for (const line of this.lines[n])
        if (this.isShown(line, from, to))
          this.stroke(c, line, (n - (this.channels.length - 1) / 2) * pitch);
    });
  }

  isShown({ i, j, weight }, from, to) {
    const y = [i, j].map(k => (k + 0.5) * this.row);
    if (Math.max(...y) < from || Math.min(...y) > to)
      return false;
    if (!this.chosen)
      return weight >= this.cutoff;
    return (this.chosen.side === "left" ? i : j) === this.chosen.index;
  }

  stroke(c, { i, j, weight }, aside) {
    c.globalAlpha = Math.min(weight, 1);
    c.beginPath();
    c.moveTo(0, (i + 0.5) * this.row + aside);
    c.lineTo(this.between, (j + 0.5) * this.row + aside);
    c.stroke();
  }
}
