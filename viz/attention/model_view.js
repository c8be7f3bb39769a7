/* model_view.js - thumbnails of all layers and heads; a click on one opens the head beside it. */

const GRID = 970;     /* pixels: width of the grid */
const AXIS = 34;      /* pixels: width of the layer numbers */
const FINEST = 2;     /* minimum pixels between the ends of two lines in a thumbnail */

class ModelView extends View {
  constructor(spec) {
    super(spec, "Model view", [["A", "A"], ["B", "B"], ["A", "B"], ["B", "A"]]);
    this.open = null;
    this.grid = element("div", { className: "grid", aria: { role: "group",
      label: "One thumbnail per layer (rows) and head (columns)" } });
    this.model = element("div", { className: "model" }, this.grid);
    this.grid.addEventListener("keydown", event => this.key(event));
    this.body.append(this.model);
    this.addControls();
    this.watcher = new IntersectionObserver(entries => entries.forEach(entry => {
      if (entry.isIntersecting)
        this.thumbnail(entry.target);
    }), { rootMargin: "200px" });
    this.filterChanged();
  }

  get heads() {
    const all = [...Array(Math.max(...this.maps.map(map => map.heads))).keys()];
    return this.spec.includeHeads ? all.filter(n => this.spec.includeHeads.includes(n)) : all;
  }

  filterChanged() {
    this.close();
    this.note(this.maps);
    const heads = this.heads;
    const width = Math.min(Math.max(Math.floor((GRID - AXIS) / heads.length) - 3, 28), 116);
    this.size = { width, height: Math.max(Math.round(width * 1.1), 44) };
    this.grid.style.gridTemplateColumns = `${AXIS}px repeat(${heads.length}, ${width + 2}px)`;
    const axis = text => element("span", { className: "axis" }, text);
    this.cells = this.maps.map(map => heads.map(head =>
      head < map.heads ? this.makeCell(map, head) : element("span")));
    this.grid.replaceChildren(axis(""), ...heads.map(n => axis(String(n))),
      ...this.maps.flatMap((map, n) => [axis(String(map.layer)), ...this.cells[n]]));
    const first = this.grid.querySelector(".cell");
    if (first) /* a part may have none of the included heads */
      first.tabIndex = 0;
  }

  draw() {
    for (const cell of this.grid.querySelectorAll(".cell"))
      if (cell.drawn)
        this.thumbnail(cell);
    this.lanes?.draw();
  }

  /* ---- Thumbnails ---- */

  makeCell(map, head) {
    const name = `Layer ${map.layer}, Head ${head}`;
    const cell = element("button", { type: "button", className: "cell", tabIndex: -1, map, head,
      title: name, style: { "--colour": colourOf(map.layer) },
      aria: { label: name, expanded: "false" } }, element("canvas"));
    cell.firstChild.style.cssText = `width:${this.size.width}px;height:${this.size.height}px`;
    cell.addEventListener("click", () => this.toggle(cell));
    this.watcher.observe(cell);
    return cell;
  }

  /* Draws a thumbnail. In a long text, adjacent tokens share a line, with the largest of their
   * weights. */
  thumbnail(cell) {
    this.watcher.unobserve(cell);
    cell.drawn = true;
    const { width, height } = this.size;
    const { left, right } = this.filter;
    const channel = channelOf(cell.map, this.filter, cell.head, colourOf(cell.map.layer));
    const most = Math.floor(height / FINEST);
    const rows = Math.min(left.length, most), columns = Math.min(right.length, most);
    const largest = new Float32Array(rows * columns);
    for (let i = 0; i < left.length; i++)
      for (let j = 0; j < right.length; j++) {
        const at = Math.floor(i * rows / left.length) * columns +
          Math.floor(j * columns / right.length);
        largest[at] = Math.max(largest[at], channel.weight(i, j) || 0);
      }
    const pitch = height / Math.max(rows, columns);
    const c = context(cell.firstChild, width, height);
    c.strokeStyle = channel.colour;
    c.lineWidth = Math.min(2.2, pitch * 0.8);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const weight = largest[i * columns + j];
        if (weight < 0.02)
          continue;
        c.globalAlpha = Math.min(weight, 1);
        c.beginPath();
        c.moveTo(4, (i + 0.5) * pitch);
        c.lineTo(width - 4, (j + 0.5) * pitch);
        c.stroke();
      }
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
    const shut = element("button", { type: "button", aria: { label: `Close ${name}` } }, "✕");
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
    this.lanes.show({ filter: this.filter,
      channels: [channelOf(cell.map, this.filter, cell.head, colour)] });
    this.place(cell);
  }

  /* Places the detail beside the cell, on the side with more room, and inside the model view. */
  place(cell) {
    const { detail, model } = this;
    const around = model.getBoundingClientRect(), box = cell.getBoundingClientRect();
    const before = box.left - around.left - 6, behind = around.right - box.right - 6;
    detail.style.maxWidth = `${Math.max(before, behind)}px`;
    const x = behind >= before ? around.width - behind : before - detail.offsetWidth;
    model.style.minHeight = `${Math.max(this.grid.offsetHeight, detail.offsetHeight)}px`;
    const y = box.top - around.top - detail.offsetHeight / 3;
    const lowest = Math.max(model.offsetHeight - detail.offsetHeight, 0);
    detail.style.left = `${x}px`;
    detail.style.top = `${Math.min(Math.max(y, 0), lowest)}px`;
  }
}
