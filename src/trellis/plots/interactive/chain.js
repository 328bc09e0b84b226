// Exact inference on one linear chain, as in trellis.inference.chain. No DOM, no imports.
//
// T positions, L labels. Arrays are Float64Arrays, row-major; -Infinity forbids. A chain is
// {T, L, unary (T·L, start and end scores included), transition (L·L or (T-1)·L·L), perStep}.
// `allowed` is null or a Uint8Array (T·L): 0 forbids a label at a position, so a pin is a row with a single 1.

/** Return the numbers of {"shape": [...], "float64": base64}, little endian. */
export function decodeArray(encoded) {
	const bytes = Uint8Array.from(atob(encoded.float64), character => character.charCodeAt(0));
	return new Float64Array(bytes.buffer);
}

/** Return the chain of a sentence payload (T, L) with start and end added to its unary scores. */
export function makeChain(payload) {
	const [T, L] = payload.unary.shape;
	const unary = decodeArray(payload.unary);
	for (const [name, t] of [
		["start", 0],
		["end", T - 1]
	]) {
		if (payload[name] && T > 0)
			decodeArray(payload[name]).forEach((score, y) => {
				unary[t * L + y] += score;
			});
	}
	return { T, L, unary, transition: decodeArray(payload.transition), perStep: payload.transition.shape.length === 3 };
}

const scoreAt = (chain, allowed, n) => (allowed && !allowed[n] ? -Infinity : chain.unary[n]);
const matrixAt = (chain, t) => (chain.perStep ? (t - 1) * chain.L * chain.L : 0); // of the step t-1 → t

/** score(y) = Σ unary[t, y_t] + Σ transition[y_{t-1}, y_t]. */
export function pathScore(chain, path, allowed = null) {
	let total = 0;
	path.forEach((y, t) => {
		total += scoreAt(chain, allowed, t * chain.L + y);
		if (t > 0) total += chain.transition[matrixAt(chain, t) + path[t - 1] * chain.L + y];
	});
	return total;
}

/**
 * The forward pass in log space. alpha[t, b] = u[t, b] + log Σ_a exp(alpha[t-1, a] + A[a, b]);
 * before[t-1, a, b] = p(y_{t-1} = a | y_t = b), each column divided by its sum, so that rounding of
 * large scores does not add up over positions; tail[b] is the entropy of y_0 … y_{t-1} given y_t = b.
 */
function forward(chain, allowed) {
	const { T, L, transition } = chain;
	const alpha = new Float64Array(T * L),
		before = new Float64Array(Math.max(T - 1, 0) * L * L);
	let tail = new Float64Array(L);
	const logs = new Float64Array(L);
	for (let b = 0; b < L && T > 0; b++) alpha[b] = scoreAt(chain, allowed, b);
	for (let t = 1; t < T; t++) {
		const matrix = matrixAt(chain, t),
			last = (t - 1) * L,
			block = last * L,
			nextTail = new Float64Array(L);
		for (let b = 0; b < L; b++) {
			const u = scoreAt(chain, allowed, t * L + b);
			let max = -Infinity,
				sum = 0;
			alpha[t * L + b] = -Infinity;
			if (u === -Infinity) continue;
			for (let a = 0; a < L; a++) {
				logs[a] = alpha[last + a] + transition[matrix + a * L + b];
				if (logs[a] > max) max = logs[a];
			}
			if (max === -Infinity) continue;
			for (let a = 0; a < L; a++) {
				const weight = logs[a] === -Infinity ? 0 : Math.exp(logs[a] - max);
				before[block + a * L + b] = weight;
				sum += weight;
			}
			const logSum = Math.log(sum);
			alpha[t * L + b] = u + max + logSum;
			for (let a = 0; a < L; a++) {
				const r = (before[block + a * L + b] /= sum);
				if (r > 0) nextTail[b] += r * (tail[a] - (logs[a] - max - logSum));
			}
		}
		tail = nextTail;
	}
	return { alpha, before, tail };
}

/** log Σ_a exp(values[first + a]) over n numbers; -Infinity for no path. */
function logSumExp(values, first, n) {
	let max = -Infinity,
		sum = 0;
	for (let i = first; i < first + n; i++) max = Math.max(max, values[i]);
	if (max === -Infinity) return max;
	for (let i = first; i < first + n; i++) sum += Math.exp(values[i] - max);
	return max + Math.log(sum);
}

