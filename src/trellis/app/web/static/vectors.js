// A map of the neighbours of a word: their vectors on two principal components, and their similarities.

import { bar, field, make, modelField, number, panel, select, table } from "./dom.js";
import { makeSvg } from "./paint.js";

const MARGIN = 46,
	LETTER = 7.2,
	LINE = 16;

export class VectorsView {
	constructor(app) {
		this.session = app.session;
		this.title = "Words";
		this.tools = make("form", {
			class: "tools",
			submit: event => {
				event.preventDefault();
				this.open(this.input.value.trim());
			}
		});
		this.input = make("input", {
			id: "word",
			"aria-label": "Word",
			size: "18",
			spellcheck: "false",
			autocapitalize: "none"
		});
		this.status = make("p", { class: "soft", role: "status" });
		this.map = make("div", { id: "map" });
		this.list = make("div", { id: "neighbours" });
		this.element = make(
			"div",
			{},
			panel("Word", this.tools, this.status),
			make("div", { class: "pair" }, panel("Map", this.map), panel("Neighbours", this.list))
		);
	}

	get model() {
		return this.session.chosen("vectors");
	}

	async show() {
		const count = select(
			"Number of neighbours",
			[10, 20, 40, 80].map(n => [n, n]),
			this.session.getNumber("neighbours", 20),
			value => {
				this.session.set({ neighbours: value });
				this.load();
			}
		);
		this.tools.replaceChildren(
			make("h2", {}, "Neighbours of a word"),
			modelField(this.session, "vectors", () => this.load()),
			field("word", this.input),
			make("button", { type: "submit", class: "first", id: "word-open" }, "Show"),
			field("neighbours", count)
		);
		await this.load();
	}

	open(word) {
		this.session.set({ word });
		return this.load();
	}

	async load() {
		const word = this.session.get("word");
		this.input.value = word;
		if (!word) {
			this.status.textContent = "Type a word, or open one from a sentence.";
			return;
		}
		try {
			const { words } = await this.ask(word);
			this.status.textContent = `The ${words.length} words nearest to “${word}”. Distances on the map are those of two principal components; the list has the cosines.`;
			this.drawMap(words, word);
			this.list.replaceChildren(
				table(
					`Neighbours of ${word}`,
					["word", "cosine"],
					words
						.filter(entry => entry.word !== word)
						.map(entry => [
							make("button", { type: "button", class: "plain", click: () => this.open(entry.word) }, entry.word),
							make("span", {}, bar(entry.cosine), number(entry.cosine, 3))
						])
				)
			);
		} catch (error) {
			this.status.textContent = error.message;
			this.map.replaceChildren();
			this.list.replaceChildren();
		}
	}

	drawMap(words, centre) {
		const width = Math.max(this.map.clientWidth, 320),
			height = 0.7 * width,
			boxes = [];
		const name = `Map of the neighbours of ${centre}`;
		const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "group", "aria-label": name });
		const range = name => [Math.min(...words.map(entry => entry[name])), Math.max(...words.map(entry => entry[name]))];
		const [left, right] = range("x"),
			[low, high] = range("y");
		const x = value => MARGIN + ((value - left) / (right - left || 1)) * (width - 2.6 * MARGIN),
			y = value => height - MARGIN - ((value - low) / (high - low || 1)) * (height - 2 * MARGIN);
		const order = [...words].sort((a, b) => (a.word === centre ? -1 : b.word === centre ? 1 : b.cosine - a.cosine));
		for (const entry of order)
			svg.append(this.drawWord(entry, x(entry.x), y(entry.y), entry.word === centre, boxes, width));
		this.map.replaceChildren(svg);
	}

	/** A dot with its word at the first of four places where it covers no other word. */
	drawWord(entry, x, y, isCentre, boxes, limit) {
		const text = `${entry.word}: cosine ${number(entry.cosine, 3)}`,
			width = entry.word.length * LETTER;
		const group = makeSvg("g", { tabindex: 0, role: "button", "data-word": entry.word, "aria-label": text });
		const radius = isCentre ? 7 : 3 + 4 * Math.max(entry.cosine, 0);
		group.append(
			makeSvg("title"),
			makeSvg("circle", { cx: x, cy: y, r: radius, fill: `var(--${isCentre ? "red" : "blue"})`, "fill-opacity": 0.75 })
		);
		group.firstChild.textContent = text;
		group.addEventListener("click", () => this.open(entry.word));
		group.addEventListener("keydown", event => event.key === "Enter" && this.open(entry.word));
		const places = [
			[x + 10, y + 4],
			[x - 10 - width, y + 4],
			[x - width / 2, y - 11],
			[x - width / 2, y + 21]
		];
		const free = places.find(
			([a, b]) =>
				a >= 0 &&
				a + width <= limit &&
				boxes.every(box => a + width < box[0] || a > box[0] + box[2] || Math.abs(b - box[1]) > LINE)
		);
		if (free || isCentre) {
			const [a, b] = free ?? places[0];
			const label = group.appendChild(makeSvg("text", { x: a, y: b, "font-weight": isCentre ? 700 : 400 }));
			label.textContent = entry.word;
			boxes.push([a, b, width]);
		}
		return group;
	}

	ask(word) {
		return this.session.post("/page/neighbors", {
			model: this.model,
			word,
			count: this.session.getNumber("neighbours", 20)
		});
	}

	async replay() {
		if (this.session.get("word")) await this.ask(this.session.get("word"));
	}
}
