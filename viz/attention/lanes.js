/* lanes.js - tokens on the left and right with lines between them, as opaque as the weights. Lines
 * of several heads lie side by side, and are the thinner the more heads there are. Only the largest
 * weights have lines, and a note tells which, until a token is chosen. The token under the pointer,
 * or with the keyboard focus, shows only its own lines, all of them, its weights as boxes on the
 * other side, and a list of these weights as numbers. Clicked tokens stay selected, several with
 * Ctrl or Shift, whose weights are summed; each token of the other side then shows a single
 * weight. */

const ROW = 22;        /* pixels per token */
const NARROWEST = 90;  /* pixels for the lines */
const WIDEST = 640;
const FAINTEST = 1 / 512; /* fainter lines are invisible */
const TALLEST = 4096;  /* pixels; only the visible part of a taller canvas is drawn */
const LISTED = 12;
const SPREAD = 14;     /* pixels for the lines of all heads between two tokens */
const THICKEST = 2;    /* pixels of a line */
const LINES_PER_TOKEN = 6; /* while no token is chosen */
const READOUT = 308;   /* pixels of the read-out beside the drawing, with its distance */
const LEAST_OFF_SCREEN = 0.03; /* smaller weights of tokens off the screen are not announced */

class Lanes {
  /* Options: `rowHeight`, and `between`, which is the width of the lines; without it, they use the
   * width of the page. */
  constructor(options = {}) {
    this.row = options.rowHeight ?? ROW;
    this.fixed = options.between;
    this.chosen = this.pinned = this.other = null;
    this.draw = scheduler(() => this.drawNow());
    this.canvas = element("canvas", { aria: { hidden: "true" } });
    this.sides = ["left", "right"].map(side => this.makeSide(side));
    this.space = element("div", { className: "between" });
    this.canvas.origin = this.space;
    this.canvas.paint = c => this.paint(c, 0, this.height);
    this.edges = ["above", "below"].map(where => this.makeEdge(where));
    this.stage = element("div", { className: "stage" }, this.sides[0], this.space, this.sides[1],
      this.canvas, element("div", { className: "edges unsaved" }, ...this.edges));
    this.readout = element("div", { className: "readout", aria: { role: "status", live: "polite" } });
    this.root = element("div", { className: "lanes" }, this.stage, this.readout);
    this.stage.addEventListener("mouseleave", () => this.leave());
    addEventListener("scroll", () => this.scrolled(), true);
  }

  /* Shows channels (heads): { head, colour, weight(i, j), shade, values }. `shade` is the opacity
   * of a weight of 1. If `keep`, the selected tokens stay selected. */
  show({ filter, channels, keep }) {
    this.channels = channels;
    if (!keep || filter !== this.filter) {
      this.chosen = this.pinned = this.other = null;
      this.filter = filter;
      this.fill(0, filter.left);
      this.fill(1, filter.right);
    }
    this.cutoff = this.findCutoff();
    this.lines = this.channels.map(channel => this.largestLines(channel));
    this.kept = this.lines.reduce((sum, lines) => sum + lines.length, 0);
    this.fit();
    this.refresh();
  }

  /* Sets the width of the lines to what the page has beside the tokens and the read-out. On a phone
   * and on paper the read-out is below. */
  fit() {
    const room = this.root.clientWidth - 1 - this.sides[0].offsetWidth - this.sides[1].offsetWidth;
    const beside = room - READOUT >= 150 && !document.body.matches(".paper");
    this.between = this.fixed ?? Math.min(Math.max(beside ? room - READOUT : room, NARROWEST), WIDEST);
    this.space.style.width = `${this.between}px`;
  }

  /* Fits the drawing to a page whose width has changed. */
  resized() {
    this.fit();
    this.draw();
    this.markEdges();
  }

  get height() {
    return Math.max(this.filter.left.length, this.filter.right.length) * this.row;
  }

  get isLong() {
    return this.filter && this.height > TALLEST;
  }

  scrolled() {
    if (!this.root.isConnected || !this.filter)
      return;
    if (this.isLong)
      this.draw();
    this.markEdges();
  }

  /* ---- Tokens ---- */

  makeSide(side) {
    const list = element("ul", { className: `tokens ${side}`, aria: { role: "listbox",
      multiselectable: "true",
      label: side === "left" ? "Attending tokens" : "Tokens attended to" } });
    const at = event => {
      const item = event.target.closest("li");
      return item && { side, index: item.index };
    };
    list.addEventListener("mouseover", event => at(event) && this.point(at(event)));
    list.addEventListener("focusin", event => at(event) && this.point(at(event)));
    list.addEventListener("focusout", event => !list.contains(event.relatedTarget) && this.leave());
    list.addEventListener("click", event => at(event) && this.pin(at(event), event));
    list.addEventListener("mousedown", event => event.shiftKey && event.preventDefault());
    list.addEventListener("keydown", event => at(event) && this.key(event, at(event)));
    return list;
  }

