// Paint shapes: as elements of an SVG group, or on a canvas. A shape is {tag, kind, ...positions}.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

// Stroke and fill of each kind of shape, as names of colours in lattice.css.
const PAINTS = {
	guide: { stroke: "line", opacity: 0.6 },
	edge: { stroke: "soft" },
	best: { stroke: "blue" },
	second: { stroke: "red", dash: [6, 4] },
	node: { fill: "blue", stroke: "soft" },
	bestNode: { fill: "blue", stroke: "blue", width: 2 },
	ground: { fill: "paper" },
	gold: { stroke: "green", width: 2 },
	pin: { stroke: "ink", width: 3 },
	cross: { stroke: "red", width: 2.5 },
	cursor: { stroke: "purple", width: 2, dash: [3, 2] },
	selected: { stroke: "purple", width: 3 },
	token: { fill: "ink", size: 13 },
	label: { fill: "ink", size: 12 },
	light: { fill: "paper", size: 10, weight: 600 },
	dark: { fill: "ink", size: 10 }
};

/** An SVG element with attributes. */
export function makeSvg(tag, attributes = {}) {
	const element = document.createElementNS(SVG_NAMESPACE, tag);
	for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
	return element;
}

/** The colours of the theme at an element, by name. */
export function readColours(element) {
	const style = getComputedStyle(element);
	return Object.fromEntries(
		["paper", "ink", "soft", "line", "blue", "red", "green", "purple"].map(name => [
			name,
			style.getPropertyValue(`--${name}`).trim()
		])
	);
}

// Changes that nobody can see must not touch an element: each costs a new style.
const round = (value, steps) => Math.round(value * steps) / steps;

/** Attributes of an SVG element for a shape. Colours are CSS variables of the page. */
function svgAttributes(shape) {
	const paint = PAINTS[shape.kind],
		colour = name => (name ? `var(--${name})` : "none");
	const attributes = { class: `t-${shape.kind}`, fill: colour(paint.fill) };
	if (shape.tag === "text") {
		Object.assign(attributes, {
			x: shape.x,
			y: shape.y,
			"font-size": paint.size,
			"text-anchor": shape.anchor ?? "start"
		});
		if (paint.weight) attributes["font-weight"] = paint.weight;
		if (shape.angle) attributes.transform = `rotate(${shape.angle} ${shape.x} ${shape.y})`;
		return attributes;
	}
	if (paint.stroke) {
		Object.assign(attributes, {
			stroke: colour(paint.stroke),
			"stroke-width": round(shape.width ?? paint.width ?? 1, 10)
		});
		const opacity = round(shape.opacity ?? paint.opacity ?? 1, 50);
		if (opacity < 1) attributes["stroke-opacity"] = opacity;
		if (paint.dash) attributes["stroke-dasharray"] = paint.dash.join(" ");
	}
	if (shape.fillOpacity !== undefined) attributes["fill-opacity"] = round(shape.fillOpacity, 50);
	if (shape.tag === "rect")
		return { ...attributes, x: shape.x, y: shape.y, width: shape.size, height: shape.size, rx: 5 };
	for (const name of ["x1", "y1", "x2", "y2", "cx", "cy", "r"])
		if (name in shape) attributes[name] = round(shape[name], 10);
	return attributes;
}

/** Make the children of an SVG group equal to the shapes. Equal attributes are not touched. */
export function paintGroup(group, shapes) {
	const records = (group.records ??= []);
	shapes.forEach((shape, n) => {
		const attributes = svgAttributes(shape);
		let record = records[n];
		if (record?.tag !== shape.tag) {
			const element = makeSvg(shape.tag);
			if (record) record.element.replaceWith(element);
			else group.append(element);
			record = records[n] = { tag: shape.tag, element, attributes: {}, text: "" };
		}
		for (const name of Object.keys(record.attributes)) if (!(name in attributes)) record.element.removeAttribute(name);
		for (const [name, value] of Object.entries(attributes)) {
			if (record.attributes[name] !== value) record.element.setAttribute(name, value);
		}
		record.attributes = attributes;
		if (shape.tag === "text" && record.text !== shape.text) record.element.textContent = record.text = shape.text;
	});
	for (const record of records.splice(shapes.length)) record.element.remove();
}

/** Draw shapes on a canvas. Thin edges of the same kind share one path: they are the many. */
export function paintCanvas(context, shapes, colours) {
	const thin = new Path2D();
	for (const shape of shapes) {
		const paint = PAINTS[shape.kind];
		if (shape.kind === "edge" && shape.width < 0.6) {
			thin.moveTo(shape.x1, shape.y1);
			thin.lineTo(shape.x2, shape.y2);
			continue;
		}
		context.setLineDash(paint.dash ?? []);
		const path = new Path2D();
		if (shape.tag === "text") {
			context.save();
			context.translate(shape.x, shape.y);
			context.rotate(((shape.angle ?? 0) * Math.PI) / 180);
			context.font = `${paint.weight ?? 400} ${paint.size}px system-ui, sans-serif`;
			context.textAlign = { middle: "center", end: "right" }[shape.anchor] ?? "left";
			context.fillStyle = colours[paint.fill];
			context.fillText(shape.text, 0, 0);
			context.restore();
			continue;
		}
		if (shape.tag === "line") {
			path.moveTo(shape.x1, shape.y1);
			path.lineTo(shape.x2, shape.y2);
		}
		if (shape.tag === "circle") path.arc(shape.cx, shape.cy, shape.r, 0, 2 * Math.PI);
		if (shape.tag === "rect") path.rect(shape.x, shape.y, shape.size, shape.size);
		if (paint.fill) {
			context.globalAlpha = shape.fillOpacity ?? 1;
			context.fillStyle = colours[paint.fill];
			context.fill(path);
		}
		if (paint.stroke) {
			context.globalAlpha = shape.opacity ?? paint.opacity ?? 1;
			context.strokeStyle = colours[paint.stroke];
			context.lineWidth = shape.width ?? paint.width ?? 1;
			context.stroke(path);
		}
		context.globalAlpha = 1;
	}
	context.setLineDash([]);
	context.globalAlpha = 0.3;
	context.lineWidth = 0.6;
	context.strokeStyle = colours.soft;
	context.stroke(thin);
	context.globalAlpha = 1;
}
