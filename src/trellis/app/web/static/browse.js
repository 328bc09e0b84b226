// The sentences of a labelled file: filter by confusion, label, length, probability and text; open one.

import { button, field, labelledWords, make, missingData, modelField, panel, select } from "./dom.js";
import { formatPercent } from "./lattice.js";

const PAGE_SIZE = 25,
	SHOWN_CONFUSIONS = 14;
const SORTS = [
	["index", "order of the file"],
	["probability", "least probable first"],
	["entropy", "largest entropy first"],
	["margin", "smallest margin first"]
];

export class BrowseView {
	constructor(app) {
		this.app = app;
		this.session = app.session;
		this.title = "Errors";
		this.element = make("div");
		if (this.session.data) this.build();
		else this.element.append(missingData("browse its errors"));
	}

	build() {
		this.filters = make("div", { class: "tools", id: "filters" });
		this.confusions = make("div", { class: "chips", id: "confusions", role: "group", "aria-label": "Confusions" });
		this.summary = make("p", { class: "soft", role: "status", id: "browse-status" });
		this.rows = make("div", { class: "rows", id: "browse-rows" });
		this.pages = make("div", { class: "tools" });
		this.element.append(
			make(
				"section",
				{ class: "panel" },
				make("div", { class: "tools" }, make("h2", {}, `Errors in ${this.session.data.name}`)),
				this.filters,
				make("h3", {}, "Confusions: true → predicted"),
				this.confusions,
				this.summary
			),
			panel("Sentences", this.rows, this.pages)
		);
	}

	/** The filter of the URL, as /page/browse takes it. */
	get filter() {
		const { session } = this,
			filter = { errors_only: session.get("all") === "" };
		for (const name of ["gold", "predicted", "label"]) if (session.get(name)) filter[name] = session.get(name);
		if (session.get("contains")) filter.text = session.get("contains");
		for (const name of ["min_length", "max_length"])
			if (session.get(name)) filter[name] = Math.max(0, Math.round(session.getNumber(name, 0)));
		for (const name of ["min_probability", "max_probability"])
			if (session.get(name)) filter[name] = Math.min(Math.max(session.getNumber(name, 0) / 100, 0), 1);
		return filter;
	}

	get model() {
		return this.session.chosen("chain");
	}

	async show() {
		if (!this.session.data) return;
		this.buildFilters();
		await this.load();
	}

	buildFilters() {
		const { session } = this;
		const change = name => value => {
			session.set({ [name]: value, offset: null });
			this.load();
		};
		const text = (name, label, properties) =>
			field(
				label,
				make("input", {
					id: `filter-${name}`,
					value: session.get(name),
					"aria-label": label,
					input: event => change(name)(event.target.value),
					...properties
				})
			);
		const labels = [["", "any"], ...session.models[this.model].labels.map(label => [label, label])];
		const all = make("input", {
			type: "checkbox",
			id: "filter-all",
			checked: session.get("all") !== "",
			change: event => change("all")(event.target.checked ? "1" : "")
		});
		const sort = select("Order", SORTS, session.get("sort", "probability"), change("sort"));
		const label = select("Label", labels, session.get("label"), change("label"));
		label.id = "filter-label";
		sort.id = "filter-sort";
		const range = { type: "number", min: "0" },
			percent = { type: "number", min: "0", max: "100" };
		this.filters.replaceChildren(
			modelField(session, "chain", () => {
				session.set({ offset: null });
				this.show();
			}),
			field("label", label),
			text("min_length", "tokens from", range),
			text("max_length", "to", range),
			text("min_probability", "probability % from", percent),
			text("max_probability", "to ", percent),
			text("contains", "contains", { type: "search", size: "12" }),
			field("also correct ones", all),
			field("order", sort)
		);
	}

	request() {
		return {
			model: this.model,
			filter: this.filter,
			sort: this.session.get("sort", "probability"),
			offset: this.session.getNumber("offset", 0),
			count: PAGE_SIZE
		};
	}

	async load() {
		const request = this.request(),
			key = JSON.stringify(request);
		this.wanted = key;
		const answer = await this.session.post("/page/browse", request);
		if (this.wanted !== key) return; // the filter has changed since
		this.showConfusions(answer.confusions);
		const filtered = this.session.get("gold")
			? ` with ${this.session.get("gold")} → ${this.session.get("predicted")}`
			: "";
		const running = answer.progress < 1 ? ` Analysed so far: ${formatPercent(answer.progress)}.` : "";
		this.summary.textContent = `${answer.total.toLocaleString("en")} of ${this.session.data.size.toLocaleString("en")} sentences${filtered}.${running}`;
		this.rows.replaceChildren(...answer.rows.map(row => this.makeRow(row)));
		this.showPages(answer.total);
		if (answer.progress < 1) setTimeout(() => this.element.isConnected && this.wanted === key && this.load(), 400);
	}

	showConfusions(confusions) {
		const { session } = this;
		this.confusions.replaceChildren(
			...confusions.slice(0, SHOWN_CONFUSIONS).map(({ gold, predicted, count }) => {
				const chosen = session.get("gold") === gold && session.get("predicted") === predicted;
				return button(
					`${gold} → ${predicted}  ${count}`,
					() => {
						session.set({ gold: chosen ? null : gold, predicted: chosen ? null : predicted, offset: null });
						this.load();
					},
					{ "aria-pressed": String(chosen), "data-gold": gold, "data-predicted": predicted }
				);
			})
		);
		if (!confusions.length) this.confusions.append(make("span", { class: "soft" }, "none so far"));
	}

	makeRow(row) {
		const { labels } = this.session.models[this.model],
			open = () => this.app.go("sentence", { index: row.index, text: null, pins: null, forbid: null, selected: null });
		const wrong = row.gold.map((label, t) => label !== null && label !== row.predicted[t]);
		const shown = row.predicted.map((label, t) => (wrong[t] ? `${row.gold[t]} → ${label}` : label));
		return make(
			"div",
			{ class: "row", "data-index": row.index },
			button(`#${row.index + 1}`, open, { class: "plain", "aria-label": `Open sentence ${row.index + 1}` }),
			labelledWords(row.tokens, shown, labels, {
				wrong: t => wrong[t],
				colours: row.predicted.map((label, t) => (label === "O" ? row.gold[t] : label))
			}),
			make(
				"div",
				{ class: "facts" },
				`p ${formatPercent(row.probability)}`,
				make("br"),
				`H ${row.entropy.toFixed(2)}`,
				make("br"),
				`margin ${row.margin.toFixed(2)}`
			)
		);
	}

	showPages(total) {
		const offset = this.session.getNumber("offset", 0),
			move = change => () => {
				this.session.set({ offset: offset + change || null });
				this.load();
			};
		this.pages.hidden = total <= PAGE_SIZE;
		this.pages.replaceChildren(
			button("‹ previous", move(-PAGE_SIZE), { disabled: offset <= 0 }),
			make(
				"span",
				{ class: "soft" },
				`${Math.min(offset + 1, total)}–${Math.min(offset + PAGE_SIZE, total)} of ${total.toLocaleString("en")}`
			),
			button("next ›", move(PAGE_SIZE), { disabled: offset + PAGE_SIZE >= total })
		);
	}

	async replay() {
		if (this.session.data && this.wanted) await this.load();
	}
}
