/* data.js - the data of the page: tokens, and maps of attention. The values are stored as base64 in
 * separate elements, and are decoded when they are first shown. */

const page = JSON.parse(document.getElementById("page").textContent);

/* ---- Values ---------------------------------------------------------------------------------- */

const bytesOf = id => {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64)
    return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++)
    bytes[i] = binary.charCodeAt(i);
  return bytes;
};

let halves = null; /* the value of each 16-bit pattern */
const halfTable = () => {
  if (halves)
    return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    halves[bits] = bits & 0x8000 ? -size : size;
  }
  return halves;
};

const decoders = {
  f32(bytes, count) {
    const view = new DataView(bytes.buffer), values = new Float32Array(count);
    for (let i = 0; i < count; i++)
      values[i] = view.getFloat32(4 * i, true);
    return values;
  },
  f16(bytes, count) {
    const table = halfTable(), values = new Float32Array(count);
    for (let i = 0; i < count; i++)
      values[i] = table[bytes[2 * i] | (bytes[2 * i + 1] << 8)];
    return values;
  },
  /* 1 .. 254 are equal steps of the logarithm from the threshold to 1, 255 is NaN; 0 followed by n
   * stands for n + 1 omitted weights. */
  u8(bytes, count) {
    const table = new Float32Array(256), values = new Float32Array(count);
    for (let code = 1; code < 255; code++)
      table[code] = page.threshold ** ((254 - code) / 253);
    table[255] = NaN;
    for (let i = 0, at = 0; i < count;) {
      const code = bytes[at++];
      if (code)
        values[i++] = table[code];
      else
        i += bytes[at++] + 1;
    }
    return values;
  },
};

/* Significant digits of each type. */
const digits = { f32: 6, f16: 3, u8: 2 };

const recent = []; /* the last decoded values; all of a long text would need too much memory */
const KEEP = 8;

const read = (values, count) => {
  let found = recent.find(entry => entry.values === values);
  if (!found) {
    found = { values, data: decoders[values.type](bytesOf(values.id), count) };
    if (recent.push(found) > KEEP)
      recent.shift();
  }
  return found.data;
};

/* A map's weights are [heads, rows, columns], its queries [heads, rows, size], its keys [heads,
 * columns, size]. */
const weightsOf = map => read(map.weights, map.heads * map.rows * map.columns);
const queriesOf = map => read(map.query, map.heads * map.rows * map.size);
const keysOf = map => read(map.key, map.heads * map.columns * map.size);

const withMinus = text => text.replace("-", "−");

/* Returns a value with all its significant digits. */
const number = (value, values) => {
  if (!Number.isFinite(value))
    return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  return withMinus(String(Number(value.toPrecision(digits[values.type]))));
};

/* Returns a value with three significant digits, or fewer if it has fewer. */
const brief = (value, values) => {
  if (!Number.isFinite(value) || value === 0)
    return number(value, values);
  const text = value.toPrecision(Math.min(digits[values.type], 3));
  return withMinus(Math.abs(value) < 1000 ? text : String(Number(text)));
};

/* ---- Tokens ---------------------------------------------------------------------------------- */

const pretty = token => token.replaceAll("Ġ", " ").replaceAll("▁", " ").replaceAll("</w>", "");

/* Makes white space visible: line breaks and tabs, and spaces of a token without letters. */
const visible = token => {
  const text = token.replaceAll("\n", "↵").replaceAll("\t", "⇥");
  return /^ +$/.test(text) ? text.replaceAll(" ", "␣") : text;
};

/* Returns whether a token has the form of a special one: [CLS], <s>, </s>, <|endoftext|>. */
const isSpecial = token => /^(\[[A-Z]+\d*\]|<\/?[a-z_]+\d*>|<\|.*\|>|\((begin|end)\))$/.test(token);

/* Returns the maps of a part that a view includes. */
const mapsOf = (set, view, part, kind) => set.maps.filter(map =>
  map.part === part && map.kind === kind && (!view.layers || view.layers.includes(map.layer)));

const kindNames = { weights: "Weights", rollout: "Rollout", gradient: "Gradient × attention" };

/* Returns the kinds of maps that a view can show of a part. */
const kindsOf = (set, view, part) =>
  Object.keys(kindNames).filter(kind => mapsOf(set, view, part, kind).length > 0);

/* Returns the opacity of a value of 1. Weights are opacities; gradients are not, so the largest of
 * a map is opaque. */
const scaleOf = map => {
  if (map.kind !== "gradient")
    return 1;
  const largest = weightsOf(map).reduce((most, w) => w > most && Number.isFinite(w) ? w : most, 0);
  return largest > 0 ? 1 / largest : 1;
};

/* Returns what a view of a set can show: each filter is a part's maps, restricted to a range of
 * rows and of columns. `order` is the order of the filters of a sentence pair. */
const filtersOf = (set, view, order) => {
  const show = tokens => view.prettify ? tokens.map(token => visible(pretty(token))) : tokens;
  const first = show(set.tokens), second = show(set.decoderTokens);
  const sides = { self: [first, first], encoder: [first, first], decoder: [second, second],
    cross: [second, first] };
  const filter = (name, part, from, to, above, below) => ({ name, part,
    left: sides[part][0].slice(from, to), right: sides[part][1].slice(above, below),
    row: from, column: above });
  const whole = (name, part) => filter(name, part, 0, sides[part][0].length, 0,
    sides[part][1].length);
  const has = part => mapsOf(set, view, part, "weights").length > 0;
  const names = { self: "All", encoder: "Encoder", decoder: "Decoder", cross: "Cross" };
  const filters = Object.keys(names).filter(has).map(part => whole(names[part], part));
  const b = set.sentenceB, n = first.length;
  if (b && has("self")) {
    const of = { A: [0, b], B: [b, n] };
    for (const [from, to] of order)
      filters.push(filter(`Sentence ${from} → Sentence ${to}`, "self", ...of[from], ...of[to]));
  }
  return filters;
};
