// Draw the trellis of one sentence: SVG, or a canvas if more than 5,000 edges are shown.

import { makeSvg, paintCanvas, paintGroup, readColours } from "./paint.js";
import { Scene } from "./scene.js";

const MAX_SVG_EDGES = 5000,
	MAX_SVG_NODES = 400; // with more elements, a change takes longer than a frame

/** Return p in percent with as many digits as it needs: 0.4 %, 12.3 %, 100 %. */
export function formatPercent(p) {
	if (p > 0 && p < 0.0005) return "< 0.1 %";
	const digits = p > 0.9995 || p === 0 ? 0 : 1;
	return `${(100 * p).toFixed(digits)} %`;
}

/**
 * Create a lattice in `host`. Handlers: select({t, y} or {t, a, b}), pin(t, y), forbid(t, y), clear(t).
 * Returns {update(view), focus(t, y)}.
 */
export function createLattice(host, handlers = {}) {
	return new Lattice(host, handlers);
}

class Lattice {
	constructor(host, handlers) {
		this.handlers = handlers;
		const add = (parent, tag, name) =>
			parent.appendChild(
				tag === "svg"
					? makeSvg("svg", { class: name, "aria-hidden": true })
					: Object.assign(document.createElement(tag), { className: name })
			);
		this.box = add(host, "div", "lattice-box");
		this.scroller = add(this.box, "div", "lattice-scroll");
		this.sheet = add(this.scroller, "div", "lattice-sheet"); // as large as the trellis: the names and the canvas stick to its edge
		this.names = add(this.sheet, "svg", "lattice-names");
		this.svg = add(this.sheet, "svg", "lattice-svg");
		this.canvas = add(this.sheet, "canvas", "lattice-canvas");
		this.tip = add(this.box, "div", "lattice-tip");
		this.live = add(this.box, "div", "lattice-live");
		this.live.setAttribute("aria-live", "polite");
		this.groups = ["guides", "edges", "paths", "nodes", "heads", "cursor"].map(() =>
			this.svg.appendChild(makeSvg("g"))
		);
		this.nameGroup = this.names.appendChild(makeSvg("g"));
		this.tip.hidden = true;
		this.scroller.tabIndex = 0;
		this.scroller.setAttribute("role", "application");
		this.listen();
	}

