/* heat_view.js - a matrix of tokens by tokens: the weights of one head, or the mean or maximum of
 * all heads. The pointer or the arrow keys choose a cell, whose value is shown as a number. */

const LARGEST_CELL = 36, SMALLEST_CELL = 2, NAMED_CELL = 10; /* pixels */
const HEAT_LETTERS = 13, HEAT_TITLE = 20, HEAT_MARGIN = 6;
const POSITIONS = 50; /* distance between the positions that are written if cells are too small */

class HeatMap {
  constructor(view) {
    this.view = view;
    this.chosen = this.pinned = null;
    this.draw = scheduler(() => this.drawNow());
    this.canvas = element("canvas", { tabIndex: 0, aria: { role: "application",
      label: "Heat map of attention: rows are queries, columns are keys; arrow keys move between cells" } });
    this.canvas.paint = c => this.paint(c, false);
    this.frame = element("div", { className: "heat" }, this.canvas);
    this.readout = element("div", { className: "readout", aria: { role: "status", live: "polite" } });
    this.root = element("div", { className: "lanes" }, this.frame, this.readout);
    this.canvas.addEventListener("mousemove", event => this.point(this.cellAt(event)));
    this.canvas.addEventListener("mouseleave", () => this.point(null));
    this.canvas.addEventListener("click", event => this.pin(this.cellAt(event)));
    this.canvas.addEventListener("keydown", event => this.key(event));
  }

  /* Shows value(i, j) of the given rows and columns of a filter. */
  show(shown) {
    Object.assign(this, shown);
    const within = cell => cell && this.rows.includes(cell.i) && this.columns.includes(cell.j);
    if (!within(this.pinned))
      this.pinned = null;
    this.chosen = this.pinned;
    this.largest = 0;
    for (const i of this.rows)
      for (const j of this.columns)
        this.largest = Math.max(this.largest, this.value(i, j) || 0);
    this.drawNow();
    this.tell();
  }

  /* ---- Places ---- */

  /* Computes the size of a cell, and the place of the matrix, for the page's width. */
  layOut(c) {
    c.font = `${HEAT_LETTERS}px system-ui, sans-serif`;
    const longest = (tokens, indices) => indices.reduce((most, n) =>
      Math.max(most, Math.min(c.measureText(tokens[n]).width, 130)), 0);
    const names = [longest(this.filter.left, this.rows), longest(this.filter.right, this.columns)];
    const wide = this.root.clientWidth, beside = wide > 700 ? 300 : 0;
    const room = wide - beside - names[0] - HEAT_TITLE - 24;
    const most = Math.max(this.columns.length, this.rows.length, 1);
    this.cell = Math.min(Math.max(Math.floor(room / most), SMALLEST_CELL), LARGEST_CELL);
    this.named = this.cell >= NAMED_CELL;
    const [left, top] = this.named ? names : [34, 34];
    this.left = HEAT_TITLE + left + HEAT_MARGIN;
    this.top = HEAT_TITLE + top + HEAT_MARGIN;
    this.width = this.left + this.columns.length * this.cell + 2;
    this.height = this.top + this.rows.length * this.cell + 2;
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const i = this.rows[Math.floor((event.clientY - box.top - this.top) / this.cell)];
    const j = this.columns[Math.floor((event.clientX - box.left - this.left) / this.cell)];
    return i === undefined || j === undefined ? null : { i, j };
  }

  /* ---- Choosing ---- */

  point(cell) {
    this.chosen = cell ?? this.pinned;
    this.tell();
    this.draw();
  }

  pin(cell) {
    const again = cell && this.pinned?.i === cell.i && this.pinned.j === cell.j;
    this.pinned = again ? null : cell;
    this.point(cell);
  }

