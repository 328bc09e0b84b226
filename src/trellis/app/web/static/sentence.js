// The view of one sentence: type, read the labels and the trellis, pin, forbid, and compare the best paths.

import { Details, findRunnerUp, makeExplainRequest } from "./details.js";
import { announce, button, field, labelledWords, make, modelField, panel, select, table } from "./dom.js";
import { formatPercent } from "./lattice.js";
import { Trellis } from "./trellis.js";

const MINIMA = [
	[0.1, "10 %"],
	[0.01, "1 %"],
	[0.001, "0.1 %"],
	[0.0001, "0.01 %"],
	[0, "0: all"]
];
const HINTS = {
	text: "Type a sentence.",
	columns: "This model reads columns: type one token per line, its columns separated by blanks.",
	features: "This model reads ready features: type one token per line, its features separated by blanks."
};
const SAVED_LABELS = 3,
	SAVED_POSITIONS = 40; // of which a saved page has the explanations

export class SentenceView {
	constructor(app) {
		this.app = app;
		this.session = app.session;
		this.title = "Sentence";
		this.wanted = null; // how to mark the sentence that waits for the one under way
		this.build();
	}

	build() {
		const { session } = this;
		this.input = make("textarea", {
			id: "text",
			rows: "2",
			spellcheck: "false",
			autocomplete: "off",
			"aria-label": "Sentence to label",
			input: () => this.typed()
		});
		this.words = make("div", { id: "words", class: "words-host" });
		this.status = make("p", { id: "status", class: "soft", role: "status" });
		this.latticeHost = make("div", { id: "lattice" });
		this.paths = make("section", { id: "paths", class: "panel", "aria-label": "Best labellings" });
		this.details = new Details(
			session,
			session.modelsOf("vectors").length ? word => this.app.go("vectors", { word }) : null
		);
		this.trellis = new Trellis(this.latticeHost, { select: () => this.selected(), change: () => this.changed() });
		this.clearButton = button("Clear pins", () => this.trellis.clear(), { id: "clear" });
		this.choice = make("div", { class: "tools" });
		this.element = make(
			"div",
			{ class: "sentence-view" },
			panel("Sentence", this.choice, this.input, this.words, this.status),
			panel("Trellis", this.makeTools(), this.latticeHost),
			make("div", { class: "pair" }, this.details.element, this.paths)
		);
	}

	makeTools() {
		const { session } = this;
		this.minimum = select("Smallest probability of an edge", MINIMA, session.getNumber("minimum", 0.01), value => {
			session.set({ minimum: value === "0.01" ? null : value });
			this.trellis.minimum = Number(value);
			this.trellis.draw();
		});
		this.minimum.id = "minimum";
		return make(
			"div",
			{ class: "tools" },
			make("h2", {}, "Trellis"),
			field("edges and labels from", this.minimum),
			this.clearButton,
			make(
				"details",
				{ class: "keys" },
				make("summary", {}, "Keys"),
				make(
					"p",
					{},
					"In the trellis: arrows move, Enter explains a node, E its most probable edge, P pins, X forbids, Delete clears. Alt-click pins, Shift-click forbids."
				)
			)
		);
	}

	get model() {
		return this.session.chosen("chain");
	}

	/** Open the sentence of the URL. */
	async show() {
		const { session } = this;
		session.openFirst(this.model);
		this.showChoice();
		this.trellis.minimum = session.getNumber("minimum", 0.01);
		this.minimum.value = String(this.trellis.minimum);
		this.trellis.count = session.getNumber("k", 5);
		await this.load(this.readTouched);
	}

	showChoice() {
		const { session } = this;
		this.choice.replaceChildren(modelField(session, "chain", () => this.load()));
		if (session.data) {
			const index = session.parameters.has("index") ? session.getNumber("index", 0) : null;
			const step = change => () => this.open(Math.min(Math.max((index ?? -1) + change, 0), session.data.size - 1));
			this.choice.append(
				button("‹ previous", step(-1)),
				make(
					"span",
					{ class: "soft" },
					index === null
						? `${session.data.size.toLocaleString("en")} sentences in ${session.data.name}`
						: `sentence ${index + 1} of ${session.data.size.toLocaleString("en")}`
				),
				button("next ›", step(1))
			);
		}
	}

