// What is behind a node or an edge: its probabilities, the features with their contributions, and a runner-up.

import { bar, button, field, make, number, select, table } from "./dom.js";
import { formatPercent } from "./lattice.js";

const SHOWN_FEATURES = 12,
	SHOWN_RANKS = 5;

/** The panel beside the lattice. `update(trellis, request)` fills it for the selected node or edge. */
export class Details {
	constructor(session, openWord) {
		this.session = session;
		this.openWord = openWord; // shows a word in the view of vectors, or null
		this.element = make("section", {
			class: "panel details",
			"aria-label": "Behind the selected node or edge",
			"aria-live": "polite"
		});
		this.showHint();
	}

	showHint() {
		this.shownKey = null;
		this.element.replaceChildren(
			make("h2", {}, "Why"),
			make(
				"p",
				{ class: "soft" },
				"Click a node or an edge of the trellis, or a word above it: the features behind it appear here, beside those of the runner-up."
			)
		);
	}

	/** `request` has {model} and the sentence, as /page/explain takes them. */
	async update(trellis, request) {
		const target = trellis.selected;
		if (!target || !trellis.best) return this.showHint();
		this.trellis = trellis;
		this.request = request;
		const { payload } = trellis,
			label = target.y ?? target.b;
		const node = { t: target.t, y: label },
			isEdge = target.y === undefined;
		const key = JSON.stringify([request, target.t, target.a, label]);
		if (key !== this.shownKey) this.runnerUp = null;
		this.shownKey = key;
		const other = this.runnerUp ?? findRunnerUp(trellis, target.t, label);
		const name = y => payload.labels[y];
		this.features ??= make("div", { class: "features" });
		this.element.replaceChildren(
			make(
				"h2",
				{},
				isEdge ? `${payload.tokens[target.t - 1]} → ${payload.tokens[target.t]}` : payload.tokens[target.t]
			),
			make(
				"p",
				{},
				make("b", {}, isEdge ? `${name(target.a)} → ${name(label)}` : name(label)),
				` has probability ${formatPercent(this.probability(target))}.`
			),
			this.makeButtons(node),
			this.makeLabels(target.t),
			this.makeChoice(payload, label, other),
			this.features
		);
		await this.explain(target, label, other);
	}

	probability({ t, a, y, b }) {
		const { p, pairs, payload } = this.trellis,
			L = payload.labels.length;
		return y === undefined ? pairs[((t - 1) * L + a) * L + b] : p[t * L + y];
	}

	makeButtons({ t, y }) {
		const { trellis } = this,
			label = trellis.payload.labels[y],
			pinned = trellis.pins[t] === y,
			forbidden = trellis.isForbidden(t, y);
		const touched = trellis.pins[t] !== undefined || trellis.forbidden.some(([u]) => u === t);
		return make(
			"div",
			{ class: "tools" },
			button(pinned ? `Unpin ${label}` : `Pin ${label}`, () => trellis.pin(t, y), {
				"aria-pressed": String(pinned),
				"data-action": "pin"
			}),
			button(forbidden ? `Allow ${label}` : `Forbid ${label}`, () => trellis.forbid(t, y), {
				"aria-pressed": String(forbidden),
				"data-action": "forbid"
			}),
			touched ? button("Clear this word", () => trellis.clear(t)) : null,
			this.openWord
				? button("Neighbours of this word", () => this.openWord(trellis.payload.tokens[t]), {
						"data-action": "neighbours"
					})
				: null
		);
	}

	/** The most probable labels of a word, and a list of all others to pin. */
	makeLabels(t) {
		const { trellis } = this,
			{ labels } = trellis.payload,
			L = labels.length,
			order = trellis.rank(t);
		const rows = order.slice(0, SHOWN_RANKS).map(y =>
			make(
				"tr",
				{},
				make(
					"td",
					{},
					button(labels[y], () => trellis.select({ t, y }), { class: "plain" })
				),
				make("td", {}, bar(trellis.p[t * L + y]), formatPercent(trellis.p[t * L + y]))
			)
		);
		const options = [["", "pin another label …"], ...order.map(y => [y, labels[y]])];
		return make(
			"div",
			{},
			table(`Labels of ${trellis.payload.tokens[t]}`, ["label", "probability"], rows),
			L > 2 ? select("Pin another label", options, "", y => y !== "" && trellis.pin(t, Number(y))) : null
		);
	}

	makeChoice(payload, label, other) {
		const options = payload.labels.map((name, y) => [y, name]).filter(([y]) => y !== label);
		if (!options.length) return null;
		return field(
			"beside",
			select("Runner-up", options, other, y => {
				this.runnerUp = Number(y);
				this.update(this.trellis, this.request);
			})
		);
	}

	async explain({ t, a }, label, other) {
		const { labels } = this.trellis.payload;
		const key = this.shownKey + other;
		let answer;
		try {
			answer = await this.session.post("/page/explain", makeExplainRequest(this.request, labels, t, a, label, other));
		} catch (error) {
			answer = { features: [], note: error.message };
		}
		if (key !== this.shownKey + (this.runnerUp ?? findRunnerUp(this.trellis, t, label))) return; // another node since
		this.features.replaceChildren(...makeFeatures(answer, labels[label], labels[other]));
	}
}

/** The most probable other label at a position. */
export function findRunnerUp(trellis, t, label) {
	return trellis.rank(t).find(y => y !== label) ?? label;
}

/** The body of /page/explain for a node, or for an edge from label `a`. */
export function makeExplainRequest(request, labels, t, a, label, other) {
	return {
		...request,
		position: t,
		label: labels[label],
		previous: a === undefined ? null : labels[a],
		runner_up: labels[other]
	};
}

function makeFeatures(answer, label, other) {
	if (answer.note && !answer.features.length) return [make("p", { class: "soft" }, answer.note)];
	const largest = Math.max(
		1e-9,
		...answer.features.map(feature => Math.abs((feature.label ?? 0) - (feature.runner_up ?? 0)))
	);
	const shown = answer.features.slice(0, SHOWN_FEATURES);
	const rows = shown.map(feature => {
		const difference = (feature.label ?? 0) - (feature.runner_up ?? 0);
		const value = feature.value === 1 || feature.value === undefined ? "" : ` × ${number(feature.value)}`;
		return [
			make("code", {}, `${feature.name}${value}`),
			number(feature.label),
			number(feature.runner_up),
			bar(difference / largest)
		];
	});
	rows.push([
		make("b", {}, "score"),
		make("b", {}, number(answer.score)),
		make("b", {}, number(answer.runner_up_score)),
		""
	]);
	const rest = answer.features.length - shown.length;
	return [
		table("Contributions of the features", ["feature", label, other, "difference"], rows, [1, 2]),
		make(
			"p",
			{ class: "soft" },
			rest > 0 ? `${rest} more features with smaller differences. ` : "",
			answer.note ?? "",
			"Contributions are weight × value; blue speaks for the label, orange for the runner-up."
		)
	];
}