/** log Z = log Σ_y exp(score(y)); -Infinity if no path is allowed. */
export function logPartition(chain, allowed = null) {
	return chain.T ? logSumExp(forward(chain, allowed).alpha, (chain.T - 1) * chain.L, chain.L) : 0;
}

/**
 * Return {logZ, unary: p(y_t) (T·L), pairwise: p(y_{t-1}, y_t) ((T-1)·L·L), entropy in nats}.
 * If no path is allowed, logZ is -Infinity and the probabilities are 0.
 */
export function marginals(chain, allowed = null) {
	const { T, L } = chain;
	const { alpha, before, tail } = forward(chain, allowed);
	const unary = new Float64Array(T * L),
		last = (T - 1) * L;
	const logZ = T ? logSumExp(alpha, last, L) : 0;
	if (T === 0 || logZ === -Infinity) return { logZ, unary, pairwise: before.fill(0), entropy: 0 };
	let sum = 0,
		entropyTotal = 0;
	for (let b = 0; b < L; b++) sum += unary[last + b] = Math.exp(alpha[last + b] - logZ);
	for (let b = 0; b < L; b++) {
		const p = (unary[last + b] /= sum);
		if (p > 0) entropyTotal += p * (tail[b] - Math.log(p));
	}
	for (let t = T - 1; t > 0; t--) {
		// p(y_{t-1} = a) = Σ_b p(y_{t-1} = a | y_t = b) p(y_t = b)
		for (let a = 0, n = (t - 1) * L * L; a < L; a++) {
			let p = 0;
			for (let b = 0; b < L; b++, n++) p += before[n] *= unary[t * L + b];
			unary[(t - 1) * L + a] = p;
		}
	}
	return { logZ, unary, pairwise: before, entropy: entropyTotal };
}

/** H(y) = -Σ_y p(y) log p(y), in nats. */
export function entropy(chain, allowed = null) {
	return marginals(chain, allowed).entropy;
}

/** Return {path, score} with the largest score, or null if no path is allowed. */
export function viterbi(chain, allowed = null) {
	return kbest(chain, 1, allowed)[0] ?? null;
}

/**
 * Return up to k allowed paths {path, score}, best first. Each (t, b) keeps its k best beginnings in
 * order; a beginning is extended from the sorted beginnings of each a until one is not good enough.
 */
export function kbest(chain, k, allowed = null) {
	const { T, L, transition } = chain;
	const tables = []; // of each position, per label: [{score, from: label, rank}, ...], best first
	const insert = (best, score, from, rank) => {
		let n = best.length;
		while (n > 0 && best[n - 1].score < score) n--;
		best.splice(n, 0, { score, from, rank });
		if (best.length > k) best.pop();
	};
	const extend = (best, beginnings, from, added) => {
		for (let rank = 0; rank < beginnings.length; rank++) {
			const score = beginnings[rank].score + added;
			if (score === -Infinity || (best.length === k && score <= best[k - 1].score)) return;
			insert(best, score, from, rank);
		}
	};
	for (let t = 0; t < T; t++) {
		const matrix = matrixAt(chain, t);
		tables.push(
			Array.from({ length: L }, (_, b) => {
				const best = [],
					u = scoreAt(chain, allowed, t * L + b);
				if (u === -Infinity) return best;
				if (t === 0) return [{ score: u, from: -1, rank: 0 }];
				for (let a = 0; a < L; a++) extend(best, tables[t - 1][a], a, transition[matrix + a * L + b] + u);
				return best;
			})
		);
	}
	const ends = [];
	if (T > 0) tables[T - 1].forEach((beginnings, b) => extend(ends, beginnings, b, 0));
	return ends.map(({ score, from, rank }) => {
		const path = new Array(T);
		for (let t = T - 1, b = from, r = rank; t >= 0; t--) {
			path[t] = b;
			({ from: b, rank: r } = tables[t][b][r]);
		}
		return { path, score };
	});
}

/**
 * Return `allowed` for pins {t: label} and forbidden labels [[t, label], ...], or null if there are none.
 * A pin wins over what is forbidden at its position.
 */
export function makeAllowed(T, L, pins, forbidden) {
	const positions = Object.keys(pins)
		.map(Number)
		.filter(t => t < T);
	if (positions.length === 0 && forbidden.length === 0) return null;
	const allowed = new Uint8Array(T * L).fill(1);
	for (const [t, y] of forbidden) if (t < T) allowed[t * L + y] = 0;
	for (const t of positions) {
		allowed.fill(0, t * L, (t + 1) * L);
		allowed[t * L + pins[t]] = 1;
	}
	return allowed;
}
