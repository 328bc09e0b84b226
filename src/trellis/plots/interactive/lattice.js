// Draw the trellis of one sentence: SVG, or a canvas if more than 5,000 edges are shown.
//
// A view is {tokens, labels, spans, p (T·L), pairs ((T-1)·L·L), best, second, gold (label indices or
// null), pins {t: label}, forbidden [[t, label]], minimum (smallest p of an edge or label row), tip(t, y)}.

import { makeSvg, paintCanvas, paintGroup, readColours } from "./paint.js";

const MAX_SVG_EDGES = 5000, MAX_SVG_NODES = 400; // with more elements, a change takes longer than a frame
const MAX_UPRIGHT = 14; // tokens; if there are more, they are slanted and closer to each other
const NODE_REACH = 6, EDGE_REACH = 7; // pixels around a node or edge that still point at it

/** Return p in percent with as many digits as it needs: 0.4 %, 12.3 %, 100 %. */
export function formatPercent(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  const digits = p > 0.9995 || p === 0 ? 0 : 1;
  return `${(100 * p).toFixed(digits)} %`;
}

/** Order labels of spans by type, then B, I, L, U; others keep the order of the model. */
function compareLabels(names, spans) {
  if (!spans) return (a, b) => a - b;
  const keys = names.map((name) => {
    const cut = name.indexOf("-");
    return cut < 0 ? ["", name] : [name.slice(cut + 1), name.slice(0, cut)];
  });
  return (a, b) => (keys[a][0] < keys[b][0] ? -1 : keys[a][0] > keys[b][0] ? 1 : keys[a][1] < keys[b][1] ? -1 : 1);
}

/** Return the labels that get a row: all that reach the minimum somewhere, or lie on a path. */
function chooseRows(view) {
  const T = view.tokens.length, L = view.labels.length;
  const shown = new Set(Object.values(view.pins));
  for (const path of [view.best, view.second, view.gold]) path?.forEach((y) => y !== null && shown.add(y));
  for (const [, y] of view.forbidden) shown.add(y);
  for (const y of view.extra ?? []) shown.add(y);
  for (let n = 0; n < T * L; n++) if (view.p[n] >= view.minimum) shown.add(n % L);
  return [...shown].sort(compareLabels(view.labels, view.spans));
}

/** Positions of tokens and label rows, in CSS pixels. */
function makeGrid(view, rows, width) {
  const T = Math.max(view.tokens.length, 1);
  const slanted = T > MAX_UPRIGHT;
  const longest = Math.max(4, ...view.tokens.map((token) => token.length)) * 7.6;
  const names = Math.max(3, ...rows.map((y) => view.labels[y].length));
  const left = 14 + Math.min(names * 7, width < 560 ? 104 : 180);
  const room = (width - left - 20) / T;
  const column = slanted ? Math.max(46, Math.min(room, 80)) : Math.min(Math.max(longest + 14, 56, Math.min(room, 150)), 150);
  const row = rows.length > 30 ? 22 : rows.length > 16 ? 30 : 40;
  const top = 34 + (slanted ? Math.min(longest, 110) * 0.7 : 8);
  return {
    left, column, row, top, slanted, radius: Math.min(15, row * 0.38, column * 0.32),
    width: left + column * T + (slanted ? 50 : 16), height: top + row * Math.max(rows.length - 1, 0) + 26,
    x: (t) => left + column * (t + 0.5), y: (n) => top + row * n,
  };
}

const nodeRadius = (grid, p) => 3 + (grid.radius - 3) * Math.sqrt(p);
const edgeWidth = (grid, p) => 0.5 + p * Math.min(8, grid.row * 0.22);
const shorten = (text, pixels) => (text.length * 7.2 > pixels ? `${text.slice(0, Math.max(2, Math.floor(pixels / 7.2) - 1))}…` : text);

/** The shapes of a view, column by column, so that a canvas draws only what is in sight. */
class Scene {
  constructor(view, width) {
    this.view = view;
    this.rows = chooseRows(view);
    this.rowOf = new Map(this.rows.map((y, n) => [y, n]));
    this.grid = makeGrid(view, this.rows, width);
    this.forbidden = new Set(view.forbidden.map(([t, y]) => `${t} ${y}`));
    this.columns = view.tokens.map((_, t) => (t > 0 ? this.findEdges(t) : []));
    this.nEdges = this.columns.reduce((sum, edges) => sum + edges.length, 0);
  }