  fill(side, tokens) {
    this.sides[side].replaceChildren(...tokens.map((token, index) => {
      const item = element("li", { dir: "auto", title: token, tabIndex: index ? -1 : 0, index,
        cutsText: true, aria: { role: "option", selected: "false" } }, token);
      if (!token.trim())
        item.setAttribute("aria-label", `blank token #${index}`);
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

  /* `chosen` and `pinned` are null, or a side and the indices of its tokens. */

  point(place) {
    if (this.pinned && place.side !== this.pinned.side)
      this.other = place;
    else if (this.pinned)
      this.other = null;
    else
      this.chosen = { side: place.side, indices: [place.index] };
    this.refresh();
  }

  leave() {
    this.chosen = this.pinned;
    this.other = null;
    this.refresh();
  }

  /* Selects a token, or nothing if it was selected. With Ctrl, adds it to the selected ones or
   * removes it; with Shift, selects all from the last one to it. */
  pin({ side, index }, { ctrlKey = false, metaKey = false, shiftKey = false } = {}) {
    const before = this.pinned?.side === side ? this.pinned.indices : [];
    let indices = before.length === 1 && before[0] === index ? [] : [index];
    if (shiftKey && before.length) {
      const last = before.at(-1), step = index < last ? -1 : 1;
      indices = [...before];
      for (let n = last; n !== index + step; n += step)
        if (!indices.includes(n))
          indices.push(n);
    } else if (ctrlKey || metaKey)
      indices = before.includes(index) ? before.filter(n => n !== index) : [...before, index];
    this.pinned = indices.length ? { side, indices } : null;
    this.chosen = this.pinned ?? { side, indices: [index] };
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
      this.pin({ side, index }, event);
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
    this.markEdges();
    this.draw();
  }

  /* Returns each channel's weight between the chosen tokens, summed, and one of the other side. */
  weights({ side, indices }, other) {
    return this.channels.map(c => indices.reduce((sum, index) =>
      sum + (side === "left" ? c.weight(index, other) : c.weight(other, index)), 0));
  }

  mark() {
    const chosen = this.chosen;
    for (const side of ["left", "right"])
      for (const item of this.sides[side === "left" ? 0 : 1].children) {
        const isIt = chosen?.side === side && chosen.indices.includes(item.index);
        item.classList.toggle("chosen", isIt);
        item.classList.toggle("pinned", isIt && this.pinned !== null);
        item.setAttribute("aria-selected", isIt);
        item.shades = chosen && chosen.side !== side ? this.boxes(item.index) : [];
        item.style.backgroundImage = this.gradient(item.shades);
      }
  }

  /* Returns a box for each head, half as opaque as its weight, so that the token can be read. */
  boxes(index) {
    const weights = this.weights(this.chosen, index);
    if (!weights.some((w, n) => w * this.channels[n].shade >= FAINTEST))
      return [];
    return weights.map((w, n) => ({ colour: this.channels[n].colour,
      alpha: Math.min(w * this.channels[n].shade || 0, 1) / 2 }));
  }

  gradient(shades) {
    const width = 100 / shades.length;
    const stops = shades.map(({ colour, alpha }, n) =>
      `${faint(colour, alpha)} ${n * width}% ${(n + 1) * width}%`);
    return stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "";
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
    const heading = element("p", {}, ...this.chosenNames(), ` ${arrow} `);
    if (this.other)
      heading.append(...this.named(this.other));
    this.readout.replaceChildren(heading, element("table", {},
      ...rows.slice(0, this.other ? rows.length : LISTED).map(row => this.line(row, opposite))));
    if (rows.length > LISTED && !this.other)
      this.readout.append(element("p", { className: "note" }, `and ${rows.length - LISTED} more`));
  }

  chosenNames() {
    const { side, indices } = this.chosen;
    if (indices.length > 3)
      return [element("b", {}, `${indices.length} tokens`)];
    return indices.flatMap((index, n) =>
      [...n ? [" + "] : [], ...this.named({ side, index })]);
  }

  hint() {
    const many = n => n.toLocaleString("en");
    const all = this.channels.length * this.filter.left.length * this.filter.right.length;
    return `Lines show ${many(this.kept)} of ${many(all)} weights: those of at ` +
      `least ${this.leastShown()}. Hover over a token to see all its weights; click it to keep ` +
      "it selected, and others with Ctrl or Shift";
  }

  leastShown() {
    return Number((this.cutoff / this.channels[0].shade).toPrecision(2));
  }

  rowsOf(index) {
    return this.weights(this.chosen, index).map((weight, n) =>
      ({ index, weight, channel: this.channels[n] }));
  }

  line({ index, weight, channel }, side) {
    const row = element("tr");
    if (!this.other)
      row.append(element("td", {}, this.link({ side, index })),
        element("td", { className: "position" }, this.position({ side, index })));
    if (this.channels.length > 1)
      row.append(element("td", {}, element("span", { className: "swatch",
        style: { "--colour": channel.colour } }), `head ${channel.head}`));
    row.append(element("td", { className: "number", title: number(weight, channel.values) },
      brief(weight, channel.values)));
    return row;
  }

  /* Returns a button with the token's name that scrolls to it. */
  link(place) {
    const link = element("button", { type: "button", className: "link",
      title: "Scroll to this token" }, element("bdi", {}, this.token(place)));
    link.addEventListener("click", () =>
      this.item(place).scrollIntoView({ block: "center", behavior: "instant" }));
    return link;
  }

  /* ---- Tokens off the screen ---- */

  makeEdge(where) {
    const edge = element("button", { type: "button", className: `edge ${where}`, hidden: true });
    edge.addEventListener("click", () =>
      edge.target && this.item(edge.target).scrollIntoView({ block: "center", behavior: "instant" }));
    return edge;
  }

  /* Says above and below the screen how much of the chosen tokens' weight is there. A click scrolls
   * to the largest. */
  markEdges() {
    for (const edge of this.edges)
      edge.hidden = true;
    if (!this.chosen || this.height < innerHeight / 2)
      return;
    const top = this.stage.getBoundingClientRect().top;
    const side = this.chosen.side === "left" ? "right" : "left";
    const last = this.filter[side].length;
    const from = Math.min(Math.max(Math.ceil(-top / this.row), 0), last);
    const to = Math.max(Math.min(Math.floor((innerHeight - top) / this.row), last), from);
    this.markEdge(this.edges[0], "▲", side, 0, from);
    this.markEdge(this.edges[1], "▼", side, to, last);
  }

  markEdge(edge, arrow, side, from, to) {
    let sum = 0, largest = 0;
    edge.target = null;
    for (let index = from; index < to; index++) {
      const weight = Math.max(...this.weights(this.chosen, index).map(w => w || 0));
      sum += weight;
      if (weight > largest) {
        largest = weight;
        edge.target = { side, index };
      }
    }
    if (!edge.target || largest * this.channels[0].shade < LEAST_OFF_SCREEN)
      return;
    edge.hidden = false;
    edge.textContent = `${arrow} ${this.token(edge.target)} ${this.position(edge.target)} ` +
      brief(largest, this.channels[0].values);
    edge.title = `${to - from} tokens ${arrow === "▲" ? "above" : "below"} the screen; scroll to the largest weight`;
  }

  /* ---- Lines ---- */

  /* Calls visit(i, j, opacity) for each visible line of a channel. */
  eachLine(channel, visit) {
    const rows = this.filter.left.length, columns = this.filter.right.length;
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const opacity = channel.weight(i, j) * channel.shade;
        if (opacity >= FAINTEST)
          visit(i, j, opacity);
      }
  }

  /* Returns the opacity, in hundredths, below which lines are left out while no token is chosen: the
   * least one that leaves few lines for each token, unless it leaves none. */
  findCutoff() {
    const most = LINES_PER_TOKEN * Math.max(this.filter.left.length, this.filter.right.length);
    const counts = new Array(101).fill(0);
    for (const channel of this.channels)
      this.eachLine(channel, (i, j, opacity) => counts[Math.min(Math.floor(opacity * 100), 100)]++);
    let n = 101, above = 0;
    while (n > 1 && (above === 0 || above + counts[n - 1] <= most))
      above += counts[--n];
    return Math.max(Math.min(n, 100) / 100, FAINTEST);
  }

  /* Returns the lines that are drawn while no token is chosen. */
  largestLines(channel) {
    const lines = [];
    this.eachLine(channel, (i, j, opacity) => opacity >= this.cutoff && lines.push({ i, j, opacity }));
    return lines;
  }

  /* Returns the lines of the chosen tokens. */
  chosenLines(channel) {
    const { side, indices } = this.chosen, isLeft = side === "left", lines = [];
    for (const index of indices)
      this.filter[isLeft ? "right" : "left"].forEach((_, other) => {
        const [i, j] = isLeft ? [index, other] : [other, index];
        const opacity = channel.weight(i, j) * channel.shade;
        if (opacity >= FAINTEST)
          lines.push({ i, j, opacity });
      });
    return lines;
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
    const [from, to] = this.band();
    this.paint(this.begin(from, to), from, to);
  }

  /* Draws the lines between two heights of the stage. */
  paint(c, from, to) {
    const pitch = Math.min(SPREAD / this.channels.length, THICKEST);
    c.lineWidth = pitch;
    this.channels.forEach((channel, n) => {
      c.strokeStyle = channel.colour;
      for (const line of this.chosen ? this.chosenLines(channel) : this.lines[n])
        if (this.crosses(line, from, to))
          this.stroke(c, line, (n - (this.channels.length - 1) / 2) * pitch);
    });
    c.globalAlpha = 1;
  }

  /* Returns whether a line crosses a vertical range. */
  crosses({ i, j }, from, to) {
    const y = [i, j].map(k => (k + 0.5) * this.row);
    return Math.max(...y) >= from && Math.min(...y) <= to;
  }

  stroke(c, { i, j, opacity }, aside) {
    c.globalAlpha = Math.min(opacity, 1);
    c.beginPath();
    c.moveTo(0, (i + 0.5) * this.row + aside);
    c.lineTo(this.between, (j + 0.5) * this.row + aside);
    c.stroke();
  }
}
