// Emissions of a CTC network: heat map, best alignment of a text, the lattice over frames, and playback.

import { button, field, make, modelField, number, panel } from "./dom.js";
import { createLattice } from "./lattice.js";
import { readColours } from "./paint.js";
import { decodeArray } from "./chain.js";

const WINDOW = 16; // frames of the lattice
const MIN_ROW = 0.1; // symbols that are never as probable have no row
const ROW_HEIGHT = 17,
	AXIS = 26,
	NAME_WIDTH = 46;

/** The symbols of a text between blanks, – y₁ – y₂ … –, as indices; throws if the text has another symbol. */
export function extendTarget(text, symbols, blank) {
	const indices = new Map(symbols.map((symbol, n) => [symbol, n]));
	const short = symbols.every((symbol, n) => n === blank || [...symbol].length <= 1);
	const pieces = short ? [...text] : text.split(/\s+/).filter(Boolean);
	const states = [blank];
	for (const piece of pieces) {
		const index = indices.get(piece) ?? (piece === " " ? indices.get("|") : undefined);
		if (index === undefined || index === blank) throw new Error(`“${piece}” is not a symbol of these emissions.`);
		states.push(index, blank);
	}
	return states;
}

/**
 * Forward-backward and the best path over the states of an extended target; scores is (T·V), log p.
 * Returns {logZ, states, best (a state per frame), posterior (T·S), pair(t, s, next)}. States stay,
 * step, or skip the blank between different symbols.
 */
export function alignTarget(scores, T, V, states, blank) {
	const S = states.length,
		u = (t, s) => scores[t * V + states[s]];
	const skips = s => s >= 2 && states[s] !== blank && states[s] !== states[s - 2];
	const alpha = new Float64Array(T * S).fill(-Infinity),
		beta = new Float64Array(T * S).fill(-Infinity),
		best = alpha.slice();
	const from = new Int32Array(T * S);
	const add = (a, b) =>
		a === -Infinity ? b : b === -Infinity ? a : Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
	for (let s = 0; s < Math.min(2, S); s++) alpha[s] = best[s] = u(0, s);
	for (let t = 1; t < T; t++) {
		for (let s = 0; s < S; s++) {
			for (let step = 0; step <= (skips(s) ? 2 : Math.min(s, 1)); step++) {
				const before = (t - 1) * S + s - step;
				alpha[t * S + s] = add(alpha[t * S + s], alpha[before]);
				if (best[before] > best[t * S + s]) [best[t * S + s], from[t * S + s]] = [best[before], s - step];
			}
			alpha[t * S + s] += u(t, s);
			best[t * S + s] += u(t, s);
		}
	}
	const last = (T - 1) * S;
	for (let s = Math.max(S - 2, 0); s < S; s++) beta[last + s] = 0;
	for (let t = T - 2; t >= 0; t--) {
		for (let next = 0; next < S; next++) {
			for (let step = 0; step <= (skips(next) ? 2 : Math.min(next, 1)); step++) {
				const here = t * S + next - step;
				beta[here] = add(beta[here], u(t + 1, next) + beta[(t + 1) * S + next]);
			}
		}
	}
	const logZ = S > 1 ? add(alpha[last + S - 1], alpha[last + S - 2]) : alpha[last];
	if (logZ === -Infinity) return { logZ, states, best: null, posterior: new Float64Array(T * S), pair: () => 0 };
	const path = [S > 1 && best[last + S - 2] > best[last + S - 1] ? S - 2 : S - 1];
	for (let t = T - 1; t > 0; t--) path.push(from[t * S + path[path.length - 1]]);
	const posterior = alpha.map((value, n) => Math.exp(value + beta[n] - logZ));
	const pair = (t, s, next) => {
		const step = next - s;
		if (step < 0 || step > 2 || (step === 2 && !skips(next))) return 0;
		return Math.exp(alpha[t * S + s] + u(t + 1, next) + beta[(t + 1) * S + next] - logZ);
	};
	return { logZ, states, best: path.reverse(), posterior, pair };
}

