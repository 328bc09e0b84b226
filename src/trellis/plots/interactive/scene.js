// The shapes of a trellis and their positions.
//
// A view is {tokens, labels, spans, p (T·L), pairs ((T-1)·L·L), best, second, gold (label indices or
// null), pins {t: label}, forbidden [[t, label]], minimum (smallest p of an edge or label row), tip(t, y)}.

const MAX_UPRIGHT = 14; // tokens; if there are more, they are slanted and closer to each other
const NODE_REACH = 6,
	EDGE_REACH = 7; // pixels around a node or edge that still point at it

/** Order labels of spans by type, then B, I, L, U; others keep the order of the model. */
function compareLabels(names, spans) {
	if (!spans) return (a, b) => a - b;
	const keys = names.map(name => {
		const cut = name.indexOf("-");
		return cut < 0 ? ["", name] : [name.slice(cut + 1), name.slice(0, cut)];
	});
	return (a, b) => (keys[a][0] < keys[b][0] ? -1 : keys[a][0] > keys[b][0] ? 1 : keys[a][1] < keys[b][1] ? -1 : 1);
}

/** Return the labels that get a row: all that reach the minimum somewhere, or lie on a path. */
function chooseRows(view) {
	const T = view.tokens.length,
		L = view.labels.length;
	const shown = new Set(Object.values(view.pins));
	for (const path of [view.best, view.second, view.gold]) path?.forEach(y => y !== null && shown.add(y));
	for (const [, y] of view.forbidden) shown.add(y);
	for (const y of view.extra ?? []) shown.add(y);
	for (let n = 0; n < T * L; n++) if (view.p[n] >= view.minimum) shown.add(n % L);
	return [...shown].sort(compareLabels(view.labels, view.spans));
}

/** Positions of tokens and label rows, in CSS pixels. */
function makeGrid(view, rows, width) {
	const T = Math.max(view.tokens.length, 1);
	const slanted = T > MAX_UPRIGHT;
	const longest = Math.max(4, ...view.tokens.map(token => token.length)) * 7.6;
	const names = Math.max(3, ...rows.map(y => view.labels[y].length));
	const left = 14 + Math.min(names * 7, width < 560 ? 104 : 180);
	const room = (width - left - (slanted ? 56 : 20)) / T;
	const column = slanted
		? Math.max(46, Math.min(room, 80))
		: Math.max(56, Math.min(longest + 14, 150), Math.min(room, 240));
	const row = rows.length > 30 ? 22 : rows.length > 16 ? 30 : 40;
	const top = 34 + (slanted ? Math.min(longest, 110) * 0.7 : 8);
	return {
		left,
		column,
		row,
		top,
		slanted,
		radius: Math.min(15, row * 0.38, column * 0.32),
		width: left + column * T + (slanted ? 50 : 16),
		height: top + row * Math.max(rows.length - 1, 0) + 26,
		x: t => left + column * (t + 0.5),
		y: n => top + row * n
	};
}

const nodeRadius = (grid, p) => 3 + (grid.radius - 3) * Math.sqrt(p);
const edgeWidth = (grid, p) => 0.5 + p * Math.min(8, grid.row * 0.22);
const shorten = (text, pixels) =>
	text.length * 7.2 > pixels ? `${text.slice(0, Math.max(2, Math.floor(pixels / 7.2) - 1))}…` : text;