  key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -Infinity], End: [0, Infinity] };
    const clamp = (n, list) => list[Math.min(Math.max(n, 0), list.length - 1)];
    if (event.key in steps && this.rows.length && this.columns.length) {
      const [down, across] = steps[event.key];
      const from = this.chosen ?? { i: this.rows[0], j: this.columns[0] };
      const move = this.chosen ? 1 : 0;
      this.point({ i: clamp(this.rows.indexOf(from.i) + (down * move || 0), this.rows),
        j: clamp(this.columns.indexOf(from.j) + (move ? across : 0), this.columns) });
    } else if ((event.key === "Enter" || event.key === " ") && this.chosen)
      this.pin(this.chosen);
    else if (event.key === "Escape") {
      this.pinned = null;
      this.point(null);
    } else
      return;
    event.preventDefault();
  }

  /* ---- Showing ---- */

  tell() {
    if (!this.chosen) {
      const shown = this.rows.reduce((sum, i) => sum + this.columns.reduce((n, j) =>
        n + (this.value(i, j) >= this.threshold), 0), 0);
      const all = this.rows.length * this.columns.length;
      this.readout.replaceChildren(element("p", { className: "note" }, `Cells show ` +
        `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} values; the darkest is ` +
        `${brief(this.largest, this.type)}. Point at a cell to see its value; click it to keep it`));
      return;
    }
    const { i, j } = this.chosen, named = (side, n, first) => [
      element("b", {}, element("bdi", {}, this.filter[side][n])), " ",
      element("span", { className: "position" }, `#${n + first}`)];
    this.readout.replaceChildren(
      element("p", {}, ...named("left", i, this.filter.row), " → ",
        ...named("right", j, this.filter.column)),
      element("p", { className: "number", title: number(this.value(i, j), this.type) },
        brief(this.value(i, j), this.type)),
      element("p", { className: "note" }, this.what(i, j)));
  }

  drawNow() {
    if (!this.root.isConnected)
      return;
    this.layOut(this.canvas.getContext("2d"));
    this.paint(context(this.canvas, this.width, this.height), true);
  }

  paint(c, marked) {
    const colours = Object.fromEntries(["ink", "soft", "edge", "positive", "alarm"].map(name =>
      [name, styled(this.canvas, name)]));
    this.paintCells(c, colours);
    this.paintNames(c, colours);
    if (marked && this.chosen)
      this.paintMark(c, colours);
  }

  paintCells(c, { positive, alarm, edge }) {
    const { cell } = this;
    this.rows.forEach((i, row) => this.columns.forEach((j, column) => {
      const value = this.value(i, j), x = this.left + column * cell, y = this.top + row * cell;
      if (!Number.isFinite(value)) { /* a cross stands for a missing value */
        c.globalAlpha = 1;
        c.strokeStyle = alarm;
        c.lineWidth = 1;
        c.beginPath();
        c.moveTo(x + 1, y + 1);
        c.lineTo(x + cell - 1, y + cell - 1);
        c.moveTo(x + cell - 1, y + 1);
        c.lineTo(x + 1, y + cell - 1);
        c.stroke();
      } else if (value > 0 && value >= this.threshold && value >= this.largest / 256) {
        c.globalAlpha = value / this.largest;
        c.fillStyle = positive;
        c.fillRect(x, y, cell, cell);
      }
    }));
    c.globalAlpha = 1;
    c.strokeStyle = edge;
    c.lineWidth = 1;
    c.strokeRect(this.left - 0.5, this.top - 0.5, this.columns.length * cell + 1,
      this.rows.length * cell + 1);
  }

  /* Writes the tokens, or some positions if cells are too small, and the titles of the axes. */
  paintNames(c, { ink, soft }) {
    const step = this.named ? 1 : POSITIONS, low = HEAT_LETTERS * 0.35;
    const name = (side, n, first) => this.named ? shortened(this.filter[side][n]) : `#${n + first}`;
    c.fillStyle = ink;
    c.font = `${Math.min(HEAT_LETTERS, Math.max(this.cell, 10))}px system-ui, sans-serif`;
    c.textAlign = "right";
    for (let row = 0; row < this.rows.length; row += step)
      writeText(c, name("left", this.rows[row], this.filter.row), this.left - HEAT_MARGIN,
        this.top + (row + 0.5) * this.cell + low);
    c.textAlign = "left";
    for (let column = 0; column < this.columns.length; column += step)
      writeText(c, name("right", this.columns[column], this.filter.column),
        this.left + (column + 0.5) * this.cell + low, this.top - HEAT_MARGIN, true);
    c.fillStyle = soft;
    c.textAlign = "center";
    c.font = `${HEAT_LETTERS}px system-ui, sans-serif`;
    writeText(c, "Key", this.left + this.columns.length * this.cell / 2, HEAT_LETTERS);
    writeText(c, "Query", HEAT_LETTERS, this.top + this.rows.length * this.cell / 2, true);
  }

  paintMark(c, { ink }) {
    const row = this.rows.indexOf(this.chosen.i), column = this.columns.indexOf(this.chosen.j);
    c.globalAlpha = 1;
    c.strokeStyle = ink;
    c.lineWidth = this.pinned ? 2 : 1;
    c.strokeRect(this.left + column * this.cell - 0.5, this.top + row * this.cell - 0.5,
      this.cell + 1, this.cell + 1);
  }
}

