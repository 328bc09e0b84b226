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
	const largest = new Float64Array(L),
		sums = new Float64Array(L),
		logSums = new Float64Array(L);
	let tail = new Float64Array(L);
	for (let b = 0; b < L && T > 0; b++) alpha[b] = scoreAt(chain, allowed, b);
	for (let t = 1; t < T; t++) {
		const matrix = matrixAt(chain, t),
			last = (t - 1) * L,
			block = last * L,
			nextTail = new Float64Array(L);
		largest.fill(-Infinity);
		for (let a = 0; a < L; a++) {
			for (let b = 0; b < L; b++) largest[b] = Math.max(largest[b], alpha[last + a] + transition[matrix + a * L + b]);
		}
		for (let b = 0; b < L; b++) if (scoreAt(chain, allowed, t * L + b) === -Infinity) largest[b] = -Infinity;
		sums.fill(0);
		for (let a = 0; a < L; a++) {
			for (let b = 0; b < L; b++) {
				if (largest[b] === -Infinity) continue;
				sums[b] += before[block + a * L + b] = Math.exp(alpha[last + a] + transition[matrix + a * L + b] - largest[b]);
			}
		}
		for (let b = 0; b < L; b++) {
			logSums[b] = Math.log(sums[b]);
			alpha[t * L + b] = sums[b] > 0 ? scoreAt(chain, allowed, t * L + b) + largest[b] + logSums[b] : -Infinity;
		}
		for (let a = 0; a < L; a++) {
			for (let b = 0; b < L; b++) {
				const n = block + a * L + b;
				if (before[n] === 0) continue;
				before[n] /= sums[b];
				const logWeight = alpha[last + a] + transition[matrix + a * L + b] - largest[b];
				nextTail[b] += before[n] * (tail[a] - (logWeight - logSums[b]));
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
 * Return up to k allowed paths {path, score}, best first. Each cell (t, b) keeps its k best beginnings
 * in order; a beginning is extended from the sorted beginnings of each a until one is not good enough.
 */
export function kbest(chain, k, allowed = null) {
	const { T, L, transition } = chain,
		end = T * L; // the last cell collects the ends of paths
	const scores = new Float64Array((end + 1) * k).fill(-Infinity);
	const labels = new Int32Array((end + 1) * k),
		ranks = new Int32Array((end + 1) * k); // of the beginning
	const extend = (cell, t, a, added) => {
		const first = cell * k,
			start = (t * L + a) * k;
		for (let rank = 0; rank < k; rank++) {
			const score = scores[start + rank] + added;
			let n = first + k - 1;
			if (!(score > scores[n])) return;
			for (; n > first && scores[n - 1] < score; n--) {
				scores[n] = scores[n - 1];
				labels[n] = labels[n - 1];
				ranks[n] = ranks[n - 1];
			}
			scores[n] = score;
			labels[n] = a;
			ranks[n] = rank;
		}
	};
	for (let b = 0; b < L && T > 0; b++) scores[b * k] = scoreAt(chain, allowed, b);
	for (let t = 1; t < T; t++) {
		const matrix = matrixAt(chain, t);
		for (let b = 0; b < L; b++) {
			const u = scoreAt(chain, allowed, t * L + b);
			if (u === -Infinity) continue;
			for (let a = 0; a < L; a++) extend(t * L + b, t - 1, a, transition[matrix + a * L + b] + u);
		}
	}
	for (let b = 0; b < L && T > 0; b++) extend(end, T - 1, b, 0);
	const paths = [];
	for (let n = end * k; n < (end + 1) * k && scores[n] > -Infinity; n++) {
		const path = new Array(T);
		for (let t = T - 1, cell = n; t >= 0; t--) {
			path[t] = labels[cell];
			cell = (t * L + path[t]) * k + ranks[cell];
		}
		paths.push({ path, score: scores[n] });
	}
	return paths;
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