/** Plays a recording from any second. An <audio> element could not seek without ranges of the server. */
class Player {
	constructor(bytes, changed) {
		this.bytes = bytes;
		this.changed = changed;
		this.playing = false;
	}

	async start(seconds) {
		this.stop();
		this.context ??= new AudioContext();
		this.buffer ??= await this.context.decodeAudioData(this.bytes);
		await this.context.resume();
		const source = (this.source = this.context.createBufferSource());
		source.buffer = this.buffer;
		source.connect(this.context.destination);
		source.addEventListener("ended", () => source === this.source && this.stop());
		source.start(0, seconds);
		this.begin = this.context.currentTime - seconds;
		this.playing = true;
		this.changed();
	}

	get time() {
		return this.context.currentTime - this.begin;
	}

	stop() {
		if (!this.playing) return;
		this.playing = false;
		this.source.stop();
		this.changed();
	}
}

export class CtcView {
	constructor(app) {
		this.session = app.session;
		this.title = "CTC";
		this.choice = make("div", { class: "tools" });
		this.input = make("input", {
			id: "ctc-text",
			size: "40",
			spellcheck: "false",
			"aria-label": "Text to align",
			input: () => {
				this.session.set({ target: this.input.value });
				this.align();
			}
		});
		this.status = make("p", { class: "soft", role: "status", id: "ctc-status" });
		this.canvas = make("canvas", {
			id: "heat",
			role: "img",
			tabindex: "0",
			click: event => this.clicked(event),
			keydown: event => this.key(event),
			pointermove: event => this.hover(event)
		});
		this.playhead = make("div", { class: "playhead", id: "playhead", hidden: true });
		this.host = make("div", { class: "canvas-host" }, this.canvas, this.playhead);
		this.readout = make(
			"p",
			{ class: "soft", "aria-live": "polite", id: "ctc-readout" },
			"Click the picture to hear it from there, and to see the lattice of these frames."
		);
		this.latticeHost = make("div", { id: "ctc-lattice", class: "trellis-lattice" });
		this.lattice = createLattice(this.latticeHost);
		this.element = make(
			"div",
			{},
			panel("Emissions", this.choice, this.status, this.host, this.readout),
			panel("Lattice over frames", make("h2", {}, "The lattice over frames"), this.latticeHost)
		);
		new ResizeObserver(() => this.payload && this.host.clientWidth !== this.width && this.paint()).observe(this.host);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.payload && this.paint());
	}

	get model() {
		return this.session.chosen("ctc");
	}

	async show() {
		const payload = (this.payload = await this.session.post("/page/ctc", { model: this.model }));
		[this.T, this.V] = payload.scores.shape;
		this.scores = decodeArray(payload.scores);
		this.names = payload.symbols.map((symbol, n) => (n === payload.blank ? "–" : symbol === " " ? "␣" : symbol));
		this.frame = Math.min(this.session.getNumber("frame", 0), this.T - 1);
		this.input.value = this.session.get("target", payload.text);
		this.play = button("Play", () => this.toggle(), { id: "play", disabled: true });
		this.choice.replaceChildren(
			make("h2", {}, this.session.models[this.model].name),
			modelField(this.session, "ctc", () => {
				this.session.set({ target: null, frame: null });
				this.show();
			}),
			field("text", this.input),
			button("Best text", () => {
				this.session.set({ target: null });
				this.input.value = payload.text;
				this.align();
			}),
			this.play
		);
		this.align();
		await this.loadSound(payload.audio);
	}

	async loadSound(url) {
		this.player?.stop();
		this.player = null;
		this.play.disabled = true;
		if (!url) return;
		const saved = this.session.answers.get(`sound ${url}`);
		this.sound = saved
			? Uint8Array.from(atob(saved), character => character.charCodeAt(0)).buffer
			: await (await fetch(url)).arrayBuffer();
		this.player = new Player(this.sound.slice(0), () => {
			this.play.textContent = this.player.playing ? "Stop" : "Play";
			this.follow();
		});
		this.play.disabled = false;
	}

	align() {
		try {
			const states = extendTarget(this.input.value, this.payload.symbols, this.payload.blank);
			this.result = alignTarget(this.scores, this.T, this.V, states, this.payload.blank);
			this.status.textContent = this.result.best
				? `log p(text) = ${number(this.result.logZ, 3)} · ${this.T} frames · ${states.length} states`
				: `No alignment: ${this.T} frames are too few for this text.`;
		} catch (error) {
			this.result = null;
			this.status.textContent = error.message;
		}
		this.paint();
		this.showFrames();
	}

	/** The symbols with a row: somewhere probable, or on the best path. */
	chooseRows() {
		const shown = new Set((this.result?.best ?? []).map(s => this.result.states[s]));
		for (let n = 0; n < this.T * this.V; n++) if (this.scores[n] > Math.log(MIN_ROW)) shown.add(n % this.V);
		return [...shown].sort((a, b) => a - b);
	}

	paint() {
		const rows = (this.rows = this.chooseRows()),
			{ T, V, canvas } = this,
			colours = readColours(document.documentElement);
		this.width = this.host.clientWidth;
		this.cell = Math.max(2, Math.min(24, (this.width - NAME_WIDTH - 4) / T));
		const width = NAME_WIDTH + this.cell * T,
			height = rows.length * ROW_HEIGHT + AXIS,
			ratio = window.devicePixelRatio || 1;
		canvas.style.width = `${width}px`;
		canvas.style.height = `${height}px`;
		[canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
		canvas.setAttribute(
			"aria-label",
			`Heat map of ${T} frames and ${rows.length} symbols. Arrow keys move by a frame, Space plays.`
		);
		const context = canvas.getContext("2d");
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.font = "12px system-ui, sans-serif";
		rows.forEach((symbol, row) => {
			context.globalAlpha = 1;
			context.fillStyle = colours.ink;
			context.textAlign = "right";
			context.fillText(this.names[symbol], NAME_WIDTH - 8, row * ROW_HEIGHT + 13, NAME_WIDTH - 10);
			context.fillStyle = colours.line;
			context.fillRect(NAME_WIDTH, (row + 1) * ROW_HEIGHT - 0.5, this.cell * T, 0.5);
			context.fillStyle = colours.blue;
			for (let t = 0; t < T; t++) {
				const p = Math.exp(this.scores[t * V + symbol]);
				if (p < 0.02) continue;
				context.globalAlpha = p ** 0.7; // small probabilities stay visible
				context.fillRect(NAME_WIDTH + t * this.cell, row * ROW_HEIGHT, this.cell, ROW_HEIGHT - 1);
			}
		});
		context.globalAlpha = 1;
		this.paintAxis(context, colours, rows.length * ROW_HEIGHT);
		this.paintPath(context, colours);
		this.follow();
	}

	paintAxis(context, colours, top) {
		const { seconds } = this.payload,
			length = seconds ?? this.T,
			steps = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
		const step = steps.find(size => (size / length) * this.cell * this.T >= 60) ?? length;
		context.fillStyle = colours.soft;
		context.textAlign = "center";
		for (let value = 0; value < length; value += step) {
			context.fillText(
				`${Number(value.toFixed(2))}${seconds ? " s" : ""}`,
				NAME_WIDTH + (value / length) * this.cell * this.T + (seconds ? 0 : this.cell / 2),
				top + 18
			);
		}
	}

	paintPath(context, colours) {
		const path = this.result?.best;
		if (!path) return;
		context.strokeStyle = colours.red;
		context.lineWidth = 1.8;
		context.beginPath();
		path.forEach((s, t) => {
			const x = NAME_WIDTH + (t + 0.5) * this.cell,
				y = (this.rows.indexOf(this.result.states[s]) + 0.5) * ROW_HEIGHT;
			if (t) context.lineTo(x, y);
			else context.moveTo(x, y);
		});
		context.stroke();
	}

	frameAt(event) {
		return Math.floor((event.clientX - this.canvas.getBoundingClientRect().left - NAME_WIDTH) / this.cell);
	}

	hover(event) {
		const t = this.frameAt(event),
			symbol = this.rows[Math.floor(event.offsetY / ROW_HEIGHT)];
		if (t < 0 || t >= this.T || symbol === undefined) return;
		this.canvas.title = `${this.names[symbol]}, frame ${t}: p = ${Math.exp(this.scores[t * this.V + symbol]).toFixed(3)}`;
	}

	clicked(event) {
		const t = this.frameAt(event);
		if (t < 0 || t >= this.T) return;
		this.moveTo(t);
		if (this.player) this.start();
	}

	key(event) {
		const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -WINDOW, PageDown: WINDOW, Home: -this.T, End: this.T };
		if (event.key in moves) this.moveTo(Math.min(Math.max(this.frame + moves[event.key], 0), this.T - 1));
		else if (event.key === " " && this.player) this.toggle();
		else return;
		event.preventDefault();
	}

	moveTo(t) {
		this.frame = t;
		this.session.set({ frame: t || null });
		this.showFrames();
		this.follow();
		const state = this.result?.best?.[t];
		this.readout.textContent = `Frame ${t}${this.payload.seconds ? ` at ${((t / this.T) * this.payload.seconds).toFixed(2)} s` : ""}${state === undefined ? "" : `: ${this.names[this.result.states[state]]} with posterior ${number(this.result.posterior[t * this.result.states.length + state], 3)}`}.`;
	}

	async start() {
		try {
			await this.player.start((this.frame / this.T) * this.payload.seconds);
		} catch (error) {
			this.readout.textContent = `The recording does not play: ${error.message}`;
		}
	}

	toggle() {
		if (this.player.playing) this.player.stop();
		else this.start();
	}

	follow() {
		const playing = this.player?.playing,
			t = playing ? (this.player.time / this.payload.seconds) * this.T : this.frame + 0.5;
		this.playhead.hidden = false;
		this.playhead.style.left = `${NAME_WIDTH + t * this.cell}px`;
		this.playhead.style.height = `${this.rows.length * ROW_HEIGHT}px`;
		if (playing) requestAnimationFrame(() => this.follow());
	}

	/** Draw the states of the frames around the chosen one with the posterior p(state | frame, text). */
	showFrames() {
		if (!this.result?.best) {
			this.latticeHost.hidden = true;
			return;
		}
		this.latticeHost.hidden = false;
		const { result, T } = this,
			S = result.states.length,
			first = Math.max(0, Math.min(this.frame - WINDOW / 2, T - WINDOW));
		const frames = Array.from({ length: Math.min(WINDOW, T) }, (_, n) => first + n);
		const shown = [...Array(S).keys()].filter(s =>
			frames.some(t => result.best[t] === s || result.posterior[t * S + s] > 0.005)
		);
		const n = shown.length,
			p = new Float64Array(frames.length * n),
			pairs = new Float64Array((frames.length - 1) * n * n);
		frames.forEach((t, i) =>
			shown.forEach((s, a) => {
				p[i * n + a] = result.posterior[t * S + s];
				if (i + 1 < frames.length)
					shown.forEach((next, b) => {
						pairs[(i * n + a) * n + b] = result.pair(t, s, next);
					});
			})
		);
		this.lattice.update({
			tokens: frames.map(String),
			labels: shown.map(s => this.names[result.states[s]]),
			spans: null,
			p,
			pairs,
			best: frames.map(t => shown.indexOf(result.best[t])),
			second: null,
			gold: null,
			pins: {},
			forbidden: [],
			minimum: 0.005,
			extra: shown.keys(),
			tip: () => "posterior of this state, given the text"
		});
	}

	async replay() {
		if (!this.payload) return;
		await this.session.post("/page/ctc", { model: this.model });
		if (!this.sound) return;
		const characters = Array.from(new Uint8Array(this.sound), byte => String.fromCharCode(byte));
		this.session.recording.set(`sound ${this.payload.audio}`, btoa(characters.join("")));
	}
}
