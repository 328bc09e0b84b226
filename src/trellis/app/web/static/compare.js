// Two models side by side: their labels, trellises and disagreements, for one sentence and for the data.

import { field, labelledWords, make, number, panel, select, table } from "./dom.js";
import { formatPercent } from "./lattice.js";
import { Trellis } from "./trellis.js";

const SHOWN_SENTENCES = 20;

export class CompareView {
	constructor(app) {
		this.session = app.session;
		this.title = "Compare";
		this.models = this.session.modelsOf("chain");
		this.sides = ["A", "B"].map(side => this.makeSide(side));
		this.choices = make("div", { class: "tools" });
		this.input = make("textarea", {
			rows: "2",
			spellcheck: "false",
			"aria-label": "Sentence to compare",
			id: "compare-text",
			input: () => {
				this.session.set({ text: this.input.value, index: null, pins: null, forbid: null, selected: null });
				this.load();
			}
		});
		this.differences = make("section", {
			class: "panel",
			id: "disagreements",
			"aria-label": "Disagreements in this sentence",
			"aria-live": "polite"
		});
		this.list = make("section", {
			class: "panel",
			id: "disagreeing",
			"aria-label": "Sentences on which the models disagree"
		});
		this.element = make(
			"div",
			{},
			panel("Sentence to compare", this.choices, this.input),
			this.differences,
			make("div", { class: "pair" }, ...this.sides.map(side => side.element)),
			this.list
		);
	}

	makeSide(name) {
		const heading = make("h2", {}),
			words = make("div"),
			status = make("p", { class: "soft" }),
			host = make("div");
		const side = { name, heading, words, status };
		side.element = make(
			"section",
			{ class: "panel", "data-side": name, "aria-label": `Model ${name}` },
			heading,
			words,
			status,
			host
		);
		side.trellis = new Trellis(host, { change: () => this.showDifferences() });
		return side;
	}

	get numbers() {
		const first = this.session.chosen("chain");
		const other = this.models.find(model => model.number !== first)?.number ?? first;
		return [first, this.session.getNumber("other", other)];
	}

	async show() {
		const options = this.models.map(model => [model.number, model.name]),
			[first, other] = this.numbers;
		const choose = name => value => {
			this.session.set({ [name]: value });
			this.show();
		};
		this.choices.replaceChildren(
			field("A", select("Model A", options, first, choose("model"))),
			field("B", select("Model B", options, other, choose("other")))
		);
		if (this.models.length < 2)
			this.choices.append(
				make(
					"span",
					{ class: "soft" },
					"Start with a second model to compare two: trellis serve first.trellis second.trellis"
				)
			);
		this.session.openFirst(this.numbers[0]);
		await this.load();
		await this.listSentences();
	}

	async load() {
		if (this.numbers.some(model => !this.session.sentence(model))) return;
		const request = ++this.sequence || (this.sequence = 1);
		const payloads = await Promise.all(
			this.numbers.map(model => this.session.post("/page/scores", { model, ...this.session.sentence(model) }))
		);
		if (request !== this.sequence) return; // a newer sentence is on its way
		if (this.input !== document.activeElement)
			this.input.value = this.session.get("text") || payloads[0].tokens.join(" ");
		this.payloads = null;
		this.sides.forEach((side, n) => {
			side.heading.textContent = `${side.name}: ${payloads[n].name}`;
			side.trellis.show(payloads[n]);
		});
		this.payloads = payloads;
		this.showDifferences();
	}

	/** Tokens where the best labels differ. The tokens of both models are the same for text models. */
	showDifferences() {
		if (!this.payloads) return;
		const [a, b] = this.sides.map(({ trellis }) => trellis),
			names = this.sides.map(({ trellis }) => trellis.best?.map(y => trellis.payload.labels[y]) ?? []);
		const T = Math.min(a.payload.tokens.length, b.payload.tokens.length),
			differs = t => names[0][t] !== names[1][t];
		this.sides.forEach((side, n) => {
			side.words.replaceChildren(
				labelledWords(side.trellis.payload.tokens, names[n], side.trellis.payload.labels, {
					marked: t => (differs(t) ? "differs" : "")
				})
			);
			side.status.textContent = side.trellis.best
				? `Best labelling ${formatPercent(side.trellis.probability(side.trellis.best))}, entropy ${number(side.trellis.entropy)} nats.`
				: "No labelling is allowed.";
		});
		const probability = (trellis, t, label) => {
			const y = trellis.payload.labels.indexOf(label),
				L = trellis.payload.labels.length;
			return y < 0 ? "unknown label" : formatPercent(trellis.p[t * L + y]);
		};
		const rows = Array.from({ length: T }, (_, t) => t)
			.filter(differs)
			.map(t => [
				a.payload.tokens[t],
				names[0][t],
				probability(a, t, names[0][t]),
				probability(b, t, names[0][t]),
				names[1][t],
				probability(a, t, names[1][t]),
				probability(b, t, names[1][t])
			]);
		const same = make("p", { class: "soft" }, `Both models give these ${T} words the same labels.`);
		this.differences.replaceChildren(
			make(
				"h2",
				{},
				rows.length === 1 ? "1 disagreement in this sentence" : `${rows.length} disagreements in this sentence`
			),
			rows.length
				? table(
						"Disagreements",
						["word", "label of A", "p in A", "p in B", "label of B", "p in A", "p in B"],
						rows,
						[2, 3, 5, 6]
					)
				: same
		);
	}

	async listSentences() {
		const [model, other] = this.numbers;
		this.list.hidden = !this.session.data || model === other;
		if (this.list.hidden) return;
		const answer = await this.session.post("/page/browse", {
			model,
			other,
			filter: { disagreements_only: true },
			sort: "probability",
			offset: 0,
			count: SHOWN_SENTENCES
		});
		const rows = answer.rows.map(row => {
			const differs = t => row.predicted[t] !== row.other[t];
			const words = row.tokens.map((token, t) =>
				make(
					"span",
					{ class: differs(t) ? "difference" : null },
					differs(t) ? `${token} (${row.predicted[t]} | ${row.other[t]})` : token
				)
			);
			return [
				make(
					"button",
					{
						class: "plain",
						type: "button",
						click: () => {
							this.session.set({ index: row.index, text: null });
							this.show();
							scrollTo(0, 0);
						}
					},
					`#${row.index + 1}`
				),
				make("div", { class: "differences" }, ...words),
				formatPercent(row.probability)
			];
		});
		this.list.replaceChildren(
			make(
				"h2",
				{},
				`The models disagree on ${answer.total.toLocaleString("en")} sentences of ${this.session.data.name}`
			),
			rows.length
				? table(
						"Sentences with disagreements, the least probable first",
						["number", "sentence (A | B)", "p in A"],
						rows,
						[2]
					)
				: make("p", { class: "soft" }, "None so far.")
		);
		if (answer.progress < 1 && this.element.isConnected)
			setTimeout(() => this.element.isConnected && this.listSentences(), 500);
	}

	async replay() {
		if (!this.payloads) return;
		await this.load();
		await this.listSentences();
	}
}
