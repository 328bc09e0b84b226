// What the page knows: the models, requests to the server or answers in a saved file, and the state in the URL.

const EXAMPLE = "any trains from Utrecht to Basel tomorrow evening?";
const STATE_ELEMENT = "trellis-state";
const RECORDING_POLL = 300; // ms
const STATE_MARK = "\x3c!--state--\x3e"; // of the server; written so that this module does not contain it
const PARAMETERS = { chain: "model", ctc: "emissions", vectors: "vectors" }; // of the chosen model in the URL

/** The session of this page. A saved file has a script element with the answers that it needs. */
export class Session {
	constructor() {
		const saved = document.getElementById(STATE_ELEMENT);
		this.saved = saved ? JSON.parse(saved.textContent) : null;
		this.answers = new Map(this.saved?.answers ?? []);
		this.recording = null;
		this.parameters = new URLSearchParams(location.hash.slice(1) || this.saved?.hash || "");
	}

	/** True in a saved file: there is no server. */
	get offline() {
		return this.saved !== null;
	}

	/** Return the answer of the server to a JSON body. In a saved file, the answer that was saved. */
	async post(path, body = {}) {
		const key = `${path} ${JSON.stringify(body)}`;
		if (this.offline) {
			if (this.answers.has(key)) return this.answers.get(key);
			throw new Error("This is a saved page. It has the sentences and results that were open when it was saved.");
		}
		const response = await fetch(path, {
			method: "POST",
			headers: { "Content-Type": "application/json" },
			body: JSON.stringify(body)
		});
		const answer = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
		if (!response.ok) throw new Error(answer.error ?? `status ${response.status}`);
		if (this.recording && answer.progress < 1) {
			await new Promise(resolve => setTimeout(resolve, RECORDING_POLL)); // a saved page cannot ask again
			return this.post(path, body);
		}
		this.recording?.set(key, answer);
		return answer;
	}

	async open() {
		const state = await this.post("/page/state");
		this.models = state.models.map((model, number) => ({ ...model, number }));
		this.data = state.data;
		this.canSave = state.can_save && !this.offline;
		this.canTrain = state.can_train && !this.offline;
	}

	modelsOf(kind) {
		return this.models.filter(model => model.kind === kind);
	}

	/** Number of the model of a kind that is open. */
	chosen(kind) {
		const models = this.modelsOf(kind),
			number = this.getNumber(PARAMETERS[kind], models[0].number);
		return models.some(model => model.number === number) ? number : models[0].number;
	}

	choose(kind, number) {
		this.set({ [PARAMETERS[kind]]: number });
	}

	// --- the state in the URL ---

	get(name, otherwise = "") {
		return this.parameters.get(name) ?? otherwise;
	}

	getNumber(name, otherwise) {
		const value = Number.parseFloat(this.parameters.get(name));
		return Number.isFinite(value) ? value : otherwise;
	}

	/** Change parameters; null or "" removes one. The URL follows after a moment: browsers limit changes. */
	set(changes) {
		for (const [name, value] of Object.entries(changes)) {
			if (value === null || value === undefined || value === "") this.parameters.delete(name);
			else this.parameters.set(name, value);
		}
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.writeHash(), 150);
	}

	writeHash() {
		clearTimeout(this.timer);
		history.replaceState(null, "", `#${this.parameters}`);
	}

	readHash() {
		clearTimeout(this.timer);
		this.parameters = new URLSearchParams(location.hash.slice(1));
	}

	/** Choose a sentence if none is open: the example, or the first of the data if a text cannot be typed. */
	openFirst(model) {
		if (this.parameters.has("index") || this.parameters.has("text")) return;
		if (this.models[model].needs === "text") this.set({ text: EXAMPLE });
		else if (this.data) this.set({ index: 0 });
	}

	/** Return the sentence that is open as members of a request: {index}, {text} or {tokens}; null if it is empty. */
	sentence(model) {
		if (this.parameters.has("index")) return { index: this.getNumber("index", 0) };
		const text = this.get("text").trim(),
			{ needs } = this.models[model];
		if (!text) return null;
		return needs === "text" ? { text: this.get("text") } : { tokens: parseColumns(text) };
	}

	/** Return the page as one file that needs no server; `replay` asks for everything that it shows. */
	async saveAsFile(replay) {
		this.recording = new Map();
		try {
			await this.post("/page/state");
			await replay();
			const answers = [...this.recording];
			this.recording = null;
			const { html } = await this.post("/page/bundle", { entry: "main" });
			const state = JSON.stringify({ hash: String(this.parameters), answers }).replaceAll("<", "\\u003c");
			const [start, end] = html.replace(/<link rel="icon"[^>]*>\n/, "").split(STATE_MARK);
			return `${start}<script type="application/json" id="${STATE_ELEMENT}">${state}</script>${end}`;
		} finally {
			this.recording = null;
		}
	}
}

/** Return the tokens of a text with a token per line. Tabs or blanks separate its columns or features. */
export function parseColumns(text) {
	return text
		.split("\n")
		.map(line => line.trim())
		.filter(Boolean)
		.map(line => line.split(line.includes("\t") ? "\t" : /\s+/));
}