  /** Edges into position t that reach the minimum: {t, a, b, p}. */
  findEdges(t) {
    const { pairs, labels, minimum } = this.view, L = labels.length, edges = [];
    for (const a of this.rows) {
      for (const b of this.rows) {
        const p = pairs[((t - 1) * L + a) * L + b];
        if (p > 0 ? p >= minimum : minimum === 0) edges.push({ t, a, b, p });
      }
    }
    return edges;
  }

  line(kind, t, a, b, extra) {
    const { grid } = this;
    return { tag: "line", kind, x1: grid.x(t - 1), y1: grid.y(this.rowOf.get(a)), x2: grid.x(t), y2: grid.y(this.rowOf.get(b)), ...extra };
  }

  edgeShapes(t) {
    const { best } = this.view;
    return this.columns[t].map(({ a, b, p }) => {
      const onPath = best && best[t - 1] === a && best[t] === b;
      return this.line(onPath ? "best" : "edge", t, a, b, { width: edgeWidth(this.grid, p) + (onPath ? 1 : 0), opacity: onPath ? 0.85 : 0.25 + 0.65 * p });
    });
  }

  pathShapes(t) {
    const { best, second, selected } = this.view, shapes = [];
    const differs = second && (second[t] !== best[t] || second[t - 1] !== best[t - 1]);
    if (t > 0 && differs) shapes.push(this.line("second", t, second[t - 1], second[t], { width: 2.2 }));
    if (selected && selected.t === t && selected.a !== undefined && this.rowOf.has(selected.a) && this.rowOf.has(selected.b)) {
      shapes.push(this.line("selected", t, selected.a, selected.b, {}));
    }
    return shapes;
  }

  nodeShapes(t) {
    return this.rows.flatMap((y, n) => this.oneNode(t, y, n));
  }

  oneNode(t, y, n) {
    const { view, grid } = this, cx = grid.x(t), cy = grid.y(n), p = view.p[t * view.labels.length + y] ?? 0;
    const r = nodeRadius(grid, p), ring = (kind, more) => ({ tag: "circle", kind, cx, cy, r: r + more });
    const shapes = [];
    const onPath = view.best?.[t] === y;
    if (r > 4) shapes.push({ tag: "circle", kind: "ground", cx, cy, r }); // hides the edges below it
    shapes.push({ tag: "circle", kind: onPath ? "bestNode" : "node", cx, cy, r, fillOpacity: Math.max(p, 0.04), t, y });
    if (p >= 0.145 && grid.radius > 9) {
      shapes.push({ tag: "text", kind: p > 0.55 ? "light" : "dark", x: cx, y: cy + 3.5, text: (100 * p).toFixed(0), anchor: "middle" });
    }
    if (view.gold?.[t] === y) shapes.push(ring("gold", 3.5));
    if (view.pins[t] === y) shapes.push({ tag: "rect", kind: "pin", x: cx - r - 4, y: cy - r - 4, size: 2 * r + 8 });
    if (this.forbidden.has(`${t} ${y}`)) {
      shapes.push({ tag: "line", kind: "cross", x1: cx - 6, y1: cy - 6, x2: cx + 6, y2: cy + 6 });
      shapes.push({ tag: "line", kind: "cross", x1: cx - 6, y1: cy + 6, x2: cx + 6, y2: cy - 6 });
    }
    if (view.selected && view.selected.t === t && view.selected.y === y) shapes.push(ring("selected", 5));
    return shapes;
  }

  headShapes(t) {
    const { grid, view } = this, style = grid.slanted ? { angle: -45 } : { anchor: "middle" };
    const text = shorten(view.tokens[t], grid.slanted ? 120 : grid.column - 4);
    return [{ tag: "text", kind: "token", x: grid.x(t), y: grid.top - 28, text, ...style }];
  }

  guideShapes() {
    const { grid } = this;
    return this.rows.map((_, n) => ({ tag: "line", kind: "guide", x1: grid.left, y1: grid.y(n), x2: grid.width - 8, y2: grid.y(n) }));
  }

