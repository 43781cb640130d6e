// Replays on a canvas what resources.py and renderer.py wrote. One module with player.js and screen.js (see ../module.py).

const NOTHING = 0xffff;
const CAPS = ["butt", "round", "square"];
const JOINS = ["miter", "round", "bevel"];
const LARGEST = 1 << 25; // pixels of an image; more is not a picture of ours

class Reader {
  // Little-endian numbers one after the other; a RangeError beyond the end.
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }
  get left() { return this.bytes.byteLength - this.at; }
  u8() { return this.view.getUint8(this.at++); }
  u16() { this.at += 2; return this.view.getUint16(this.at - 2, true); }
  i16() { this.at += 2; return this.view.getInt16(this.at - 2, true); }
  u32() { this.at += 4; return this.view.getUint32(this.at - 4, true); }
  take(count) {
    if (count > this.left) throw new RangeError(`${count} bytes wanted, ${this.left} left`);
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }
  u16s(count) { const from = new Reader(this.take(2 * count)); return Uint16Array.from({ length: count }, () => from.u16()); }
  i16s(count) { const from = new Reader(this.take(2 * count)); return Int16Array.from({ length: count }, () => from.i16()); }
}

function css(rgba) {
  return rgba[3] ? `rgba(${rgba[0]},${rgba[1]},${rgba[2]},${rgba[3] / 255})` : null;
}

function pathOf(reader) {
  const count = reader.u16(), coded = reader.u8(), unit = 1 / (1 << reader.u8());
  const places = reader.i16s(2 * count), codes = coded ? reader.take(count) : null, path = new Path2D();
  const x = (i) => places[2 * i] * unit, y = (i) => places[2 * i + 1] * unit;
  for (let i = 0; i < count; i++) {
    const code = codes ? codes[i] : i ? 2 : 1;
    if (code === 1) path.moveTo(x(i), y(i));
    else if (code === 2) path.lineTo(x(i), y(i));
    else if (code === 3) { path.quadraticCurveTo(x(i), y(i), x(i + 1), y(i + 1)); i += 1; }
    else if (code === 4) { path.bezierCurveTo(x(i), y(i), x(i + 1), y(i + 1), x(i + 2), y(i + 2)); i += 2; }
    else if (code === 79) path.closePath();
    else throw new RangeError(`no such code of a path: ${code}`);
  }
  return { path, places, unit };
}

class Resources {
  // What was sent once and is named by its number. Frames keep the resources that they were written with.
  constructor(unit) {
    this.unit = unit;
    this.styles = []; this.shapes = []; this.tiles = []; this.colours = []; this.names = []; this.stamps = [];
    this.sheets = new Map(); // images put together from tiles
    this.inked = new Map(); // stamps in a colour
  }
  style(reader) {
    const stroke = css(reader.take(4)), fill = css(reader.take(4)), width = reader.u16() / 64, ends = reader.u8();
    const count = reader.u8(), offset = reader.u16() / 64, dashes = Array.from(reader.u16s(count), (one) => one / 64);
    const box = reader.i16s(4), clip = reader.u16();
    this.styles.push({
      stroke, fill, width, cap: CAPS[ends >> 4], join: JOINS[ends & 15], dashes, offset,
      box: box[2] < 0 ? null : box, clip, clipped: box[2] < 0 && clip === NOTHING ? "" : `${box} ${clip}`,
    });
  }
  tile(reader) {
    const wide = reader.u8(), high = reader.u8(), count = reader.u8(), pixels = new Uint32Array(wide * high);
    const palette = Uint32Array.from(reader.u16s(count || pixels.length), (one) => this.colours[one]);
    if (count) reader.take(pixels.length).forEach((one, i) => { pixels[i] = palette[one]; });
    else pixels.set(palette);
    this.tiles.push(pixels.length ? new ImageData(new Uint8ClampedArray(pixels.buffer), wide, high) : null);
  }
  stamp(reader) {
    const wide = reader.u16(), high = reader.u16();
    this.stamps.push({ wide, high, ink: reader.take(wide * high) });
  }
  name(reader) {
    this.names.push(JSON.parse(new TextDecoder().decode(reader.take(reader.u16()))));
  }
  colour(number) {
    const one = this.colours[number];
    return `rgba(${one & 255},${(one >> 8) & 255},${(one >> 16) & 255},${(one >>> 24) / 255})`;
  }
  inkOf(number, colour) {
    // A word in a colour, as a canvas.
    const key = number * 65536 + colour;
    let made = this.inked.get(key);
    if (!made) {
      const { wide, high, ink } = this.stamps[number], one = this.colours[colour];
      const pixels = new Uint32Array(wide * high);
      ink.forEach((cover, i) => { pixels[i] = (one & 0xffffff) | (Math.round(cover * (one >>> 24) / 255) << 24); });
      made = canvasOf(wide, high);
      if (wide * high) made.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), wide, high), 0, 0);
      this.inked.set(key, made);
    }
    return made;
  }
  sheet(order, wide, high, side, numbers) {
    // An image of tiles; only those that differ from the last time are put.
    const key = `${order} ${wide} ${high} ${side}`, across = Math.ceil(wide / side);
    if (wide * high > LARGEST) throw new RangeError(`an image of ${wide} x ${high} pixels`);
    let sheet = this.sheets.get(key);
    if (!sheet) {
      sheet = { canvas: canvasOf(wide, high), numbers: new Int32Array(numbers.length).fill(-1) };
      this.sheets.set(key, sheet);
    }
    const pen = sheet.canvas.getContext("2d");
    numbers.forEach((number, i) => {
      if (number === sheet.numbers[i]) return;
      pen.putImageData(this.tiles[number], side * (i % across), side * Math.floor(i / across));
      sheet.numbers[i] = number;
    });
    return sheet.canvas;
  }
}

