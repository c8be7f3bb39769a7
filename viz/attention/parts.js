/* parts.js - the building blocks of the views: elements, colours, selects, the frame of a view. */

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

/* The colour of a head, or of a layer in the model view: sixteen chosen by hand, then hues that are
 * far apart. */
const colourOf = n => palette[n] ?? `hsl(${Math.round(n * 137.508) % 360} 60% ${45 + n % 3 * 8}%)`;

/* Returns the value of a colour variable of the style sheet for an element. */
const styled = (where, name) => {
  const before = where.style.color;
  where.style.color = `var(--${name})`;
  const colour = getComputedStyle(where).color;
  where.style.color = before;
  return colour;
};

/* Returns the colour "#rrggbb", "hsl(...)" or "rgb(...)" with an opacity. */
const faint = (colour, alpha) =>
  `color-mix(in srgb, ${colour} ${Math.min(Math.max(alpha, 0), 1) * 100}%, transparent)`;

/* ---- Canvases -------------------------------------------------------------------------------- */

/* Sizes a canvas in CSS pixels, and returns its context, cleared and scaled for the screen. */
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

/* Returns a function that calls draw once before the next frame, however often it is called. */
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

  /* Adds the controls, and then the switch between light and dark. */
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
      if (this.root === document.querySelector(".view")) /* the page follows the first view */
        document.body.dataset.mode = this.root.dataset.mode;
      name();
      this.draw();
    });
    name();
    this.toolbar.append(...controls, element("span", { className: "gap" }), mode);
  }

  /* Shows notes about the shown maps: weights that are not finite, or were omitted. */
  note(maps) {
    const lines = maps.filter(map => map.bad).map(map => element("p", { className: "note alarm" },
      `Layer ${map.layer} (${map.name}): ${map.bad} of ${map.heads * map.rows * map.columns} ` +
      "weights are not finite"));
    const cut = maps.reduce((sum, map) => sum + map.cut, 0);
    if (cut)
      lines.push(element("p", { className: "note" }, `${cut.toLocaleString("en")} weights below ` +
        `${page.threshold} are omitted to keep the file small; others are accurate to 2 digits`));
    this.notes.replaceChildren(...lines);
  }
}

/* A view of one layer. */
class LayerView extends View {
  get map() {
    return this.maps.find(map => map.layer === this.layer);
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
}
