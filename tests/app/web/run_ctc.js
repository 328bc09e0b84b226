// Align texts by ctc.js; the problems come from standard input.
import { readFileSync } from "node:fs";
import { decodeArray } from "./chain.js";
import { alignTarget, extendTarget } from "./ctc.js";

const encode = values => ({
	shape: [values.length],
	float64: Buffer.from(Float64Array.from(values).buffer).toString("base64")
});

const results = JSON.parse(readFileSync(0, "utf-8")).map(({ scores, text, symbols, blank }) => {
	const [T, V] = scores.shape,
		states = extendTarget(text, symbols, blank);
	const { logZ, best, posterior, pair } = alignTarget(decodeArray(scores), T, V, states, blank);
	const bySymbol = new Float64Array(T * V),
		outgoing = [];
	posterior.forEach((p, n) => {
		bySymbol[Math.floor(n / states.length) * V + states[n % states.length]] += p;
	});
	for (let t = 0; t + 1 < T; t++) {
		for (let s = 0; s < states.length; s++) outgoing.push(states.reduce((sum, _, next) => sum + pair(t, s, next), 0));
	}
	return {
		log_z: encode([logZ]),
		path: best && best.map(s => states[s]),
		by_symbol: encode(bySymbol),
		posterior: encode(posterior),
		outgoing: encode(outgoing)
	};
});
process.stdout.write(JSON.stringify(results));