  labelShapes() {
    const { grid, view } = this;
    return this.rows.map((y, n) => ({ tag: "text", kind: "label", x: grid.left - 8, y: grid.y(n) + 4, text: shorten(view.labels[y], grid.left - 8), anchor: "end" }));
  }

  cursorShapes(cursor) {
    const { grid } = this, n = this.rowOf.get(cursor?.y);
    if (n === undefined) return [];
    return [{ tag: "rect", kind: "cursor", x: grid.x(cursor.t) - grid.radius - 6, y: grid.y(n) - grid.radius - 6, size: 2 * grid.radius + 12 }];
  }

  /** Return the node {t, y} or edge {t, a, b, p} nearest to a point, or null. */
  hit(x, y) {
    const { grid, view } = this;
    const t = Math.floor((x - grid.left) / grid.column), n = Math.round((y - grid.top) / grid.row);
    if (t >= 0 && t < view.tokens.length && n >= 0 && n < this.rows.length) {
      const p = view.p[t * view.labels.length + this.rows[n]] ?? 0;
      if (Math.hypot(x - grid.x(t), y - grid.y(n)) <= nodeRadius(grid, p) + NODE_REACH) return { t, y: this.rows[n] };
    }
    const step = Math.round((x - grid.left) / grid.column); // the edges into this position cross x
    let nearest = null, smallest = EDGE_REACH;
    for (const edge of this.columns[step] ?? []) {
      const y1 = grid.y(this.rowOf.get(edge.a)), y2 = grid.y(this.rowOf.get(edge.b));
      const slope = (y2 - y1) / grid.column, expected = y1 + slope * (x - grid.x(step - 1));
      const distance = Math.abs(y - expected) / Math.hypot(1, slope) - edgeWidth(grid, edge.p) / 2;
      if (distance < smallest) [nearest, smallest] = [edge, distance];
    }
    return nearest;
  }
}

/**
 * Create a lattice in `host`. Handlers: select({t, y} or {t, a, b}), pin(t, y), forbid(t, y), clear(t).
 * Returns {update(view), scene(), focus(t, y)}.
 */
export function createLattice(host, handlers = {}) {
  return new Lattice(host, handlers);
}

