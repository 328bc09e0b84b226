// Correct labels by keyboard, the least certain sentence first; save them, and train the model again.

import { announce, button, download, field, labelledWords, make, number, panel, select, table } from "./dom.js";
import { formatPercent } from "./lattice.js";
import { Trellis } from "./trellis.js";

const MEASURES = [
	["entropy", "largest entropy"],
	["margin", "smallest margin"]
];
const FORMATS = [
	["conll", "CoNLL"],
	["jsonl", "JSON lines"]
];
const KEYS = [
	["← →", "word"],
	["1 – 9", "label"],
	["↑ ↓", "next label"],
	["U", "unknown"],
	["Backspace", "undo"],
	["Enter", "save, next"],
	["S", "skip"]
];
const BATCH = 50,
	SHOWN_LABELS = 9,
	TRAINING_POLL = 400;
const UNKNOWN = "?"; // in files: trellis train --unknown "?"

export class CorrectView {
	constructor(app) {
		this.session = app.session;
		this.title = "Correct";
		this.corrected = new Map(); // by sentence: {tokens, labels}
		this.tools = make("div", { class: "tools" });
		this.words = make("div", {
			id: "correct-words",
			tabindex: "0",
			role: "application",
			"aria-label":
				"Words to label. Left and right move, 1 to 9 choose a label, up and down go through them, U is unknown, Backspace undoes, Enter saves and opens the next sentence, S skips.",
			keydown: event => this.key(event)
		});
		this.menu = make("ul", { class: "menu", role: "listbox", id: "label-menu", "aria-label": "Labels of the word" });
		this.live = make("p", { class: "soft", role: "status", id: "correct-status" });
		this.actions = make("div", { class: "tools" });
		this.host = make("div");
		this.training = make("section", { class: "panel", id: "training", "aria-live": "polite" });
		this.trellis = new Trellis(this.host, {
			select: ({ t, y, b }) => this.choose(t, y ?? b),
			change: () => this.update()
		});
		this.element = make(
			"div",
			{},
			make(
				"section",
				{ class: "panel" },
				this.tools,
				this.words,
				this.menu,
				this.live,
				this.actions,
				make("p", { class: "soft" }, ...KEYS.flatMap(([keys, meaning]) => [make("kbd", {}, keys), ` ${meaning}  `]))
			),
			panel("Trellis with the corrections as pins", this.host),
			this.training
		);
	}

	get model() {
		return this.session.chosen("chain");
	}

	async show() {
		const { session } = this;
		const measure = select("Next sentence", MEASURES, session.get("measure", "entropy"), value => {
			session.set({ measure: value });
			this.queue = null;
			this.next();
		});
		const format = select("File format", FORMATS, session.get("format", "conll"), value =>
			session.set({ format: value })
		);
		measure.id = "measure";
		format.id = "format";
		this.position = make("b", { id: "correct-title" });
		this.tools.replaceChildren(
			make("h2", {}, "Correct"),
			this.position,
			session.data ? field("next", measure) : "",
			field("file", format)
		);
		this.actions.replaceChildren(
			button("Save and next", () => this.save(), { class: "first", id: "save-next" }),
			button("Skip", () => this.next(), { id: "skip" }),
			button("Download corrections", () => this.download(), { id: "download" })
		);
		this.showTraining(null);
		if (session.parameters.has("index") || session.parameters.has("text") || !session.data)
			await this.open(session.sentence(this.model));
		else await this.next();
	}

	async open(source) {
		if (!source) {
			this.live.textContent =
				"Type a sentence in the view “Sentence” first, or start with --data to correct the sentences of a file.";
			return;
		}
		const payload = await this.session.post("/page/scores", { model: this.model, ...source });
		this.source = source;
		this.sentenceKey = source.index ?? JSON.stringify(payload.tokens);
		this.labels = payload.labels;
		this.unknown = new Set();
		this.cursor = 0;
		const before = this.corrected.get(this.sentenceKey),
			pins = {};
		before?.labels.forEach((label, t) => {
			if (label === null) this.unknown.add(t);
			else if (before.touched.has(t)) pins[t] = payload.labels.indexOf(label);
		});
		this.position.textContent = source.index === undefined ? "typed sentence" : `sentence ${source.index + 1}`;
		this.trellis.show({ ...payload, gold: null }, { pins });
		this.cursor = this.leastCertain();
		this.update();
	}

	/** The position whose best label has the smallest probability: there, a correction says most. */
	leastCertain() {
		const { trellis } = this,
			L = this.labels.length;
		const certainty = t => trellis.p[t * L + trellis.best[t]];
		return trellis.best ? trellis.best.reduce((least, _, t) => (certainty(t) < certainty(least) ? t : least), 0) : 0;
	}