/** The shapes of a view, column by column, so that a canvas draws only what is in sight. */
export class Scene {
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
		const { pairs, labels, minimum } = this.view,
			L = labels.length,
			edges = [];
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
		return {
			tag: "line",
			kind,
			x1: grid.x(t - 1),
			y1: grid.y(this.rowOf.get(a)),
			x2: grid.x(t),
			y2: grid.y(this.rowOf.get(b)),
			...extra
		};
	}

	edgeShapes(t) {
		const { best } = this.view;
		return this.columns[t].map(({ a, b, p }) => {
			const onPath = best && best[t - 1] === a && best[t] === b;
			return this.line(onPath ? "best" : "edge", t, a, b, {
				width: edgeWidth(this.grid, p) + (onPath ? 1 : 0),
				opacity: onPath ? 0.85 : 0.25 + 0.65 * p
			});
		});
	}

	pathShapes(t) {
		const { best, second, selected } = this.view,
			shapes = [];
		const differs = second && (second[t] !== best[t] || second[t - 1] !== best[t - 1]);
		if (t > 0 && differs) shapes.push(this.line("second", t, second[t - 1], second[t], { width: 2.2 }));
		if (
			selected &&
			selected.t === t &&
			selected.a !== undefined &&
			this.rowOf.has(selected.a) &&
			this.rowOf.has(selected.b)
		) {
			shapes.push(this.line("selected", t, selected.a, selected.b, {}));
		}
		return shapes;
	}

	nodeShapes(t) {
		return this.rows.flatMap((y, n) => this.oneNode(t, y, n));
	}

	oneNode(t, y, n) {
		const { view, grid } = this,
			cx = grid.x(t),
			cy = grid.y(n),
			p = view.p[t * view.labels.length + y] ?? 0;
		const r = nodeRadius(grid, p),
			ring = (kind, more) => ({ tag: "circle", kind, cx, cy, r: r + more });
		const shapes = [];
		const onPath = view.best?.[t] === y;
		if (r > 4) shapes.push({ tag: "circle", kind: "ground", cx, cy, r }); // hides the edges below it
		shapes.push({ tag: "circle", kind: onPath ? "bestNode" : "node", cx, cy, r, fillOpacity: Math.max(p, 0.04), t, y });
		if (p >= 0.145 && grid.radius > 9) {
			shapes.push({
				tag: "text",
				kind: p > 0.55 ? "light" : "dark",
				x: cx,
				y: cy + 3.5,
				text: (100 * p).toFixed(0),
				anchor: "middle"
			});
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
		const { grid, view } = this,
			style = grid.slanted ? { angle: -45 } : { anchor: "middle" };
		const text = shorten(view.tokens[t], grid.slanted ? 120 : grid.column - 4);
		return [{ tag: "text", kind: "token", x: grid.x(t), y: grid.top - 28, text, ...style }];
	}

	guideShapes() {
		const { grid } = this;
		return this.rows.map((_, n) => ({
			tag: "line",
			kind: "guide",
			x1: grid.left,
			y1: grid.y(n),
			x2: grid.width - 8,
			y2: grid.y(n)
		}));
	}

	labelShapes() {
		const { grid, view } = this;
		return this.rows.map((y, n) => ({
			tag: "text",
			kind: "label",
			x: grid.left - 8,
			y: grid.y(n) + 4,
			text: shorten(view.labels[y], grid.left - 8),
			anchor: "end"
		}));
	}

	cursorShapes(cursor) {
		const { grid } = this,
			n = this.rowOf.get(cursor?.y);
		if (n === undefined) return [];
		return [
			{
				tag: "rect",
				kind: "cursor",
				x: grid.x(cursor.t) - grid.radius - 6,
				y: grid.y(n) - grid.radius - 6,
				size: 2 * grid.radius + 12
			}
		];
	}

	/** Return the node {t, y} or edge {t, a, b, p} nearest to a point, or null. */
	hit(x, y) {
		const { grid, view } = this;
		const t = Math.floor((x - grid.left) / grid.column),
			n = Math.round((y - grid.top) / grid.row);
		if (t >= 0 && t < view.tokens.length && n >= 0 && n < this.rows.length) {
			const p = view.p[t * view.labels.length + this.rows[n]] ?? 0;
			if (Math.hypot(x - grid.x(t), y - grid.y(n)) <= nodeRadius(grid, p) + NODE_REACH) return { t, y: this.rows[n] };
		}
		const step = Math.round((x - grid.left) / grid.column); // the edges into this position cross x
		let nearest = null,
			smallest = EDGE_REACH;
		for (const edge of this.columns[step] ?? []) {
			const y1 = grid.y(this.rowOf.get(edge.a)),
				y2 = grid.y(this.rowOf.get(edge.b));
			const slope = (y2 - y1) / grid.column,
				expected = y1 + slope * (x - grid.x(step - 1));
			const distance = Math.abs(y - expected) / Math.hypot(1, slope) - edgeWidth(grid, edge.p) / 2;
			if (distance < smallest) [nearest, smallest] = [edge, distance];
		}
		return nearest;
	}
}