	open(index) {
		this.session.set({ index, text: null, pins: null, forbid: null, selected: null });
		return this.show();
	}

	typed() {
		this.session.set({ text: this.input.value, index: null, pins: null, forbid: null, selected: null });
		this.showChoice();
		return this.load();
	}

	/** Ask for the scores of the sentence, one request at a time: of fast typing, the last one counts. */
	async load(touched = () => ({})) {
		this.wanted = touched;
		this.running ??= this.loadWanted();
		await this.running;
	}

	async loadWanted() {
		while (this.wanted) {
			const touched = this.wanted;
			this.wanted = null;
			await this.loadNow(touched);
		}
		this.running = null;
	}

	async loadNow(touched) {
		const { session } = this,
			sentence = session.sentence(this.model),
			request = { model: this.model, ...sentence };
		if (!sentence) return this.showEmpty();
		try {
			const payload = await session.post("/page/scores", request);
			this.request = request;
			this.element.classList.remove("empty");
			if (request.index !== undefined) this.input.value = joinTokens(payload, session.models[this.model]);
			else if (this.input.value !== session.get("text")) this.input.value = session.get("text");
			this.payload = payload;
			this.trellis.shownPath = null;
			this.trellis.show(payload, touched.call(this, payload));
			if (this.trellis.selected) this.selected();
			else this.details.showHint();
		} catch (error) {
			this.showEmpty(error.message);
		}
		return undefined;
	}

	showEmpty(reason = HINTS[this.session.models[this.model].needs]) {
		this.element.classList.add("empty");
		this.status.textContent = reason;
		this.words.replaceChildren();
	}

	/** Pins, forbidden labels and the selected node of the URL, as JSON: pins=[[3,"B-date"]]. */
	readTouched(payload) {
		const read = name =>
			this.readList(name)
				.map(([t, label]) => [t, payload.labels.indexOf(label)])
				.filter(([t, y]) => Number.isInteger(t) && t >= 0 && y >= 0);
		const [t, ...names] = this.readList("selected"),
			[first, second] = names.map(name => payload.labels.indexOf(name));
		let chosen = null;
		if (names.length === 1 && first >= 0) chosen = { t, y: first };
		if (names.length === 2 && t > 0 && first >= 0 && second >= 0) chosen = { t, a: first, b: second };
		return { pins: Object.fromEntries(read("pins")), forbidden: read("forbid"), selected: chosen };
	}

	readList(name) {
		try {
			const list = JSON.parse(this.session.get(name, "[]"));
			return Array.isArray(list) ? list : [];
		} catch {
			return []; // the address was cut or edited
		}
	}

	writeTouched() {
		const { trellis } = this,
			{ labels } = trellis.payload,
			target = trellis.selected;
		const join = pairs => (pairs.length ? JSON.stringify(pairs.map(([t, y]) => [Number(t), labels[y]])) : null);
		const names = target && (target.y === undefined ? [labels[target.a], labels[target.b]] : [labels[target.y]]);
		this.session.set({
			pins: join(Object.entries(trellis.pins)),
			forbid: join(trellis.forbidden),
			selected: names && JSON.stringify([target.t, ...names])
		});
	}

	selected() {
		this.writeTouched();
		this.details.update(this.trellis, this.request);
	}

	/** After each decoding: words and status, then paths and details. */
	changed() {
		const { trellis } = this,
			{ payload } = trellis;
		const marked = t =>
			trellis.pins[t] !== undefined ? "pinned" : trellis.forbidden.some(([u]) => u === t) ? "limited" : "";
		const labels = trellis.best ? trellis.best.map(y => payload.labels[y]) : payload.tokens.map(() => null);
		const options = {
			click: t => trellis.best && trellis.select({ t, y: trellis.best[t] }),
			marked,
			wrong: t => Boolean(payload.gold && payload.gold[t] !== null && payload.gold[t] !== labels[t])
		};
		this.words.replaceChildren(labelledWords(payload.tokens, labels, payload.labels, options));
		this.clearButton.hidden = !trellis.allowed;
		this.status.textContent = this.describe(payload);
		this.writeTouched();
		performance.mark("trellis-shown"); // benchmarks/inspector.py measures the time until here
		// The panels below the trellis follow after the frame is painted, so that it comes sooner.
		this.later ??= requestAnimationFrame(() =>
			setTimeout(() => {
				this.later = null;
				this.showPaths();
				if (trellis.selected) this.details.update(trellis, this.request);
			})
		);
	}

