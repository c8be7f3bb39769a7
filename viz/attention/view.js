/* view.js - the frame of a view: its controls, its notes, and what it exports. */

const darkScreen = matchMedia("(prefers-color-scheme: dark)");
const views = [];

/* Returns whether the page is dark. */
const isDark = () => document.body.dataset.mode === "dark" ||
  document.body.dataset.mode === "auto" && darkScreen.matches;

/* Sets the mode of the whole page: "light", "dark" or "auto". */
const setMode = mode => {
  document.body.dataset.mode = mode;
  for (const view of views)
    view.modeChanged(mode);
};

class View {
  constructor(spec, title, order) {
    this.spec = spec;
    this.title = title;
    this.set = page.data[spec.data];
    this.kind = spec.map;
    this.filters = filtersOf(this.set, spec, order);
    this.filter = this.filters[0];
    this.toolbar = element("div", { className: "toolbar" }, element("h2", {}, title),
      ...spec.title ? [element("p", { className: "subject", title: spec.title, dir: "auto" }, spec.title)] : []);
    this.notes = element("div");
    this.body = element("div");
    this.root = element("section", { className: "view", aria: { label: spec.title ? `${title}: ${spec.title}` : title } },
      this.toolbar,
      this.notes, this.body);
    this.root.dataset.mode = spec.mode;
    darkScreen.addEventListener("change", () => this.draw());
    addEventListener("resize", () => this.resized());
    views.push(this);
  }

  get maps() {
    return mapsOf(this.set, this.spec, this.filter.part, this.kind);
  }

  /* Called when the width of the page has changed. */
  resized() {}

  /* Called before the page is printed: draws what was not on the screen. */
  printed() {}

  /* Returns a line that says what an exported picture shows. */
  caption() {
    const name = this.filters.length > 1 ? `, ${this.filter.name}` : "";
    return `${this.title}${this.spec.title ? `: ${this.spec.title}` : ""}${name}`;
  }

  /* Adds the controls, then the buttons that save the picture, and the switch between light and
   * dark. */
  addControls(...controls) {
    if (this.filters.length > 1)
      controls.push(select("Attention", this.filters.map((f, i) => [i, f.name]), 0, i => {
        this.filter = this.filters[i];
        this.filterChanged();
      }));
    const save = (name, write) => {
      const button = element("button", { type: "button", className: "save",
        title: `Save this view as ${name}`, aria: { label: `Save as ${name}` } }, name);
      button.addEventListener("click", () => write(this));
      return button;
    };
    this.mode = element("button", { type: "button" });
    this.mode.addEventListener("click", () => setMode(isDark() ? "light" : "dark"));
    this.nameMode();
    this.toolbar.append(...controls, element("span", { className: "gap" }),
      save("SVG", saveSvg), save("PNG", savePng), this.mode);
  }

  nameMode() {
    this.mode.textContent = isDark() ? "Light" : "Dark";
  }

  modeChanged(mode) {
    this.root.dataset.mode = mode;
    this.nameMode();
    this.draw();
  }

  /* Shows notes about the shown maps: weights that are not finite, or were omitted. */
  note(maps) {
    const lines = maps.filter(map => map.bad).map(map => element("p", { className: "note alarm" },
      `Layer ${map.layer} (${map.name}): ${map.bad} of ${map.heads * map.rows * map.columns} ` +
      "weights are not finite; they are drawn as missing"));
    const cut = maps.reduce((sum, map) => sum + map.cut, 0);
    if (cut)
      lines.push(element("p", { className: "note" }, `${cut.toLocaleString("en")} weights below ` +
        `${page.threshold} are omitted to keep the file small; others are accurate to 2 digits`));
    if (maps.some(map => map.kind === "gradient"))
      lines.push(element("p", { className: "note" },
        "Weights times their gradients, clipped at 0; the largest value is opaque"));
    this.notes.replaceChildren(...lines);
  }
}

/* A view of one layer. */
class LayerView extends View {
  get map() {
    return this.maps.find(map => map.layer === this.layer);
  }

  caption() {
    const name = this.kind === "weights" ? "" : `, ${kindNames[this.kind].toLowerCase()}`;
    return `${super.caption()}${name}, layer ${this.layer}`;
  }

  /* Returns a select of the filter's layers. The selected layer may not exist in this part: an
   * encoder and its decoder may have different depths. */
  layerSelect(changed) {
    const layers = this.maps.map(map => map.layer);
    if (!layers.includes(this.layer))
      this.layer = layers[0];
    return select("Layer", layers.map(n => [n, String(n)]), this.layer, n => {
      this.layer = n;
      changed();
    });
  }

  /* Returns a select of what to show of a layer, or nothing if there are only weights. Cross-
   * attention has no rollout. */
  kindSelect(changed) {
    const kinds = kindsOf(this.set, this.spec, this.filter.part);
    if (!kinds.includes(this.kind))
      this.kind = kinds[0];
    if (kinds.length < 2)
      return [];
    return [select("Map", kinds.map(kind => [kind, kindNames[kind]]), this.kind, kind => {
      this.kind = kind;
      changed();
    })];
  }
}
