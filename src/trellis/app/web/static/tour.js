// A tour of three steps for the first visit. Saved pages and later visits start without it.

import { button, make } from "./dom.js";

const STORAGE_KEY = "trellis-tour";
const STEPS = [
	[
		"#text",
		"Type",
		"The labels below the text change as you type. Every sentence you open stays in the address of the page: a bookmark brings it back."
	],
	[
		"#lattice",
		"Touch the trellis",
		"Every labelling is a path. An edge is as wide as it is probable. Click a node or an edge to see the features behind it; press P to pin a label or X to forbid one, and the rest decodes again."
	],
	[
		"#views",
		"Go on",
		"Compare two models, browse the errors of a labelled file, measure slices, correct labels by keyboard and train again."
	]
];

export function offerTour(app) {
	if (app.session.offline || app.name !== "sentence") return;
	try {
		if (localStorage.getItem(STORAGE_KEY)) return;
	} catch {
		return; // storage is off: a tour at every visit would be a nuisance
	}
	startTour(app);
}

export async function startTour(app) {
	if (app.name !== "sentence" && app.views.has("sentence")) await app.go("sentence");
	document.querySelector("dialog.tour")?.remove();
	const heading = make("h2", {}),
		body = make("p", {}),
		counter = make("span", { class: "soft" });
	const next = button("Next", () => show(step + 1), { class: "first", id: "tour-next" });
	const dialog = make(
		"dialog",
		{ class: "tour", "aria-label": "Tour", close: () => finish() },
		heading,
		body,
		make(
			"div",
			{ class: "tools" },
			counter,
			button("Skip", () => dialog.close(), { id: "tour-skip" }),
			next
		)
	);
	let step = 0;

	function finish() {
		document.querySelectorAll(".toured").forEach(element => element.classList.remove("toured"));
		dialog.remove();
		try {
			localStorage.setItem(STORAGE_KEY, "seen");
		} catch {
			/* without storage, nothing is remembered */
		}
	}

	function show(n) {
		if (n >= STEPS.length) return dialog.close();
		step = n;
		const [selector, title, text] = STEPS[n];
		document.querySelectorAll(".toured").forEach(element => element.classList.remove("toured"));
		const target = document.querySelector(selector);
		target?.classList.add("toured");
		target?.scrollIntoView({ block: "nearest" });
		heading.textContent = title;
		body.textContent = text;
		counter.textContent = `${n + 1} of ${STEPS.length}`;
		next.textContent = n + 1 === STEPS.length ? "Start" : "Next";
		return undefined;
	}

	document.body.append(dialog);
	dialog.show();
	show(0);
	next.focus();
	dialog.addEventListener("keydown", event => event.key === "Escape" && dialog.close());
}
