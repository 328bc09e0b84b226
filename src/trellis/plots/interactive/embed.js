// Entry of reports, notebooks and saved sentences: draws the payloads of the page into
// <div class="trellis-lattice" data-source="id">, from <script type="application/json" id="id">.

import { formatPercent } from "./lattice.js";
import { Trellis } from "./trellis.js";

/** Draw one payload: the words with their labels, buttons for the selected node, and the lattice. */
export function embedTrellis(host, payload) {
	const add = (parent, tag, className, text = "") =>
		Object.assign(parent.appendChild(document.createElement(tag)), { className, textContent: text });
	const words = add(host, "div", "lattice-words");
	const bar = add(host, "div", "lattice-bar"),
		status = add(bar, "span", "");
	status.setAttribute("role", "status");
	const trellis = new Trellis(add(host, "div", "lattice-host"), { select: update, change: update });
	const buttons = [
		["Pin", () => trellis.pin(trellis.selected.t, trellis.selected.y)],
		["Forbid", () => trellis.forbid(trellis.selected.t, trellis.selected.y)],
		["Clear", () => trellis.clear()]
	].map(([name, action]) => {
		const button = add(bar, "button", "", name);
		button.type = "button";
		button.addEventListener("click", action);
		return button;
	});

	function update() {
		const node = trellis.selected?.y !== undefined ? trellis.selected : null;
		for (const button of buttons.slice(0, 2)) button.hidden = !node;
		buttons[2].hidden = !trellis.allowed;
		if (node) {
			buttons[0].textContent = `${trellis.pins[node.t] === node.y ? "Unpin" : "Pin"} ${payload.labels[node.y]}`;
			buttons[1].textContent = `${trellis.isForbidden(node.t, node.y) ? "Allow" : "Forbid"} ${payload.labels[node.y]}`;
		}
		const [first, second] = trellis.paths;
		const parts = first
			? [`best labelling ${formatPercent(trellis.probability(first.path))}`]
			: ["no labelling is allowed by these pins"];
		if (second) parts.push(`second best ${formatPercent(trellis.probability(second.path))}`);
		if (first && trellis.allowed) parts.push(`pins have probability ${formatPercent(trellis.pinnedProbability())}`);
		if (!node && first) parts.push("click a node to pin or forbid it");
		status.textContent = parts.join(" · ");
		words.replaceChildren(
			...payload.tokens.map((token, t) => {
				const label = first ? payload.labels[first.path[t]] : "?",
					word = document.createElement("span");
				word.classList.toggle("marked", label !== "O");
				word.append(token, Object.assign(document.createElement("small"), { textContent: label }));
				return word;
			})
		);
	}

	const index = label => payload.labels.indexOf(label);
	trellis.show(payload, {
		pins: Object.fromEntries(Object.entries(payload.pins ?? {}).map(([t, label]) => [t, index(label)]))
	});
	host.trellis = trellis; // for scripts of the page
	return trellis;
}

/** Draw every element of the page that names a payload, in place of the picture in it. */
export function embedAll(root) {
	for (const host of root.querySelectorAll(".trellis-lattice[data-source]")) {
		const source = document.getElementById(host.dataset.source);
		if (!source || host.trellis) continue;
		host.replaceChildren();
		embedTrellis(host, JSON.parse(source.textContent));
	}
}

if (typeof document !== "undefined") embedAll(document);