function canvasOf(wide, high) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.max(wide, 1), Math.max(high, 1)];
  return canvas;
}

export class Film {
  // The frames of one run, by the number of their record.
  constructor() {
    this.resources = null;
    this.clear();
  }
  clear() {
    this.frames = new Map();
    this.order = []; // the records that have frames, ascending
  }
  feed(body, caption = "", progress = "") {
    // Reads one body; returns the record whose frame it held, or -1. Throws what a broken body makes it throw.
    const reader = new Reader(body);
    let record = -1;
    while (reader.left > 0) {
      const kind = reader.u8();
      if (kind === 5) this.resources = new Resources(1 / (1 << reader.u8()));
      else if (!this.resources) throw new RangeError("a body that does not begin a resources");
      else if (kind === 1) this.resources.style(reader);
      else if (kind === 2) this.resources.shapes.push(pathOf(reader).path);
      else if (kind === 3) this.resources.tile(reader);
      else if (kind === 6) { const count = reader.u16(); for (let i = 0; i < count; i++) this.resources.colours.push(reader.u32()); }
      else if (kind === 7) this.resources.name(reader);
      else if (kind === 9) this.resources.stamp(reader);
      else if (kind === 4) {
        record = reader.u32();
        this.keep(record, { body: reader.take(reader.u32()).slice(), resources: this.resources, caption, progress });
      } else throw new RangeError(`no such chunk: ${kind}`);
    }
    return record;
  }
  keep(record, frame) {
    if (!this.frames.has(record)) {
      let at = this.order.length;
      while (at > 0 && this.order[at - 1] > record) at--;
      this.order.splice(at, 0, record);
    }
    this.frames.set(record, frame);
  }
  get last() { return this.order.length - 1; }
  at(place) { return this.frames.get(this.order[place]); }
}

// Paints a frame. Views say which part of the picture goes where: { x, wide, high } in the picture's pixels, (left, top)
// and `scale` in the canvas's. Returns what was named, for pointers: [{ name, points | box, view }].
export function paint(canvas, frame, views) {
  const pen = canvas.getContext("2d", { alpha: false }), named = [];
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.imageSmoothingQuality = "high";
  for (const view of views) {
    pen.save();
    pen.beginPath();
    pen.rect(view.left, view.top, view.wide * view.scale, view.high * view.scale);
    pen.clip();
    replay(pen, frame, view, named);
    pen.restore();
  }
  return named;
}

