/* head_view.js - one layer, with its selected heads overlaid. */

/* Returns a channel for Lanes: a head's weights, restricted to a filter's rows and columns. */
const channelOf = (map, filter, head, colour) => {
  const data = weightsOf(map), base = (head * map.rows + filter.row) * map.columns + filter.column;
  return { head, colour, values: map.weights, shade: scaleOf(map),
    weight: (i, j) => data[base + i * map.columns + j] };
};

class HeadView extends LayerView {
  constructor(spec) {
    super(spec, "Head view", [["A", "A"], ["B", "B"], ["A", "B"], ["B", "A"]]);
    this.layer = spec.layer;
    this.active = spec.heads && new Set(spec.heads);
    this.lanes = new Lanes();
    this.heads = element("div", { className: "heads", aria: { role: "group",
      label: "Heads: click to show or hide, double-click to show only one" } });
    this.body.append(this.heads, this.lanes.root);
    this.layerBox = element("span", { className: "toolbar inner" });
    this.addControls(this.layerBox);
    this.filterChanged();
  }

  filterChanged() {
    const kinds = this.kindSelect(() => this.filterChanged());
    this.layerBox.replaceChildren(...kinds, this.layerSelect(() => this.mapChanged()));
    this.mapChanged();
  }

  resized() {
    this.lanes.resized();
  }

  caption() {
    const heads = [...this.active].sort((a, b) => a - b);
    const some = heads.length < this.map.heads;
    return super.caption() + (some ? `, head${heads.length > 1 ? "s" : ""} ${heads.join(", ")}` : "");
  }

  mapChanged() {
    const all = [...Array(this.map.heads).keys()];
    const kept = all.filter(head => !this.active || this.active.has(head));
    this.active = new Set(kept.length ? kept : all);
    this.note([this.map]);
    this.fillHeads(all);
    this.show(true);
  }

  draw() {
    this.show(true);
  }

  show(keep) {
    const heads = [...this.active].sort((a, b) => a - b);
    this.lanes.show({ filter: this.filter, keep,
      channels: heads.map(head => channelOf(this.map, this.filter, head, colourOf(head))) });
    for (const square of this.heads.querySelectorAll(".head"))
      square.setAttribute("aria-pressed", this.active.has(square.head));
  }

  /* ---- Heads ---- */

  fillHeads(all) {
    this.heads.replaceChildren(...all.map(head => {
      const square = element("button", { type: "button", className: "head", head,
        title: `Head ${head}: click to show or hide, double-click to show only this head`,
        style: { "--colour": colourOf(head), "--text": inkOn(colourOf(head)) }, aria: { label: `Head ${head}` } }, String(head));
      square.addEventListener("click", event => this.click(head, event));
      square.addEventListener("keydown", event => {
        if (event.key !== "Enter" || !event.shiftKey)
          return;
        event.preventDefault();
        this.alone(head, this.active);
      });
      return square;
    }));
    const every = element("button", { type: "button", className: "unsaved" }, "All");
    every.addEventListener("click", () => this.choose(all));
    this.heads.append(every);
    this.heads.hidden = all.length === 1;
  }

  /* The second click of a double-click undoes the effect of the first. */
  click(head, event) {
    if (event.detail > 1) {
      if (event.detail === 2)
        this.alone(head, this.before);
      return;
    }
    this.before = this.active;
    const heads = new Set(this.active);
    if (!heads.delete(head))
      heads.add(head);
    if (heads.size) /* the last head cannot be hidden */
      this.choose(heads);
  }

  /* Shows only this head, or all heads if it was already the only one. */
  alone(head, before) {
    const was = before.size === 1 && before.has(head);
    this.choose(was ? Array(this.map.heads).keys() : [head]);
  }

  choose(heads) {
    this.active = new Set(heads);
    this.show(true);
  }
}
