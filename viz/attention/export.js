/* export.js - saves what a view shows as SVG or PNG. Canvases have a function paint(c), which draws
 * on any paper with the methods of a canvas; SvgPaper writes elements instead. Texts and boxes are
 * read from the page. */

const svgSpace = document.createRange().createContextualFragment("<svg></svg>")
  .firstChild.namespaceURI;

const escaped = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt()};`)
  .replace(/[\u0000-\u0008\u000b-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
const rounded = x => String(Math.round(x * 100) / 100);

/* The part of a canvas's context that the views use. */
class SvgPaper {
  constructor(x, y) {
    Object.assign(this, { x, y, parts: [], globalAlpha: 1, lineWidth: 1, fillStyle: "#000",
      strokeStyle: "#000", font: "", textAlign: "start", path: "" });
  }

  alpha() {
    return this.globalAlpha < 1 ? ` opacity="${rounded(this.globalAlpha * 10) / 10}"` : "";
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${rounded(x + this.x)} ${rounded(y + this.y)}`;
  }

  lineTo(x, y) {
    this.path += `L${rounded(x + this.x)} ${rounded(y + this.y)}`;
  }

  stroke() {
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${plain(this.strokeStyle)}" ` +
      `stroke-width="${rounded(this.lineWidth)}"${this.alpha()}/>`);
  }

  box(x, y, width, height, style) {
    this.parts.push(`<rect x="${rounded(x + this.x)}" y="${rounded(y + this.y)}" ` +
      `width="${rounded(width)}" height="${rounded(height)}" ${style}${this.alpha()}/>`);
  }

  fillRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="${plain(this.fillStyle)}"`);
  }

  strokeRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="none" stroke="${plain(this.strokeStyle)}" ` +
      `stroke-width="${rounded(this.lineWidth)}"`);
  }

  /* Writes text; if `turned`, from the bottom to the top. */
  text(text, x, y, turned) {
    const size = parseFloat(this.font);
    const anchor = { start: "start", left: "start", center: "middle", end: "end", right: "end" };
    const at = `translate(${rounded(x + this.x)} ${rounded(y + this.y)})`;
    this.parts.push(`<text transform="${at}${turned ? " rotate(-90)" : ""}" font-size="${size}" ` +
      `text-anchor="${anchor[this.textAlign]}" fill="${plain(this.fillStyle)}">${escaped(text)}</text>`);
  }
}

/* Writes text on a canvas or an SvgPaper. */
const writeText = (c, text, x, y, turned) => {
  if (c.text) {
    c.text(text, x, y, turned);
    return;
  }
  c.save();
  c.translate(x, y);
  if (turned)
    c.rotate(-Math.PI / 2);
  c.fillText(text, 0, 0);
  c.restore();
};

/* Yields the lines of a text node: their words, place and height. */
function* linesOf(node) {
  const range = document.createRange();
  let line = null;
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    if (line && Math.abs(line.box.top - box.top) < 2)
      line.text += ` ${word}`;
    else {
      if (line)
        yield line;
      line = { text: word, box };
    }
  }
  if (line)
    yield line;
}

/* Writes the page's elements below a view's body. */
class PageWriter {
  constructor(body, dx, dy) {
    Object.assign(this, { body, dx, dy, parts: [] });
  }

  write(node) {
    if (node.nodeType === Node.TEXT_NODE)
      this.writeText(node);
    else if (node.nodeType === Node.ELEMENT_NODE && node.checkVisibility() &&
      !node.matches(".unsaved, select, input"))
      this.writeElement(node);
  }

  writeElement(node) {
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (node.paint) {
      const at = (node.origin ?? node).getBoundingClientRect();
      const paper = new SvgPaper(at.left + this.dx, at.top + this.dy);
      node.paint(paper);
      this.parts.push(...paper.parts);
      return;
    }
    if (node.cutsText && node.scrollWidth > node.clientWidth) {
      this.writeCut(node, style, box);
      return;
    }
    this.writeBoxes(node, style, box);
    for (const child of node.childNodes)
      this.write(child);
  }

