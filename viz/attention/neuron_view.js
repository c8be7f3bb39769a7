/* neuron_view.js - one head. When expanded, it shows how a weight is computed: the query, the keys,
 * their elementwise products, the sum of these, and the softmax. */

const NEURON_ROW = 26, BOX = 20;

/* Returns the positions of the columns, for vectors of `size` neurons. */
const columnsOf = size => {
  const width = Math.min(Math.max(2 * size, 96), 160);
  const query = { x: 10, width, name: "Query q" };
  const key = { x: query.x + width + 64, width, name: "Key k" };
  const product = { x: key.x + width + 22, width, name: "q × k" };
  const dot = { x: product.x + width + 26, width: BOX, name: "q ∙ k" };
  const softmax = { x: dot.x + BOX + 42, width: BOX, name: "Softmax" };
  return { query, key, product, dot, softmax, size, total: softmax.x + BOX + 24 };
};

class Neurons extends Lanes {
  constructor() {
    super({ rowHeight: NEURON_ROW });
    this.root.classList.add("neurons");
    this.header = element("div", { className: "columns" });
    this.nothing = element("p", { className: "nothing" },
      "No token selected: hover over one on the left");
    this.stage.append(this.nothing);
    this.frame = element("div", { className: "frame" }, this.header, this.stage);
    this.root.prepend(this.frame); /* on a phone, it scrolls */

    this.tip = element("div", { className: "tip", hidden: true, aria: { role: "tooltip" } });
    this.canvas.addEventListener("mousemove", event => this.explain(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.root.append(this.tip);
  }

  /* Takes the properties of Lanes.show(), and `map`, `head` and `opened`, which is true if the
   * columns are shown. */
  show(shown) {
    const { map, head, opened } = shown;
    Object.assign(this, { map, head, opened, columns: columnsOf(map.size) });
    this.fixed = opened ? this.columns.total : undefined;
    const start = this.sides[0].offsetWidth;
    const titles = ["query", "key", "product", "dot", "softmax"].map(name => {
      const column = this.columns[name];
      return element("span", { style: { left: `${column.x + column.width / 2 + start}px` } },
        column.name);
    });
    this.header.replaceChildren(...opened ? titles : []);
    this.header.hidden = !opened;
    super.show(shown);
  }

  /* Returns the row whose computation is shown, or null. Of several tokens it is the last. */
  get asking() {
    return this.opened && this.chosen?.side === "left" ? this.chosen.indices.at(-1) : null;
  }

  /* ---- Values ---- */

  vector(data, count, row) {
    const base = (this.head * count + row) * this.map.size;
    return data.subarray(base, base + this.map.size);
  }

  query(i) {
    return this.vector(queriesOf(this.map), this.map.rows, i + this.filter.row);
  }

  keyOf(j) {
    return this.vector(keysOf(this.map), this.map.columns, j + this.filter.column);
  }

  dot(i, j) {
    const k = this.keyOf(j);
    return this.query(i).reduce((sum, q, n) => sum + q * k[n], 0);
  }

  /* Returns whether a causal mask hides the key from the query. */
  isHidden(i, j) {
    return this.map.causal && j + this.filter.column > i + this.filter.row;
  }

  hint() {
    return this.opened ? "Hover over a token to see its weights; click it to keep it selected"
      : super.hint();
  }

  line(row, side) {
    const made = super.line(row, side);
    if (this.asking !== null)
      made.append(element("td", { className: "number dot" }, this.isHidden(this.asking, row.index) ? ""
        : `q∙k ${brief(this.dot(this.asking, row.index), this.map.query)}`));
    return made;
  }

  /* ---- Drawing ---- */

  drawNow() {
    this.nothing.hidden = !this.opened || this.asking !== null;
    this.nothing.style.left = `${this.space.offsetLeft}px`;
    this.nothing.style.width = `${this.between}px`;
    super.drawNow();
  }

  paint(c, from, to) {
    if (!this.opened)
      super.paint(c, from, to);
    else if (this.asking !== null)
      this.drawColumns(c, from, to);
  }

  drawColumns(c, from, to) {
    const i = this.asking, q = this.query(i), { query, key } = this.columns;
    this.colours = { positive: styled(this.canvas, "positive"),
      negative: styled(this.canvas, "negative"), edge: styled(this.canvas, "edge"),
      alarm: styled(this.canvas, "alarm") };
    this.drawVector(c, query, i, q);
    for (let j = 0; j < this.filter.right.length; j++) {
      if ((j + 1) * this.row < from || j * this.row > to)
        continue;
      const weight = this.channels[0].weight(i, j);
      c.globalAlpha = Math.tanh(1.8 * weight) || 0;
      c.strokeStyle = this.colours.positive;
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(query.x + query.width, (i + 0.5) * this.row);
      c.lineTo(key.x, (j + 0.5) * this.row);
      c.stroke();
      this.drawRow(c, i, j, q, weight);
    }
  }

  drawRow(c, i, j, q, weight) {
    const k = this.keyOf(j), { key, product, dot, softmax } = this.columns;
    this.drawVector(c, key, j, k);
    if (!this.isHidden(i, j)) {
      const products = q.map((value, n) => value * k[n]);
      const scaled = products.reduce((sum, x) => sum + x, 0) / Math.sqrt(this.map.size);
      this.drawVector(c, product, j, products);
      this.drawBox(c, dot, j, scaled, Math.tanh(Math.abs(scaled) / 4),
        Math.max(Math.tanh(Math.abs(scaled) / 2), 0.35));
    }
    this.drawBox(c, softmax, j, weight, weight, 0.35);
  }

  sign(value) {
    return Number.isNaN(value) ? this.colours.alarm
      : value < 0 ? this.colours.negative : this.colours.positive;
  }

  drawVector(c, column, row, values) {
    const y = row * this.row + (this.row - BOX) / 2, width = column.width / values.length;
    values.forEach((value, n) => {
      c.fillStyle = this.sign(value);
      c.globalAlpha = Number.isNaN(value) ? 1 : Math.tanh(Math.abs(value) / 4);
      c.fillRect(column.x + n * width, y, width, BOX);
    });
    c.globalAlpha = 1;
    c.strokeStyle = this.colours.edge;
    c.lineWidth = 1;
    c.strokeRect(column.x - 0.5, y - 0.5, column.width + 1, BOX + 1);
  }

  drawBox(c, column, row, value, fill, border) {
    const y = row * this.row + (this.row - BOX) / 2;
    c.fillStyle = c.strokeStyle = this.sign(value);
    c.globalAlpha = Number.isNaN(fill) ? 1 : Math.min(fill, 1);
    c.fillRect(column.x, y, BOX, BOX);
    c.globalAlpha = border;
    c.lineWidth = 1;
    c.strokeRect(column.x + 0.5, y + 0.5, BOX - 1, BOX - 1);
  }

  /* ---- Tooltip ---- */

  explain(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, j = Math.floor((event.clientY - box.top + this.band()[0]) /
      this.row);
    const text = this.asking === null ? null : this.explanation(x, j);
    this.tip.hidden = text === null;
    this.tip.textContent = text ?? "";
    this.tip.style.left = `${event.clientX + 14}px`;
    this.tip.style.top = `${event.clientY + 14}px`;
  }

  explanation(x, j) {
    const i = this.asking, { map } = this, { size, query } = this.columns;
    const name = ["query", "key", "product", "dot", "softmax"].find(which =>
      x >= this.columns[which].x && x < this.columns[which].x + this.columns[which].width);
    if (!name || !(j < (name === "query" ? this.filter.left : this.filter.right).length))
      return null;
    const n = Math.floor((x - this.columns[name].x) * size / query.width);
    const say = value => number(value, map.query);
    if (name === "query")
      return j === i ? `query of ${this.filter.left[i]}, neuron ${n}: ${say(this.query(i)[n])}` : null;
    const q = this.query(i)[n], k = this.keyOf(j)[n];
    if (name === "key")
      return `key of ${this.filter.right[j]}, neuron ${n}: ${say(k)}`;
    if (name === "softmax")
      return `softmax: ${number(this.channels[0].weight(i, j), map.weights)}`;
    if (this.isHidden(i, j))
      return null;
    return name === "product" ? `neuron ${n}: ${say(q)} × ${say(k)} = ${say(q * k)}`
      : `q ∙ k = ${say(this.dot(i, j))}, divided by √${size}: ` +
        say(this.dot(i, j) / Math.sqrt(size));
  }
}

class NeuronView extends LayerView {
  constructor(spec) {
    super(spec, "Neuron view", [["A", "A"], ["A", "B"], ["B", "A"], ["B", "B"]]);
    this.layer = spec.layer;
    this.head = spec.head;
    this.opened = spec.expanded;
    this.neurons = new Neurons();
    this.body.append(this.neurons.root);
    this.selects = element("span", { className: "toolbar inner" });
    this.opener = element("button", { type: "button" });
    this.opener.addEventListener("click", () => {
      this.opened = !this.opened;
      this.draw();
    });
    this.addControls(this.selects, this.opener);
    this.filterChanged();
  }

  resized() {
    this.draw();
  }

  caption() {
    return `${super.caption()}, head ${this.head}`;
  }

  filterChanged() {
    const layers = this.layerSelect(() => this.filterChanged());
    this.head = Math.min(this.head, this.map.heads - 1);
    const heads = [...Array(this.map.heads).keys()].map(n => [n, String(n)]);
    this.selects.replaceChildren(layers, select("Head", heads, this.head, n => {
      this.head = n;
      this.draw();
    }));
    this.note([this.map]);
    this.draw();
  }

  draw() {
    this.opener.textContent = this.opened ? "− Collapse" : "+ Expand";
    this.opener.setAttribute("aria-expanded", this.opened);
    const colour = styled(this.neurons.canvas, "positive");
    const channel = channelOf(this.map, this.filter, this.head, colour);
    this.neurons.show({ filter: this.filter, map: this.map, head: this.head, opened: this.opened,
      channels: [channel], keep: true });
  }
}
