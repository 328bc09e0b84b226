// Scores of parts of the data: sentences with a word, a label, unseen words or a length. F1 with an interval.

import { button, field, make, missingData, modelField, number, panel, select, table } from "./dom.js";
import { makeSvg } from "./paint.js";

const KINDS = [
	["word", "with the word"],
	["label", "with the label"],
	["unseen", "with unseen words"],
	["length", "of length"]
];
const SLICE_POLL = 600; // ms between questions while the data are analysed

export class SlicesView {
	constructor(app) {
		this.session = app.session;
		this.title = "Slices";
		this.element = make("div");
		if (this.session.data) this.build();
		else this.element.append(missingData("score slices of it"));
	}

	build() {
		this.tools = make("form", {
			class: "tools",
			submit: event => {
				event.preventDefault();
				this.add();
			}
		});
		this.result = make("div", { id: "slice-rows" });
		this.element.append(
			make(
				"section",
				{ class: "panel" },
				make("h2", {}, `Slices of ${this.session.data.name}`),
				make(
					"p",
					{ class: "soft" },
					"Scores of the sentences of each slice, and the 95 % bootstrap interval of F1 (of the accuracy, if labels are not spans)."
				),
				this.tools,
				this.result
			)
		);
	}

	get model() {
		return this.session.chosen("chain");
	}

	/** The slices of the URL; at the first visit, all sentences, unseen words, and two lengths. */
	get slices() {
		try {
			const list = JSON.parse(this.session.get("slices", "null"));
			if (Array.isArray(list)) return list.map(([kind, value]) => (value ? { kind, value } : { kind }));
		} catch {
			/* the address was cut or edited */
		}
		return [
			{ kind: "length", value: "1-" },
			{ kind: "unseen" },
			{ kind: "length", value: "1-8" },
			{ kind: "length", value: "9-" }
		];
	}

	set slices(list) {
		this.session.set({ slices: JSON.stringify(list.map(({ kind, value }) => [kind, value])) });
		this.load();
	}

	async show() {
		if (!this.session.data) return;
		const { labels } = this.session.models[this.model],
			types = [...new Set(labels.filter(label => label !== "O").map(label => label.slice(label.indexOf("-") + 1)))];
		this.value = make("input", {
			id: "slice-value",
			size: "14",
			"aria-label": "Word, label or range of lengths",
			placeholder: "word"
		});
		this.suggestions = make("datalist", { id: "slice-labels" }, ...types.map(type => make("option", { value: type })));
		this.kind = select("Kind of slice", KINDS, "word", kind => {
			this.value.hidden = kind === "unseen";
			this.value.placeholder = { word: "word", label: types[0] ?? "label", length: "5-10" }[kind] ?? "";
			if (kind === "label") this.value.setAttribute("list", "slice-labels");
			else this.value.removeAttribute("list");
		});
		this.kind.id = "slice-kind";
		this.tools.replaceChildren(
			modelField(this.session, "chain", () => this.show()),
			field("sentences", this.kind),
			this.value,
			this.suggestions,
			make("button", { type: "submit", class: "first", id: "slice-add" }, "Add slice"),
			button(
				"Every label",
				() => {
					this.slices = types.map(value => ({ kind: "label", value }));
				},
				{ id: "slice-all" }
			)
		);
		await this.load();
	}

	add() {
		const kind = this.kind.value,
			value = kind === "unseen" ? "" : this.value.value.trim();
		if (kind !== "unseen" && !value) return this.value.focus();
		if (kind === "length" && !/^(\d+|\d+-\d*|-\d+)$/.test(value)) {
			this.value.setCustomValidity("a length or a range, such as 7, 5-10 or 20-");
			this.value.reportValidity();
			this.value.addEventListener("input", () => this.value.setCustomValidity(""), { once: true });
			return undefined;
		}
		this.slices = [...this.slices, value ? { kind, value } : { kind }];
		return undefined;
	}

	async load() {
		const slices = this.slices,
			request = { model: this.model, slices },
			key = (this.wanted = JSON.stringify(request));
		let answer;
		try {
			answer = slices.length ? await this.session.post("/page/slices", request) : { slices: [] };
		} catch (error) {
			this.result.replaceChildren(make("p", { class: "soft" }, error.message));
			return;
		}
		if (this.wanted !== key) return;
		const rows = answer.slices.map((slice, n) => [
			describeSlice(slice),
			slice.sentences.toLocaleString("en"),
			slice.tokens.toLocaleString("en"),
			slice.accuracy === null ? "" : percent(slice.accuracy),
			slice.f1 === null ? "" : percent(slice.f1),
			slice.f1 === null ? "no sentence" : `${percent(slice.low)} – ${percent(slice.high)}`,
			slice.f1 === null ? "" : drawInterval(slice),
			button(
				"✕",
				() => {
					this.slices = slices.filter((_, other) => other !== n);
				},
				{ "aria-label": `Remove slice ${describeSlice(slice)}` }
			)
		]);
		this.result.replaceChildren(
			table(
				"Scores of slices",
				["sentences", "count", "tokens", "accuracy", "F1", "95 % interval", "0 – 100 %", "remove"],
				rows,
				[1, 2, 3, 4, 5]
			)
		);
		if (answer.progress < 1) {
			this.result.append(make("p", { class: "soft" }, `Analysed so far: ${percent(answer.progress)} %.`));
			setTimeout(() => this.element.isConnected && this.wanted === key && this.load(), SLICE_POLL);
		}
	}

	async replay() {
		if (this.session.data && this.wanted) await this.load();
	}
}

const percent = value => number(100 * value, 1);

function describeSlice({ kind, value }) {
	if (kind === "unseen") return "with words that are not in the training data";
	if (kind === "length")
		return value === "1-" ? "all" : `of ${value.replace("-", value.endsWith("-") ? " or more" : " to ")} tokens`;
	return `with the ${kind} “${value}”`;
}

/** A line from 0 to 100 % with the interval and the score. */
function drawInterval({ f1, low, high }) {
	const x = value => (4 + 182 * value).toFixed(1),
		name = `F1 ${percent(f1)}, interval ${percent(low)} to ${percent(high)}`;
	const svg = makeSvg("svg", { class: "interval", role: "img", "aria-label": name });
	const add = (tag, attributes) => svg.append(makeSvg(tag, attributes));
	add("rect", { x: 4, y: 8, width: 182, height: 2 });
	add("line", { x1: x(low), x2: x(high), y1: 9, y2: 9 });
	for (const end of [low, high]) add("line", { x1: x(end), x2: x(end), y1: 4, y2: 14 });
	add("circle", { cx: x(f1), cy: 9, r: 4.5 });
	return svg;
}
