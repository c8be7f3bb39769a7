/* model_view.js - thumbnails of all layers and heads; a click on one opens the head beside it. */

const AXIS = 34;      /* pixels: width of the layer numbers */
const TITLE = 20;     /* pixels: width of the title of the layers */
const SLIMMEST = 16, WIDEST_CELL = 116; /* pixels: widths of thumbnails */
const SLICE = 30;     /* milliseconds */
const DETAIL = 300;   /* pixels: least width of the opened head beside the grid */
const FINEST = 2;     /* minimum pixels between the ends of two lines in a thumbnail */

class ModelView extends View {
  constructor(spec) {
    super(spec, "Model view", [["A", "A"], ["B", "B"], ["A", "B"], ["B", "A"]]);
    this.open = null;
    this.waiting = []; /* thumbnails to draw */
    this.drawSome = scheduler(() => this.drawSlice());
    this.grid = element("div", { className: "grid", aria: { role: "group",
      label: "One thumbnail per layer (rows) and head (columns)" } });
    this.model = element("div", { className: "model" }, this.grid);
    this.grid.addEventListener("keydown", event => this.key(event));
    this.body.append(this.model);
    this.addControls();
    this.watcher = new IntersectionObserver(entries => entries.forEach(entry => {
      if (entry.isIntersecting)
        this.waiting.push(entry.target);
      this.drawSome();
    }), { rootMargin: "200px" });
    this.filterChanged();
  }

  /* The width of the page is known when the view is on it. */
  draw() {
    if (this.size?.width !== this.cellWidth())
      this.filterChanged();
    else {
      for (const cell of this.grid.querySelectorAll(".cell"))
        if (cell.drawn)
          this.thumbnail(cell);
      this.lanes?.draw();
    }
  }

  resized() {
    this.draw();
  }

  /* Draws every thumbnail, also those that were never on the screen. */
  printed() {
    for (const cell of this.grid.querySelectorAll(".cell"))
      this.thumbnail(cell);
  }

  cellWidth() {
    const room = (this.body.clientWidth || 970) - AXIS - TITLE;
    return Math.min(Math.max(Math.floor((room - 6) / this.heads.length) - 5, SLIMMEST), WIDEST_CELL);
  }

  get heads() {
    const all = [...Array(Math.max(...this.maps.map(map => map.heads))).keys()];
    return this.spec.includeHeads ? all.filter(n => this.spec.includeHeads.includes(n)) : all;
  }

  filterChanged() {
    this.close();
    this.note(this.maps);
    const heads = this.heads;
    const width = this.cellWidth();
    this.size = { width, height: Math.max(Math.round(width * 1.1), 44) };
    this.grid.style.gridTemplateColumns =
      `${TITLE}px ${AXIS}px repeat(${heads.length}, ${width + 2}px)`;
    const axis = text => element("span", { className: "axis" }, text);
    const across = element("span", { className: "axis title", style: { "grid-column": "3 / -1" } }, "Head");
    const down = element("span", { className: "axis title down",
      style: { "grid-row": `3 / span ${this.maps.length}` } }, element("span", {}, "Layer"));
    this.cells = this.maps.map(map => heads.map(head =>
      head < map.heads ? this.makeCell(map, head) : element("span")));
    const at = (item, column) => {
      item.style.gridColumn = column;
      return item;
    };
    this.grid.replaceChildren(across, ...heads.map((n, k) => at(axis(String(n)), k + 3)), down,
      ...this.maps.flatMap((map, n) => [at(axis(String(map.layer)), 2), ...this.cells[n]]));
    const first = this.grid.querySelector(".cell");
    if (first) /* a part may have none of the included heads */
      first.tabIndex = 0;
  }

  /* ---- Thumbnails ---- */

  makeCell(map, head) {
    const name = `Layer ${map.layer}, Head ${head}`;
    const cell = element("button", { type: "button", className: "cell", tabIndex: -1, map, head,
      title: name, style: { "--colour": colourOf(map.layer) },
      aria: { label: name, expanded: "false" } }, element("canvas"));
    cell.firstChild.paint = c => this.paint(c, cell);
    cell.firstChild.style.cssText = `width:${this.size.width}px;height:${this.size.height}px`;
    cell.addEventListener("click", () => this.toggle(cell));
    this.watcher.observe(cell);
    return cell;
  }

  /* Draws waiting thumbnails for a while, and the rest in the next frames, so that the page answers
   * soon. */
  drawSlice() {
    const end = performance.now() + SLICE;
    while (this.waiting.length && performance.now() < end) {
      const cell = this.waiting.shift();
      if (!cell.drawn && cell.isConnected)
        this.thumbnail(cell);
    }
    if (this.waiting.length)
      this.drawSome();
  }

