// Entry of the page: the views, their navigation, and saving the page as one file.

import { announce, button, download, make } from "./dom.js";
import { SentenceView } from "./sentence.js";
import { Session } from "./session.js";
import { offerTour, startTour } from "./tour.js";
import { CompareView } from "./compare.js";
import { BrowseView } from "./browse.js";
import { SlicesView } from "./slices.js";
import { CorrectView } from "./correct.js";
import { CtcView } from "./ctc.js";
import { VectorsView } from "./vectors.js";

// Name in the URL, class, and the kind of model without which the view is not offered.
const VIEWS = [
	["sentence", SentenceView, "chain"],
	["compare", CompareView, "chain"],
	["errors", BrowseView, "chain"],
	["slices", SlicesView, "chain"],
	["correct", CorrectView, "chain"],
	["ctc", CtcView, "ctc"],
	["vectors", VectorsView, "vectors"]
];

class App {
	constructor(session) {
		this.session = session;
		this.views = new Map(
			VIEWS.filter(([, , kind]) => session.modelsOf(kind).length).map(([name, View]) => [name, new View(this)])
		);
		this.main = document.getElementById("main");
		this.buildHeader();
		addEventListener("hashchange", () => {
			session.readHash();
			this.show();
		});
	}

	buildHeader() {
		const { session } = this,
			names = session.models.map(model => model.name).join(", ");
		document.getElementById("facts").textContent =
			`${names}${session.data ? ` · ${session.data.name}` : ""}${session.offline ? " · saved page" : ""}`;
		document.getElementById("tools").replaceChildren(
			session.offline ? "" : button("Save as one file", () => this.save(), { id: "save-page" }),
			button("Tour", () => startTour(this), { id: "tour-button" })
		);
		document.getElementById("views").replaceChildren(
			...[...this.views].map(([name, view]) =>
				make(
					"a",
					{
						href: "#",
						"data-view": name,
						click: event => {
							event.preventDefault();
							this.go(name);
						}
					},
					view.title
				)
			)
		);
	}

	/** Open a view, with a new entry in the history of the browser. */
	go(name, changes = {}) {
		this.session.writeHash();
		this.session.set({ ...changes, view: name });
		clearTimeout(this.session.timer);
		history.pushState(null, "", `#${this.session.parameters}`);
		return this.show();
	}

	async show() {
		const names = [...this.views.keys()];
		this.name = names.includes(this.session.get("view")) ? this.session.get("view") : names[0];
		const view = this.views.get(this.name);
		for (const link of document.querySelectorAll("#views a")) {
			if (link.dataset.view === this.name) {
				link.setAttribute("aria-current", "page");
				link.scrollIntoView({ block: "nearest", inline: "nearest" });
			} else link.removeAttribute("aria-current");
		}
		document.title = `${view.title} · trellis inspector`;
		this.main.replaceChildren(view.element);
		try {
			await view.show();
		} catch (error) {
			announce(error.message, "error");
		}
		this.main.dataset.ready = this.name;
	}

	async save() {
		try {
			const html = await this.session.saveAsFile(async () => {
				for (const view of this.views.values()) await view.replay?.();
			});
			download("trellis-inspector.html", html, "text/html");
			announce("Saved. The file opens without a server.");
		} catch (error) {
			announce(error.message, "error");
		}
	}
}

async function start() {
	const session = new Session();
	try {
		await session.open();
		if (!session.models.length) throw new Error("The server has no model.");
		const app = new App(session);
		await app.show();
		offerTour(app);
	} catch (error) {
		document.getElementById("main").replaceChildren(make("p", { class: "panel" }, error.message));
	}
}

start();
