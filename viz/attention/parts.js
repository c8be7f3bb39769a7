/* parts.js - what the views are made of: elements, colours, selects, the frame of a view. */

/* ---- Elements -------------------------------------------------------------------------------- */

/* element("p", { className: "note", aria: { live: "polite" } }, "text", child, ...) */
const element = (tag, properties = {}, ...children) => {
  const { aria = {}, style = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria))
    made.setAttribute(name === "role" ? name : `aria-${name}`, value);
  for (const [name, value] of Object.entries(style))
    made.style.setProperty(name, value);
  made.append(...children);
  return made;
};

const select = (name, options, value, change) => {
  const box = element("select", {}, ...options.map(([key, text]) =>
    element("option", { value: key, selected: key === value }, text)));
  box.addEventListener("change", () => change(options[box.selectedIndex][0]));
  return element("label", {}, name, box);
};

/* ---- Colours --------------------------------------------------------------------------------- */

const palette = ["#2f7de1", "#ef7f1a", "#2fa046", "#d93a3f", "#8f5fd0", "#93604a", "#e264b5",
  "#12a5a5", "#a3a122", "#3a4fb0", "#6fbf2e", "#d9a514", "#96305f", "#66788f", "#45b3ea", "#f0857a"];

/* Of a head, or of a layer in the model view: sixteen by hand, then hues that are far apart. */
const colourOf = n => palette[n] ?? `hsl(${Math.round(n * 137.508) % 360} 60% ${45 + n % 3 * 8}%)`;

/* The colour that a variable of the style sheet has where the element stands. */
const styled = (where, name) => {
  const before = where.style.color;
  where.style.color = `var(--${name})`;
  const colour = getComputedStyle(where).color;
  where.style.color = before;
  return colour;
};

/* "#rrggbb", "hsl(...)" or "rgb(...)" with an opacity. */
const faint = (colour, alpha) =>
  `color-mix(in srgb, ${colour} ${Math.min(Math.max(alpha, 0), 1) * 100}%, transparent)`;

/* ---- Canvases -------------------------------------------------------------------------------- */

/* Sizes a canvas in CSS pixels, and gives its context cleared and scaled for the screen. */
const context = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  return c;
};

/* Calls draw once before the next frame, however often it is asked for. */
const scheduler = draw => {
  let asked = false;
  return () => {
    if (asked)
      return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
};

/* ---- The frame of a view --------------------------------------------------------------------- */

const darkScreen = matchMedia("(prefers-color-scheme: dark)");

class View {
  constructor(spec, title, order) {
    this.spec = spec;
    this.set = page.data[spec.data];
    this.filters = filtersOf(this.set, spec, order);
    this.filter = this.filters[0];
    this.toolbar = element("div", { className: "toolbar" }, element("h2", {}, title));
    this.notes = element("div");
    this.body = element("div");
    this.root = element("section", { className: "view", aria: { label: title } }, this.toolbar,
      this.notes, this.body);
    this.root.dataset.mode = spec.mode;
    darkScreen.addEventListener("change", () => this.draw());
  }

  get maps() {
    return mapsOf(this.set, this.spec, this.filter.part);
  }

  /* The selects, and last the switch between light and dark. */
  addControls(...controls) {
    if (this.filters.length > 1)
      controls.push(select("Attention", this.filters.map((f, i) => [i, f.name]), 0, i => {
        this.filter = this.filters[i];
        this.filterChanged();
      }));
    const mode = element("button", { type: "button" });
    const isDark = () => this.root.dataset.mode === "dark" ||
      this.root.dataset.mode === "auto" && darkScreen.matches;
    const name = () => { mode.textContent = isDark() ? "Light" : "Dark"; };
    mode.addEventListener("click", () => {
      this.root.dataset.mode = isDark() ? "light" : "dark";
      if (this.root === document.querySelector(".view")) /* the page goes with the first */
        document.body.dataset.mode = this.root.dataset.mode;
      name();
      this.draw();
    });
    name();
    this.toolbar.append(...controls, element("span", { className: "gap" }), mode);
  }

  /* What must be said of the maps that are shown: weights that are no numbers, or were left out. */
  note(maps) {
    const lines = maps.filter(map => map.bad).map(map => element("p", { className: "note alarm" },
      `Layer ${map.layer} (${map.name}): ${map.bad} of ${map.heads * map.rows * map.columns} ` +
      "weights are no finite numbers"));
    const cut = maps.reduce((sum, map) => sum + map.cut, 0);
    if (cut)
      lines.push(element("p", { className: "note" }, `${cut.toLocaleString("en")} weights below ` +
        `${page.threshold} are left out to keep the file small; the others are good to 2 digits`));
    this.notes.replaceChildren(...lines);
  }
}

/* A view of one layer. */
class LayerView extends View {
  get map() {
    return this.maps.find(map => map.layer === this.layer);
  }

  /* A select of the filter's layers; a part may lack the one there was: an encoder and its decoder
   * need not be as deep. */
  layerSelect(changed) {
    const layers = this.maps.map(map => map.layer);
    if (!layers.includes(this.layer))
      this.layer = layers[0];
    return select("Layer", layers.map(n => [n, String(n)]), this.layer, n => {
      this.layer = n;
      changed();
    });
  }
}