	describe(payload) {
		const { trellis } = this;
		if (!trellis.best) return "No labelling is allowed by these pins: clear one of them.";
		const parts = [
			`The best labelling has probability ${formatPercent(trellis.probability(trellis.best))}`,
			`entropy ${trellis.entropy.toFixed(2)} nats`
		];
		if (trellis.allowed)
			parts.push(`the pins have probability ${formatPercent(trellis.pinnedProbability())} of their own`);
		if (payload.gold) {
			const known = payload.gold.filter(label => label !== null).length;
			const right = payload.gold.filter(
				(label, t) => label !== null && label === payload.labels[trellis.best[t]]
			).length;
			parts.push(`${right} of ${known} labels agree with the file`);
		}
		return `${parts.join(" · ")}.`;
	}

	showPaths() {
		const { trellis } = this,
			{ payload, paths } = trellis,
			best = paths[0]?.path;
		const count = select(
			"Number of paths",
			[2, 3, 5, 10, 20, 50].map(k => [k, k]),
			trellis.count,
			k => {
				this.session.set({ k: k === "5" ? null : k });
				trellis.count = Number(k);
				trellis.decode();
			}
		);
		count.id = "count";
		const rows = paths.map(({ path }, n) => {
			const differences = path.flatMap((y, t) =>
				y === best[t]
					? []
					: [
							make(
								"span",
								{ class: "difference" },
								`${payload.tokens[t]}: ${payload.labels[best[t]]} → ${payload.labels[y]}`
							)
						]
			);
			const show = button(
				"draw",
				() => {
					trellis.showPath(trellis.shownPath === path ? null : path);
					this.showPaths();
				},
				{ "aria-pressed": String(trellis.shownPath === path), "aria-label": `Draw path ${n + 1}` }
			);
			return [
				String(n + 1),
				formatPercent(trellis.probability(path)),
				make("div", { class: "differences" }, ...(n ? differences : ["the best path"])),
				n ? show : ""
			];
		});
		const sum = paths.reduce((total, { path }) => total + trellis.probability(path), 0);
		this.paths.replaceChildren(
			make("div", { class: "tools" }, make("h2", {}, "Best labellings"), field("show", count)),
			table(
				"The best paths and what differs from the first",
				["rank", "probability", "what differs", "path"],
				rows,
				[1]
			),
			make("p", { class: "soft" }, `Together they have ${formatPercent(Math.min(sum, 1))} of the probability.`)
		);
	}

	/** Ask again for all that a saved page needs: scores, and the explanations of the best path. */
	async replay() {
		const { session, trellis } = this;
		if (!this.request) return;
		await session.post("/page/scores", this.request);
		const explain = (t, a, y) =>
			session.post(
				"/page/explain",
				makeExplainRequest(this.request, this.payload.labels, t, a, y, findRunnerUp(trellis, t, y))
			);
		for (let t = 0; t < Math.min(trellis.chain.T, SAVED_POSITIONS); t++) {
			const labels = new Set([...trellis.rank(t).slice(0, SAVED_LABELS), ...trellis.paths.map(({ path }) => path[t])]);
			await Promise.all([...labels].map(y => explain(t, undefined, y)));
			if (t === 0) continue;
			const edges = new Map(trellis.paths.map(({ path }) => [path[t - 1] + " " + path[t], path]));
			await Promise.all([...edges.values()].map(path => explain(t, path[t - 1], path[t])));
		}
		if (trellis.chain.T > SAVED_POSITIONS) announce(`The saved page explains the first ${SAVED_POSITIONS} words.`);
	}
}

/** The text of a sentence of the data, as one would type it. */
function joinTokens(payload, model) {
	if (model.needs !== "columns" || !payload.columns) return payload.tokens.join(" ");
	const columns = Object.values(payload.columns);
	return payload.tokens.map((token, t) => [token, ...columns.map(values => values[t])].join(" ")).join("\n");
}