class Lattice {
  constructor(host, handlers) {
    this.handlers = handlers;
    const add = (parent, tag, className) => {
      const element = parent.appendChild(tag === "svg" ? makeSvg("svg") : document.createElement(tag));
      element.setAttribute("class", className);
      return element;
    };
    this.box = add(host, "div", "lattice-box");
    this.scroller = add(this.box, "div", "lattice-scroll");
    this.sheet = add(this.scroller, "div", "lattice-sheet"); // as large as the trellis: the names and the canvas stick to its edge
    this.names = add(this.sheet, "svg", "lattice-names");
    this.svg = add(this.sheet, "svg", "lattice-svg");
    this.canvas = add(this.sheet, "canvas", "lattice-canvas");
    this.tip = add(this.box, "div", "lattice-tip");
    this.live = add(this.box, "div", "lattice-live");
    this.live.setAttribute("aria-live", "polite");
    this.names.setAttribute("aria-hidden", "true");
    this.svg.setAttribute("aria-hidden", "true");
    this.groups = ["guides", "edges", "paths", "nodes", "heads", "cursor"].map(() => this.svg.appendChild(makeSvg("g")));
    this.nameGroup = this.names.appendChild(makeSvg("g"));
    this.tip.hidden = true;
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "application");
    this.listen();
  }

  listen() {
    const { scroller } = this;
    scroller.addEventListener("pointermove", (event) => this.hover(event));
    scroller.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    scroller.addEventListener("click", (event) => this.click(event));
    scroller.addEventListener("keydown", (event) => this.key(event));
    scroller.addEventListener("focus", () => { this.focused = true; this.paintCursor(); });
    scroller.addEventListener("blur", () => { this.focused = false; this.paintCursor(); });
    scroller.addEventListener("scroll", () => this.onCanvas && this.schedule());
    new ResizeObserver(() => { if (this.view && this.box.clientWidth !== this.width) this.update(this.view); }).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view && this.update(this.view));
  }

  scene() { return this.current; }

  update(view) {
    this.view = view;
    this.width = this.box.clientWidth;
    const scene = (this.current = new Scene(view, this.width || 800));
    const { grid } = scene;
    if (!this.cursor || this.cursor.t >= view.tokens.length || !scene.rowOf.has(this.cursor.y)) {
      const t = Math.min(this.cursor?.t ?? 0, Math.max(view.tokens.length - 1, 0));
      this.cursor = view.tokens.length ? { t, y: view.best?.[t] ?? scene.rows[0] } : null;
    }
    this.onCanvas = scene.nEdges > MAX_SVG_EDGES || scene.rows.length * view.tokens.length > MAX_SVG_NODES;
    this.box.dataset.painter = this.onCanvas ? "canvas" : "svg";
    this.box.dataset.edges = scene.nEdges;
    this.scroller.setAttribute("aria-label", `Trellis of ${view.tokens.length} tokens and ${scene.rows.length} labels. Arrow keys move, Enter explains, E explains the edge, P pins, X forbids, Delete clears.`);
    this.svg.toggleAttribute("hidden", this.onCanvas);
    this.names.toggleAttribute("hidden", this.onCanvas);
    this.canvas.hidden = !this.onCanvas;
    this.sheet.style.width = `${grid.width}px`;
    this.sheet.style.height = `${grid.height}px`;
    if (this.onCanvas) this.resizeCanvas();
    else this.paintSvg(scene, grid);
    this.scroller.style.maxHeight = this.onCanvas ? `${this.canvas.clientHeight + 16}px` : "";
  }

  paintSvg(scene, grid) {
    for (const [svg, width] of [[this.svg, grid.width], [this.names, grid.left]]) {
      svg.setAttribute("width", width);
      svg.setAttribute("height", grid.height);
    }
    const every = (method) => this.view.tokens.flatMap((_, t) => scene[method](t));
    const layers = [scene.guideShapes(), every("edgeShapes"), every("pathShapes"), every("nodeShapes"), every("headShapes")];
    layers.forEach((shapes, n) => paintGroup(this.groups[n], shapes));
    paintGroup(this.nameGroup, scene.labelShapes());
    this.paintCursor();
  }

  paintCursor() {
    if (!this.current) return;
    if (this.onCanvas) this.schedule();
    else paintGroup(this.groups[5], this.focused ? this.current.cursorShapes(this.cursor) : []);
  }

  resizeCanvas() {
    const { grid } = this.current;
    const height = Math.min(grid.height, Math.max(320, window.innerHeight * 0.75));
    this.canvas.style.width = `${this.scroller.clientWidth}px`;
    this.canvas.style.height = `${height}px`;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.scroller.clientWidth * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.paintVisible();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.paintVisible(); });
  }

  /** Draw the columns in sight on the canvas; the names of the labels stay at the left. */
  paintVisible() {
    if (!this.onCanvas) return;
    const { current: scene, canvas, scroller } = this, { grid } = scene, ratio = window.devicePixelRatio || 1;
    const colours = readColours(this.box);
    const context = canvas.getContext("2d"), x = scroller.scrollLeft, y = scroller.scrollTop;
    const first = Math.max(0, Math.floor((x - grid.left) / grid.column) - 2);
    const last = Math.min(this.view.tokens.length, Math.ceil((x + scroller.clientWidth - grid.left) / grid.column) + 2);
    const visible = Array.from({ length: Math.max(last - first, 0) }, (_, n) => first + n);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.translate(-x, -y);
    paintCanvas(context, scene.guideShapes(), colours);
    for (const method of ["edgeShapes", "pathShapes", "nodeShapes"]) paintCanvas(context, visible.flatMap((t) => scene[method](t)), colours);
    if (this.focused) paintCanvas(context, scene.cursorShapes(this.cursor), colours);
    context.fillStyle = colours.paper;
    context.fillRect(x, y, scroller.clientWidth, grid.top - 20);
    context.translate(0, y);
    paintCanvas(context, visible.flatMap((t) => scene.headShapes(t)), colours);
    context.translate(x, -y);
    context.fillRect(0, y, grid.left, scroller.clientHeight);
    paintCanvas(context, scene.labelShapes(), colours);
  }

  locate(event) {
    const box = this.scroller.getBoundingClientRect();
    return this.current?.hit(event.clientX - box.left + this.scroller.scrollLeft, event.clientY - box.top + this.scroller.scrollTop) ?? null;
  }

  describe(target) {
    const { view } = this, L = view.labels.length;
    if (target.a === undefined) {
      const extra = view.tip?.(target.t, target.y);
      const marks = [view.pins[target.t] === target.y && "pinned", this.current.forbidden.has(`${target.t} ${target.y}`) && "forbidden", view.gold?.[target.t] === target.y && "true label"].filter(Boolean);
      return [`${view.tokens[target.t]} · ${view.labels[target.y]}`, `p = ${view.p[target.t * L + target.y].toFixed(4)}`, ...marks, ...(extra ? [extra] : [])];
    }
    const { t, a, b } = target;
    const p = view.pairs[((t - 1) * L + a) * L + b];
    return [`${view.tokens[t - 1]} → ${view.tokens[t]}`, `${view.labels[a]} → ${view.labels[b]}`, `p = ${p.toFixed(4)}`];
  }

  hover(event) {
    const target = this.locate(event);
    this.tip.hidden = !target;
    this.scroller.classList.toggle("pointing", Boolean(target));
    if (!target) return;
    this.tip.replaceChildren(...this.describe(target).map((text, n) => Object.assign(document.createElement(n ? "span" : "b"), { textContent: text })));
    const box = this.box.getBoundingClientRect();
    const x = event.clientX - box.left, right = x > box.width - 190;
    this.tip.style.left = right ? "" : `${x + 14}px`;
    this.tip.style.right = right ? `${box.width - x + 14}px` : "";
    this.tip.style.top = `${Math.max(0, event.clientY - box.top - 10)}px`;
  }

  click(event) {
    const target = this.locate(event);
    if (!target) return;
    if (target.y !== undefined) this.cursor = { t: target.t, y: target.y };
    if (event.shiftKey && target.y !== undefined) this.handlers.forbid?.(target.t, target.y);
    else if (event.altKey && target.y !== undefined) this.handlers.pin?.(target.t, target.y);
    else this.handlers.select?.(target);
    this.paintCursor();
  }

  key(event) {
    const { current: scene, cursor, view, handlers } = this;
    if (!scene || !cursor || event.ctrlKey || event.metaKey || event.altKey) return;
    const n = scene.rowOf.get(cursor.y);
    const move = (t, row) => this.focus(Math.min(Math.max(t, 0), view.tokens.length - 1), scene.rows[Math.min(Math.max(row, 0), scene.rows.length - 1)]);
    const actions = {
      ArrowLeft: () => move(cursor.t - 1, n), ArrowRight: () => move(cursor.t + 1, n),
      ArrowUp: () => move(cursor.t, n - 1), ArrowDown: () => move(cursor.t, n + 1),
      Home: () => move(0, n), End: () => move(view.tokens.length - 1, n),
      Enter: () => handlers.select?.({ ...cursor }), " ": () => handlers.select?.({ ...cursor }),
      e: () => cursor.t > 0 && handlers.select?.({ t: cursor.t, a: this.bestBefore(cursor), b: cursor.y }),
      p: () => handlers.pin?.(cursor.t, cursor.y), x: () => handlers.forbid?.(cursor.t, cursor.y),
      Delete: () => handlers.clear?.(cursor.t), Backspace: () => handlers.clear?.(cursor.t),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** The label before the cursor's node with the largest pairwise marginal. */
  bestBefore({ t, y }) {
    const { pairs, labels } = this.view, L = labels.length;
    let best = 0;
    for (let a = 1; a < L; a++) if (pairs[((t - 1) * L + a) * L + y] > pairs[((t - 1) * L + best) * L + y]) best = a;
    return best;
  }

  focus(t, y) {
    const { grid } = this.current;
    this.cursor = { t, y };
    const x = grid.x(t), { scroller } = this;
    if (x - grid.left - grid.column < scroller.scrollLeft) scroller.scrollLeft = x - grid.left - grid.column;
    if (x + grid.column > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = x + grid.column - scroller.clientWidth;
    this.live.textContent = this.describe(this.cursor).join(", ");
    this.paintCursor();
  }
}
