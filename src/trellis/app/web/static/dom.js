// Elements, numbers and downloads. Text from data only ever becomes text nodes.

/**
 * Return an element. Properties: class, data-*, aria-*, role and other attributes; functions are
 * listeners ({click() {}}); booleans and value, min, max … are set as properties.
 */
export function make(tag, properties = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(properties)) {
		if (typeof value === "function") element.addEventListener(name, value);
		else if (typeof value === "boolean" || name === "value" || name === "textContent") element[name] = value;
		else if (value !== null && value !== undefined) element.setAttribute(name, value);
	}
	element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
	return element;
}

export function button(text, click, properties = {}) {
	return make("button", { type: "button", click, ...properties }, text);
}

/** A <select> of [value, text] pairs; `change` gets the chosen value. */
export function select(name, options, chosen, change) {
	const element = make("select", { "aria-label": name, change: () => change(element.value) });
	element.append(...options.map(([value, text]) => make("option", { value: String(value) }, String(text))));
	element.value = String(chosen);
	return element;
}

/** A label with its control on one line. */
export function field(text, control) {
	return make("label", { class: "field" }, make("span", {}, text), control);
}

/** A choice among the models of a kind; nothing if there is only one. */
export function modelField(session, kind, change) {
	const models = session.modelsOf(kind);
	if (models.length < 2) return "";
	const options = models.map(model => [model.number, model.name]);
	const choose = number => {
		session.choose(kind, number);
		change();
	};
	return field("model", select("Model", options, session.chosen(kind), choose));
}

/** A panel of a view, with a name for screen readers. */
export function panel(name, ...children) {
	return make("section", { class: "panel", "aria-label": name }, ...children);
}

/** The content of a view that needs labelled data, if there are none. */
export function missingData(purpose) {
	const text = `Start the inspector with a labelled file to ${purpose}: trellis serve model.trellis --data dev.conll`;
	return panel("No labelled file", make("p", { class: "soft" }, text));
}

/** A table with a caption for screen readers. Cells are nodes or text; columns in `right` are numbers. */
export function table(caption, head, rows, right = []) {
	const cells = (values, tag) =>
		values.map((value, n) =>
			make(tag, { class: right.includes(n) ? "right" : null, scope: tag === "th" ? "col" : null }, value)
		);
	return make(
		"div",
		{ class: "scroll" },
		make(
			"table",
			{},
			make("caption", { class: "hidden" }, caption),
			make("thead", {}, make("tr", {}, ...cells(head, "th"))),
			make("tbody", {}, ...rows.map(row => (row instanceof Node ? row : make("tr", {}, ...cells(row, "td")))))
		)
	);
}

/** A bar that is full if the fraction is 1; negative fractions are drawn in the other colour. */
export function bar(fraction) {
	const element = make("span", { class: fraction < 0 ? "meter minus" : "meter", "aria-hidden": "true" }, make("i"));
	element.firstChild.style.width = `${100 * Math.min(Math.abs(fraction), 1)}%`;
	return element;
}

/** A number with a real minus sign; null is a forbidden score. */
export function number(value, digits = 2) {
	if (value === null || value === undefined || value === -Infinity) return "−∞";
	return value.toFixed(digits).replace("-", "−");
}

/** Offer a text as a file. */
export function download(name, text, type = "text/plain") {
	const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Show a message for a few seconds; screen readers speak it at once. */
export function announce(text, kind = "note") {
	const message = make("p", { class: kind }, text);
	document.getElementById("messages").replaceChildren(message);
	setTimeout(() => message.remove(), kind === "error" ? 12_000 : 5_000);
}

/** The class of a label's colour: labels of the same type of span have the same. */
export function colourClass(labels, label) {
	const type = name => name.slice(name.indexOf("-") + 1);
	const types = [...new Set(labels.filter(name => name !== "O").map(type))];
	return label === "O" ? "outside" : `c${Math.max(types.indexOf(type(label)), 0) % 6}`;
}

/** Words with labels below them. `labels[t]` null is unknown; `click(t)` makes buttons of them, `colours` are other labels for the colours. */
export function labelledWords(
	tokens,
	labels,
	names,
	{ click, wrong = () => false, marked = () => "", colours = labels } = {}
) {
	return make(
		"div",
		{ class: "words" },
		...tokens.map((token, t) => {
			const label = labels[t] ?? "?",
				mark = marked(t);
			const properties = {
				class: `labelled ${colourClass(names, colours[t] ?? "O")} ${wrong(t) ? "wrong" : ""} ${mark}`,
				"data-t": t
			};
			const asButton = {
				type: "button",
				click: () => click(t),
				"aria-label": `${token} ${label}${mark ? `, ${mark}` : ""}`
			};
			return make(
				click ? "button" : "span",
				click ? { ...properties, ...asButton } : properties,
				make("span", { class: "word" }, token),
				" ",
				make("small", {}, label)
			);
		})
	);
}