	/** Labels to save: pins and decoded labels; null where unknown. */
	currentLabels() {
		return this.trellis.payload.tokens.map((_, t) =>
			this.unknown.has(t) || !this.trellis.best ? null : this.labels[this.trellis.best[t]]
		);
	}

	update() {
		if (this.unknown === undefined || !this.trellis.payload) return;
		const { trellis, cursor } = this,
			{ tokens } = trellis.payload,
			labels = this.currentLabels();
		const marked = t =>
			[t === cursor && "current", trellis.pins[t] !== undefined && "pinned", this.unknown.has(t) && "unknown"]
				.filter(Boolean)
				.join(" ");
		this.words.replaceChildren(
			labelledWords(tokens, labels, this.labels, {
				marked,
				click: t => {
					this.cursor = t;
					this.update();
					this.words.focus();
				}
			})
		);
		for (const element of this.words.querySelectorAll("button")) element.tabIndex = -1; // the arrows move inside
		const chosen = this.unknown.has(cursor) ? null : trellis.best?.[cursor],
			L = this.labels.length;
		this.menu.replaceChildren(
			...trellis
				.rank(cursor)
				.slice(0, SHOWN_LABELS)
				.map((y, n) =>
					make(
						"li",
						{
							role: "option",
							"aria-selected": String(y === chosen),
							"data-label": this.labels[y],
							click: () => this.choose(cursor, y)
						},
						make("kbd", {}, String(n + 1)),
						`${this.labels[y]} `,
						make("small", { class: "soft" }, formatPercent(trellis.p[cursor * L + y]))
					)
				),
			make(
				"li",
				{
					role: "option",
					"aria-selected": String(chosen === null),
					"data-label": "",
					click: () => this.setUnknown(cursor)
				},
				make("kbd", {}, "U"),
				"unknown"
			)
		);
		this.live.textContent = `${tokens[cursor]}: ${labels[cursor] ?? "unknown"}. ${Object.keys(trellis.pins).length} corrected, ${this.unknown.size} unknown. Entropy ${number(trellis.entropy)} nats.`;
	}

	choose(t, y) {
		this.unknown.delete(t);
		this.cursor = t;
		if (this.trellis.pins[t] !== y) this.trellis.pin(t, y);
		else this.update();
	}

	setUnknown(t) {
		this.unknown.add(t);
		this.trellis.clear(t);
	}