	listen() {
		const { scroller } = this;
		scroller.addEventListener("pointermove", event => this.hover(event));
		scroller.addEventListener("pointerleave", () => {
			this.tip.hidden = true;
		});
		scroller.addEventListener("click", event => this.click(event));
		scroller.addEventListener("keydown", event => this.key(event));
		scroller.addEventListener("focus", () => {
			this.focused = true;
			this.paintCursor();
		});
		scroller.addEventListener("blur", () => {
			this.focused = false;
			this.paintCursor();
		});
		scroller.addEventListener("scroll", () => this.onCanvas && this.schedule());
		new ResizeObserver(() => {
			if (this.view && this.box.clientWidth !== this.width) this.update(this.view);
		}).observe(this.box);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.view && this.update(this.view));
	}

	update(view) {
		this.view = view;
		this.tip.hidden = true; // its numbers may be old
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
		this.scroller.setAttribute(
			"aria-label",
			`Trellis of ${view.tokens.length} tokens and ${scene.rows.length} labels. Arrow keys move, Enter explains, E explains the edge, P pins, X forbids, Delete clears.`
		);
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
		for (const [svg, width] of [
			[this.svg, grid.width],
			[this.names, grid.left]
		]) {
			svg.setAttribute("width", width);
			svg.setAttribute("height", grid.height);
		}
		const every = method => this.view.tokens.flatMap((_, t) => scene[method](t));
		const layers = [
			scene.guideShapes(),
			every("edgeShapes"),
			every("pathShapes"),
			every("nodeShapes"),
			every("headShapes")
		];
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
		const size = [Math.round(this.scroller.clientWidth * ratio), Math.round(height * ratio)];
		if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
		this.schedule();
	}

	/** Paint once before the next frame, however often this is called. */
	schedule() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = null;
			this.paintVisible();
		});
	}

	/** Draw the columns in sight on the canvas; the names of the labels stay at the left. */
	paintVisible() {
		if (!this.onCanvas) return;
		const { current: scene, canvas, scroller } = this,
			{ grid } = scene,
			ratio = window.devicePixelRatio || 1;
		const colours = readColours(this.box);
		const context = canvas.getContext("2d"),
			x = scroller.scrollLeft,
			y = scroller.scrollTop;
		const first = Math.max(0, Math.floor((x - grid.left) / grid.column) - 2);
		const last = Math.min(this.view.tokens.length, Math.ceil((x + scroller.clientWidth - grid.left) / grid.column) + 2);
		const visible = Array.from({ length: Math.max(last - first, 0) }, (_, n) => first + n);
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.clearRect(0, 0, canvas.width, canvas.height);
		context.translate(-x, -y);
		paintCanvas(context, scene.guideShapes(), colours);
		for (const method of ["edgeShapes", "pathShapes", "nodeShapes"])
			paintCanvas(
				context,
				visible.flatMap(t => scene[method](t)),
				colours
			);
		if (this.focused) paintCanvas(context, scene.cursorShapes(this.cursor), colours);
		context.fillStyle = colours.paper;
		context.fillRect(x, y, scroller.clientWidth, grid.top - 20);
		context.translate(0, y);
		paintCanvas(
			context,
			visible.flatMap(t => scene.headShapes(t)),
			colours
		);
		context.translate(x, -y);
		context.fillRect(0, y, grid.left, scroller.clientHeight);
		paintCanvas(context, scene.labelShapes(), colours);
	}

	locate(event) {
		const box = this.scroller.getBoundingClientRect();
		return (
			this.current?.hit(
				event.clientX - box.left + this.scroller.scrollLeft,
				event.clientY - box.top + this.scroller.scrollTop
			) ?? null
		);
	}

	describe(target) {
		const { view } = this,
			L = view.labels.length;
		if (target.a === undefined) {
			const extra = view.tip?.(target.t, target.y);
			const marks = [
				view.pins[target.t] === target.y && "pinned",
				this.current.forbidden.has(`${target.t} ${target.y}`) && "forbidden",
				view.gold?.[target.t] === target.y && "true label"
			].filter(Boolean);
			return [
				`${view.tokens[target.t]} · ${view.labels[target.y]}`,
				`p = ${view.p[target.t * L + target.y].toFixed(4)}`,
				...marks,
				...(extra ? [extra] : [])
			];
		}
		const { t, a, b } = target;
		const p = view.pairs[((t - 1) * L + a) * L + b];
		return [
			`${view.tokens[t - 1]} → ${view.tokens[t]}`,
			`${view.labels[a]} → ${view.labels[b]}`,
			`p = ${p.toFixed(4)}`
		];
	}

	hover(event) {
		const target = this.locate(event);
		this.tip.hidden = !target;
		this.scroller.classList.toggle("pointing", Boolean(target));
		if (!target) return;
		this.tip.replaceChildren(
			...this.describe(target).map((text, n) =>
				Object.assign(document.createElement(n ? "span" : "b"), { textContent: text })
			)
		);
		const box = this.box.getBoundingClientRect();
		const x = event.clientX - box.left,
			right = x > box.width - 190;
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
		const move = (t, row) =>
			this.focus(
				Math.min(Math.max(t, 0), view.tokens.length - 1),
				scene.rows[Math.min(Math.max(row, 0), scene.rows.length - 1)]
			);
		const actions = {
			ArrowLeft: () => move(cursor.t - 1, n),
			ArrowRight: () => move(cursor.t + 1, n),
			ArrowUp: () => move(cursor.t, n - 1),
			ArrowDown: () => move(cursor.t, n + 1),
			Home: () => move(0, n),
			End: () => move(view.tokens.length - 1, n),
			Enter: () => handlers.select?.({ ...cursor }),
			" ": () => handlers.select?.({ ...cursor }),
			e: () => cursor.t > 0 && handlers.select?.({ t: cursor.t, a: this.bestBefore(cursor), b: cursor.y }),
			p: () => handlers.pin?.(cursor.t, cursor.y),
			x: () => handlers.forbid?.(cursor.t, cursor.y),
			Delete: () => handlers.clear?.(cursor.t),
			Backspace: () => handlers.clear?.(cursor.t)
		};
		const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
		if (!action) return;
		event.preventDefault();
		action();
	}

	/** The label before the cursor's node with the largest pairwise marginal. */
	bestBefore({ t, y }) {
		const { pairs, labels } = this.view,
			L = labels.length;
		let best = 0;
		for (let a = 1; a < L; a++) if (pairs[((t - 1) * L + a) * L + y] > pairs[((t - 1) * L + best) * L + y]) best = a;
		return best;
	}

	focus(t, y) {
		const { grid } = this.current;
		this.cursor = { t, y };
		const x = grid.x(t),
			{ scroller } = this;
		if (x - grid.left - grid.column < scroller.scrollLeft) scroller.scrollLeft = x - grid.left - grid.column;
		if (x + grid.column > scroller.scrollLeft + scroller.clientWidth)
			scroller.scrollLeft = x + grid.column - scroller.clientWidth;
		this.live.textContent = this.describe(this.cursor).join(", ");
		this.paintCursor();
	}
}