  /* Writes the background and the border, and a token's weights. */
  writeBoxes(node, style, box) {
    const paper = new SvgPaper(box.left + this.dx, box.top + this.dy);
    paper.fillStyle = style.backgroundColor;
    if (!/, 0\)$/.test(style.backgroundColor))
      paper.fillRect(0, 0, box.width, box.height);
    const border = parseFloat(style.borderTopWidth);
    if (border > 0 && style.borderTopStyle !== "none") {
      paper.lineWidth = border;
      paper.strokeStyle = style.borderTopColor;
      paper.strokeRect(border / 2, border / 2, box.width - border, box.height - border);
    }
    (node.shades ?? []).forEach(({ colour, alpha }, n, all) => {
      paper.fillStyle = colour;
      paper.globalAlpha = alpha;
      if (alpha > 0)
        paper.fillRect(n * box.width / all.length, 0, box.width / all.length, box.height);
    });
    this.parts.push(...paper.parts);
  }

  /* Writes a token that is wider than its column without the part beyond it. */
  writeCut(node, style, box) {
    this.writeBoxes(node, style, box);
    const x = box.left + this.dx, y = box.top + this.dy, before = this.parts;
    this.parts = [];
    for (const child of node.childNodes)
      this.write(child);
    const inner = this.parts.join("");
    this.parts = [...before, `<svg x="${rounded(x)}" y="${rounded(y)}" width="${rounded(box.width)}" ` +
      `height="${rounded(box.height)}" viewBox="${rounded(x)} ${rounded(y)} ${rounded(box.width)} ` +
      `${rounded(box.height)}">${inner}</svg>`];
  }

  writeText(node) {
    const style = getComputedStyle(node.parentElement), size = parseFloat(style.fontSize);
    for (const { text, box } of linesOf(node))
      this.parts.push(`<text x="${rounded(box.left + this.dx)}" ` +
        `y="${rounded(box.top + this.dy + box.height / 2 + size * 0.35)}" font-size="${size}" ` +
        `font-weight="${style.fontWeight}" fill="${plain(style.color)}">${escaped(text)}</text>`);
  }
}

const FRAME = 16, CAPTION = 30; /* pixels around a saved picture, and above it */

/* Returns a view as { width, height, text }, where text is an SVG file. */
const svgOf = view => {
  const box = view.body.getBoundingClientRect(), ground = getComputedStyle(view.root);
  const width = Math.ceil(box.width + 2 * FRAME);
  const height = Math.ceil(Math.max(view.body.scrollHeight, box.height) + 2 * FRAME + CAPTION);
  const writer = new PageWriter(view.body, FRAME - box.left, FRAME + CAPTION - box.top);
  writer.write(view.body);
  const text = `<svg xmlns="${svgSpace}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="Helvetica, Arial, sans-serif">\n` +
    `<rect width="100%" height="100%" fill="${plain(ground.backgroundColor)}"/>\n` +
    `<text x="${FRAME}" y="28" font-size="15" font-weight="600" fill="${plain(ground.color)}">` +
    `${escaped(view.caption())}</text>\n${writer.parts.join("\n")}\n</svg>\n`;
  return { width, height, text };
};

const download = (blob, name) => {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

const fileName = (view, ending) =>
  `${view.caption().toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 80)}.${ending}`;

const saveSvg = view =>
  download(new Blob([svgOf(view).text], { type: "image/svg+xml" }), fileName(view, "svg"));

/* Draws the SVG twice as large, so that it is sharp in print. */
const savePng = async view => {
  const { width, height, text } = svgOf(view), picture = new Image();
  const scale = Math.min(2, 16384 / Math.max(width, height));
  picture.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await picture.decode();
  const canvas = element("canvas", { width: width * scale, height: height * scale });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  canvas.toBlob(blob => download(blob, fileName(view, "png")));
};