	key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || !this.trellis.payload) return;
		const { cursor, trellis } = this,
			last = trellis.payload.tokens.length - 1,
			order = trellis.rank(cursor),
			name = event.key.toLowerCase();
		const move = t => {
			this.cursor = Math.min(Math.max(t, 0), last);
			this.update();
		};
		const step = change => {
			const rank = order.indexOf(this.unknown.has(cursor) ? -1 : trellis.best?.[cursor]);
			this.choose(cursor, order[Math.min(Math.max(rank + change, 0), order.length - 1)]);
		};
		const actions = {
			arrowleft: () => move(cursor - 1),
			arrowright: () => move(cursor + 1),
			home: () => move(0),
			end: () => move(last),
			arrowup: () => step(-1),
			arrowdown: () => step(1),
			u: () => this.setUnknown(cursor),
			enter: () => this.save(),
			s: () => this.next(),
			backspace: () => {
				this.unknown.delete(cursor);
				trellis.clear(cursor);
			},
			delete: () => {
				this.unknown.delete(cursor);
				trellis.clear(cursor);
			}
		};
		const choice = /^[1-9]$/.test(name) ? order[Number(name) - 1] : undefined;
		if (choice !== undefined) this.choose(cursor, choice);
		else if (actions[name]) actions[name]();
		else return;
		event.preventDefault();
	}

	async save() {
		if (!this.trellis.payload) return undefined;
		const { tokens, columns } = this.trellis.payload,
			labels = this.currentLabels(),
			index = this.source.index ?? null;
		if (labels.includes(UNKNOWN))
			return announce(`The label ${UNKNOWN} means unknown in the file. Rename it in the data.`, "error");
		const rows = columns
			? tokens.map((token, t) => [token, ...Object.values(columns).map(values => values[t])])
			: tokens;
		try {
			const format = this.session.get("format", "conll");
			const answer = this.session.canSave
				? await this.session.post("/page/save", { index, tokens: rows, labels, format })
				: null;
			this.corrected.set(this.sentenceKey, {
				tokens: rows,
				labels,
				touched: new Set(Object.keys(this.trellis.pins).map(Number))
			});
			announce(
				answer ? `${answer.saved} sentences in ${answer.file}.` : `${this.corrected.size} sentences to download.`
			);
		} catch (error) {
			return announce(error.message, "error");
		}
		this.showTraining(null);
		if (this.session.data) await this.next();
		return undefined;
	}

	/** Open the least certain sentence that was not yet corrected or skipped. */
	async next() {
		const { session } = this;
		if (!session.data) return;
		this.seen ??= new Set();
		if (this.source?.index !== undefined) this.seen.add(this.source.index);
		const wanted = row => !this.seen.has(row.index) && !this.corrected.has(row.index);
		for (let offset = 0; !this.queue?.some(wanted); offset += BATCH) {
			const answer = await session.post("/page/browse", {
				model: this.model,
				filter: { min_length: 1 },
				sort: session.get("measure", "entropy"),
				offset,
				count: BATCH
			});
			this.queue = answer.rows;
			if (!answer.rows.length && answer.progress < 1) await new Promise(resolve => setTimeout(resolve, TRAINING_POLL));
			else if (!answer.rows.length) return announce("All sentences were corrected or skipped.");
			if (!answer.rows.length) offset = -BATCH;
		}
		const { index } = this.queue.find(wanted);
		session.set({ index, text: null, pins: null, forbid: null, selected: null });
		await this.open({ index });
		this.words.focus();
		return undefined;
	}

	download() {
		if (!this.corrected.size) return announce("Nothing is corrected yet: Enter keeps a sentence.");
		const format = this.session.get("format", "conll"),
			sentences = [...this.corrected.values()].map(({ tokens, labels }) => ({
				tokens,
				tags: labels.map(label => label ?? UNKNOWN)
			}));
		const columns = token => (Array.isArray(token) ? token.join("\t") : token);
		const values = sentences.flatMap(({ tokens, tags }) => [...tokens.flat(), ...tags]);
		if (format === "conll" && values.some(value => /[\t\r\n]/.test(value)))
			return announce("A word or label has a tab or a line break, which CoNLL cannot contain: choose JSON lines.", "error");
		if (format === "jsonl")
			download(
				"corrections.jsonl",
				sentences.map(sentence => `${JSON.stringify(sentence)}\n`).join(""),
				"application/x-ndjson"
			);
		else
			download(
				"corrections.conll",
				sentences
					.map(({ tokens, tags }) => `${tokens.map((token, t) => `${columns(token)}\t${tags[t]}\n`).join("")}\n`)
					.join("")
			);
		return undefined;
	}

	showTraining(state) {
		const { session } = this,
			name = session.models[this.model].name;
		const children = [
			make(
				"div",
				{ class: "tools" },
				make("h2", {}, "Train again"),
				button("Train", () => this.train(), {
					class: "first",
					id: "train",
					disabled: !session.canTrain || state?.state === "running"
				})
			)
		];
		if (!session.canTrain)
			children.push(
				make(
					"p",
					{ class: "soft" },
					"Start with the training data to train from here: trellis serve model.trellis --data dev.conll --train train.conll --save FOLDER"
				)
			);
		else if (!state)
			children.push(
				make(
					"p",
					{ class: "soft" },
					`${name} is trained on its data and the ${this.corrected.size} saved sentences, from the weights in its file.`
				)
			);
		else if (state.state === "failed") children.push(make("p", {}, `Training failed: ${state.error}`));
		else if (state.state === "running")
			children.push(
				make("progress", {}),
				make(
					"p",
					{ class: "soft" },
					state.iteration ? `iteration ${state.iteration}, loss ${number(state.loss, 1)}` : "reading the data …"
				)
			);
		else if (state.after) {
			const percent = value => number(100 * value, 2),
				change = key =>
					`${state.after[key] >= state.before[key] ? "+" : ""}${percent(state.after[key] - state.before[key])}`;
			children.push(
				table(
					"Scores before and after",
					["", "before", "after", "change"],
					[
						["F1", percent(state.before.f1), percent(state.after.f1), change("f1")],
						["accuracy", percent(state.before.accuracy), percent(state.after.accuracy), change("accuracy")]
					],
					[1, 2, 3]
				),
				make(
					"p",
					{ class: "soft" },
					`On the sentences of ${session.data.name} that were not corrected, in %.${state.file ? ` The new model is in ${state.file}.` : ""} The page uses it from now on.`
				)
			);
		} else children.push(make("p", {}, "The model is trained. The page uses it from now on."));
		this.training.dataset.state = state?.state ?? "idle";
		this.training.replaceChildren(...children);
	}

	async train() {
		try {
			let state = await this.session.post("/page/train", { model: this.model });
			while (state.state === "running") {
				this.showTraining(state);
				await new Promise(resolve => setTimeout(resolve, TRAINING_POLL));
				state = await this.session.post("/page/training");
			}
			this.showTraining(state);
			this.queue = null;
			if (state.state === "done" && this.source) await this.open(this.source);
		} catch (error) {
			announce(error.message, "error");
		}
	}
}