function replay(pen, frame, view, named) {
  const { resources } = frame, reader = new Reader(frame.body), k = view.scale;
  const dx = view.left - view.x * k, dy = view.top;
  let clipped = "", images = 0, name = null;
  const plain = () => pen.setTransform(k, 0, 0, k, dx, dy);
  const unclip = () => { if (clipped) pen.restore(); clipped = ""; };
  const dress = (style) => {
    if (style.clipped !== clipped) {
      unclip();
      clipped = style.clipped;
      if (clipped) {
        pen.save();
        plain();
        pen.beginPath();
        if (style.box) { const [a, b, c, d] = style.box; pen.rect(a, b, c - a, d - b); pen.clip(); }
        if (style.clip !== NOTHING) pen.clip(resources.shapes[style.clip]);
      }
    }
    pen.fillStyle = style.fill; pen.strokeStyle = style.stroke; pen.lineWidth = style.width;
    pen.lineCap = style.cap; pen.lineJoin = style.join;
    pen.setLineDash(style.dashes); pen.lineDashOffset = style.offset;
  };
  const draw = (style, path) => {
    if (style.fill) pen.fill(path);
    if (style.stroke) pen.stroke(path);
  };
  while (reader.left > 0) {
    const kind = reader.u8();
    if (kind === 10) {
      const style = resources.styles[reader.u16()], { path, places, unit } = pathOf(reader);
      dress(style);
      plain();
      draw(style, path);
      if (name) named.push({ name, view, points: places, unit, line: !style.fill });
    } else if (kind === 11) {
      const style = resources.styles[reader.u16()], shape = resources.shapes[reader.u16()], places = reader.i16s(2 * reader.u16());
      dress(style);
      for (let i = 0; i < places.length; i += 2) { // at whole pixels, as Agg puts them
        pen.setTransform(k, 0, 0, k, Math.floor(places[i] * resources.unit * k + dx + 0.5), Math.floor(places[i + 1] * resources.unit * k + dy + 0.5));
        draw(style, shape);
      }
      if (name) named.push({ name, view, points: places, unit: resources.unit, line: false });
    } else if (kind === 12) {
      const [x, y, w, h] = Array.from(reader.i16s(4), (one) => one * resources.unit), wide = reader.u16(), high = reader.u16();
      const side = reader.u8();
      reader.u8();
      const numbers = reader.u16s(Math.ceil(wide / side) * Math.ceil(high / side));
      const sheet = resources.sheet(images++, wide, high, side, numbers);
      unclip();
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.imageSmoothingEnabled = (k * w) % wide !== 0;
      pen.drawImage(sheet, x * k + dx, y * k + dy, w * k, h * k);
      if (name) named.push({ name, view, box: [x, y, w, h] });
    } else if (kind === 13) {
      const count = reader.u16(), colours = reader.u16s(count), [x, y, w, h] = [0, 1, 2, 3].map(() => reader.i16s(count));
      unclip();
      plain();
      for (let i = 0; i < count; i++) {
        pen.fillStyle = resources.colour(colours[i]);
        pen.fillRect(x[i], y[i], w[i], h[i]);
      }
      if (name) for (let i = 0; i < count; i++) named.push({ name, view, box: [x[i], y[i], w[i], h[i]], part: i });
    } else if (kind === 14) {
      const count = reader.u16(), stamps = reader.u16s(count), colours = reader.u16s(count), [x, y] = [0, 1].map(() => reader.i16s(count));
      unclip();
      plain();
      pen.imageSmoothingEnabled = k !== 1;
      for (let i = 0; i < count; i++) pen.drawImage(resources.inkOf(stamps[i], colours[i]), x[i], y[i]);
    } else if (kind === 20) {
      const number = reader.u16();
      name = number === NOTHING ? null : resources.names[number];
    } else throw new RangeError(`no such operation: ${kind}`);
  }
  unclip();
}

export class Inflater {
  // One raw deflate stream in pieces; each piece is told with the length of its body.
  constructor(heard, broken) {
    const stream = new DecompressionStream("deflate-raw");
    this.writer = stream.writable.getWriter();
    this.wanted = []; this.pieces = []; this.held = 0;
    this.heard = heard;
    this.read(stream.readable.getReader()).catch(broken);
    this.broken = broken;
  }
  feed(bytes, length, note) {
    this.wanted.push({ length, note });
    this.writer.write(bytes).catch(this.broken);
  }
  async read(reader) {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.pieces.push(value);
      this.held += value.length;
      while (this.wanted.length && this.held >= this.wanted[0].length) {
        const { length, note } = this.wanted.shift();
        this.heard(this.cut(length), note);
      }
    }
  }
  cut(length) {
    const body = new Uint8Array(length);
    for (let at = 0; at < length;) {
      const piece = this.pieces[0], part = piece.subarray(0, length - at);
      body.set(part, at);
      at += part.length;
      if (part.length === piece.length) this.pieces.shift(); else this.pieces[0] = piece.subarray(part.length);
    }
    this.held -= length;
    return body;
  }
}
