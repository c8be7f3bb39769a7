/* parts.js - the building blocks of the views: elements, colours, selects, canvases. */

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

const swatchPaper = document.createElement("canvas").getContext("2d");

/* Returns a colour as "#rrggbb", or as "rgba(...)" if it is not opaque. */
const plain = colour => {
  swatchPaper.fillStyle = colour;
  return swatchPaper.fillStyle;
};

/* Returns the colour of text that is read best on a colour: black or white. */
const inkOn = colour => {
  const [r, g, b] = plain(colour).match(/\w\w/g).map(hex => {
    const x = parseInt(hex, 16) / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
};

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