/* Returns a token of at most 18 letters. */
const shortened = token => {
  const letters = [...token];
  return letters.length > 18 ? `${letters.slice(0, 17).join("")}…` : token;
};

class HeatView extends LayerView {
  constructor(spec) {
    super(spec, "Heat map", [["A", "A"], ["B", "B"], ["A", "B"], ["B", "A"]]);
    this.layer = spec.layer;
    this.head = spec.head;
    this.portion = 0; /* the threshold, as a portion of the largest value */
    this.heat = new HeatMap(this);
    this.body.append(this.heat.root);
    this.selects = element("span", { className: "toolbar inner" });
    const special = element("input", { type: "checkbox" });
    special.addEventListener("change", () => {
      this.hidesSpecial = special.checked;
      this.draw();
    });
    const slider = element("input", { type: "range", min: 0, max: 100, value: 0 });
    this.told = element("output", {}, "0");
    slider.addEventListener("input", () => {
      this.portion = slider.value / 100;
      this.draw();
    });
    this.addControls(this.selects, element("label", {}, special, " Hide special tokens"),
      element("label", {}, "Threshold ", slider, " ", this.told));
    this.filterChanged();
  }

  resized() {
    this.heat.draw();
  }

  caption() {
    const name = { "-1": ", mean of all heads", "-2": ", maximum of all heads" }[this.head] ??
      `, head ${this.head}`;
    return super.caption() + (this.map.heads > 1 ? name : "");
  }

  filterChanged() {
    const kinds = this.kindSelect(() => this.filterChanged());
    const layers = this.layerSelect(() => this.filterChanged());
    const heads = [[-1, "mean"], [-2, "maximum"],
      ...[...Array(this.map.heads).keys()].map(n => [n, String(n)])];
    this.head = Math.min(this.head, this.map.heads - 1);
    const head = this.map.heads > 1 ? [select("Head", heads, this.head, n => {
      this.head = n;
      this.draw();
    })] : [];
    this.selects.replaceChildren(...kinds, layers, ...head);
    this.note([this.map]);
    this.draw();
  }

  /* Returns the function that computes a cell's value; `heads` are all weights of the cell. */
  valueOf(heads) {
    if (this.map.heads === 1 || this.head >= 0) {
      const head = Math.max(this.head, 0);
      return (i, j) => heads[head].weight(i, j);
    }
    if (this.head === -1)
      return (i, j) => heads.reduce((sum, head) => sum + head.weight(i, j), 0) / heads.length;
    return (i, j) => heads.reduce((most, head) => Math.max(most, head.weight(i, j)), -Infinity);
  }

  /* Returns the indices of the tokens that are shown. */
  shown(tokens) {
    const all = [...tokens.keys()];
    return this.hidesSpecial ? all.filter(n => !isSpecial(tokens[n])) : all;
  }

  draw() {
    const { filter, map } = this;
    const heads = [...Array(map.heads).keys()].map(head => channelOf(map, filter, head, ""));
    const value = this.valueOf(heads);
    const rows = this.shown(filter.left), columns = this.shown(filter.right);
    const threshold = this.portion * rows.reduce((most, i) => columns.reduce((m, j) =>
      Math.max(m, value(i, j) || 0), most), 0);
    this.told.textContent = threshold ? brief(threshold, map.weights) : "0";
    const what = (i, j) => this.what(heads, value(i, j), i, j);
    this.heat.show({ filter, rows, columns, value, threshold, what, type: map.weights });
  }

  what(heads, value, i, j) {
    if (heads.length === 1)
      return kindNames[this.kind];
    if (this.head >= 0)
      return `weight of head ${this.head}`;
    const best = heads.findIndex(head => head.weight(i, j) === value);
    return this.head === -1 ? `mean of ${heads.length} heads`
      : `maximum of ${heads.length} heads: head ${best}`;
  }
}
