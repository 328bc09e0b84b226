// Run chain.js on the payloads of standard input; the results go to standard output.
import { readFileSync } from "node:fs";
import { decodeArray, entropy, kbest, logPartition, makeChain, marginals, pathScore, viterbi } from "./chain.js";

const encode = values => ({
	shape: [values.length],
	float64: Buffer.from(Float64Array.from(values).buffer).toString("base64")
});

const results = JSON.parse(readFileSync(0, "utf-8")).map(({ payload, allowed, k }) => {
	const chain = makeChain(payload);
	const mask = allowed && Uint8Array.from(decodeArray(allowed));
	const { logZ, unary, pairwise } = marginals(chain, mask);
	const best = viterbi(chain, mask);
	const paths = kbest(chain, k, mask);
	return {
		log_partition: encode([logPartition(chain, mask), logZ]),
		unary: encode(unary),
		pairwise: encode(pairwise),
		entropy: encode([entropy(chain, mask)]),
		viterbi: best && best.path,
		viterbi_score: encode([best ? best.score : -Infinity]),
		paths: paths.map(({ path }) => path),
		path_scores: encode(paths.map(({ score }) => score)),
		rescored: encode(paths.map(({ path }) => pathScore(chain, path, mask)))
	};
});
process.stdout.write(JSON.stringify(results));