  thumbnail(cell) {
    this.watcher.unobserve(cell);
    cell.drawn = true;
    this.paint(context(cell.firstChild, this.size.width, this.size.height), cell);
  }

  /* Returns the weights of groups of tokens. In a long text, adjacent tokens share a line, which
   * shows the mean of the rows' weights to the group, so that a thumbnail of any text has as much
   * colour as one of a short text. */
  groups(cell, rows, columns) {
    const { left, right, row: above, column: before } = this.filter, { map, head } = cell;
    const data = weightsOf(map), groupOf = right.map((_, j) => Math.floor(j * columns / right.length));
    const sums = new Float32Array(rows * columns), sizes = new Array(rows).fill(0);
    for (let i = 0; i < left.length; i++) {
      const row = Math.floor(i * rows / left.length);
      const base = (head * map.rows + above + i) * map.columns + before;
      sizes[row]++;
      for (let j = 0; j < right.length; j++)
        sums[row * columns + groupOf[j]] += data[base + j] || 0;
    }
    return sums.map((sum, n) => sum / sizes[Math.floor(n / columns)]);
  }

  paint(c, cell) {
    const { width, height } = this.size;
    const { left, right } = this.filter;
    const most = Math.floor(height / FINEST);
    const rows = Math.min(left.length, most), columns = Math.min(right.length, most);
    const groups = this.groups(cell, rows, columns);
    const pitch = height / Math.max(rows, columns);
    c.strokeStyle = colourOf(cell.map.layer);
    c.lineWidth = Math.min(2.2, pitch * 0.8);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const weight = groups[i * columns + j];
        if (!(weight >= 0.02))
          continue;
        c.globalAlpha = Math.min(weight, 1);
        c.beginPath();
        c.moveTo(4, (i + 0.5) * pitch);
        c.lineTo(width - 4, (j + 0.5) * pitch);
        c.stroke();
      }
    c.globalAlpha = 1;
  }

  key(event) {
    const cell = event.target.closest(".cell");
    if (event.key === "Escape" && this.open) {
      const opened = this.open;
      this.close();
      opened.focus();
    }
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!cell || !(event.key in steps))
      return;
    event.preventDefault();
    const row = this.cells.findIndex(cells => cells.includes(cell));
    const [down, across] = steps[event.key];
    const next = this.cells[row + down]?.[this.cells[row].indexOf(cell) + across];
    if (!next?.map)
      return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /* ---- The open head ---- */

  toggle(cell) {
    const again = this.open === cell;
    this.close();
    if (!again)
      this.show(cell);
  }

  close() {
    this.open?.setAttribute("aria-expanded", "false");
    this.open = null;
    this.lanes = null;
    this.detail?.remove();
  }

  show(cell) {
    this.open = cell;
    cell.setAttribute("aria-expanded", "true");
    const name = `Layer ${cell.map.layer}, Head ${cell.head}`, colour = colourOf(cell.map.layer);
    const shut = element("button", { type: "button", className: "unsaved",
      aria: { label: `Close ${name}` } }, "✕");
    shut.addEventListener("click", () => {
      this.close();
      cell.focus();
    });
    this.lanes = new Lanes({ between: 110 });
    this.detail = element("div", { className: "detail", style: { "--colour": colour },
      aria: { role: "dialog", label: name } },
    element("div", { className: "toolbar" }, element("h2", {}, name),
      element("span", { className: "gap" }), shut), this.lanes.root);
    this.detail.addEventListener("keydown", event => this.key(event));
    this.model.append(this.detail);
    this.place(cell);
    this.lanes.show({ filter: this.filter,
      channels: [channelOf(cell.map, this.filter, cell.head, colour)] });
    this.place(cell);
  }

  /* Places the detail beside the cell, on the side with more room, and inside the model view. */
  place(cell) {
    const { detail, model } = this;
    const around = model.getBoundingClientRect(), box = cell.getBoundingClientRect();
    const before = box.left - around.left - 6, behind = around.right - box.right - 6;
    const below = Math.max(before, behind) < DETAIL;
    detail.classList.toggle("below", below); /* a phone has no room beside the grid */
    detail.style.maxWidth = below ? "" : `${Math.max(before, behind)}px`;
    if (below)
      return;
    const x = behind >= before ? around.width - behind : before - detail.offsetWidth;
    model.style.minHeight = `${Math.max(this.grid.offsetHeight, detail.offsetHeight)}px`;
    const y = box.top - around.top - detail.offsetHeight / 3;
    const lowest = Math.max(model.offsetHeight - detail.offsetHeight, 0);
    detail.style.left = `${x}px`;
    detail.style.top = `${Math.min(Math.max(y, 0), lowest)}px`;
  }
}
