// One sentence that one can touch: the lattice with pins and forbidden labels, decoded again after each.

import { kbest, makeAllowed, makeChain, marginals, pathScore } from "./chain.js";
import { createLattice } from "./lattice.js";

/** A lattice in `host`. Handlers: select(target), change(). The labelling is in `best`, `p`, `paths`. */
export class Trellis {
	constructor(host, handlers = {}) {
		this.handlers = handlers;
		this.minimum = 0.01;
		this.count = 2; // paths to compute
		this.pins = {};
		this.forbidden = [];
		host.classList.add("trellis-lattice");
		this.lattice = createLattice(host, {
			select: target => this.select(target),
			pin: (t, y) => this.pin(t, y),
			forbid: (t, y) => this.forbid(t, y),
			clear: t => this.clear(t)
		});
	}

	/** Show a sentence payload. Pins stay only if `keep` is given: {pins, forbidden, selected}. */
	show(payload, keep = {}) {
		this.payload = payload;
		this.chain = makeChain(payload);
		const { T, L } = this.chain,
			indices = new Map(payload.labels.map((label, y) => [label, y]));
		this.gold = payload.gold ? payload.gold.map(label => indices.get(label) ?? null) : null;
		this.pins = Object.fromEntries(
			Object.entries(keep.pins ?? {})
				.filter(([t, y]) => t < T && y < L)
				.map(([t, y]) => [t, y])
		);
		this.forbidden = (keep.forbidden ?? []).filter(([t, y]) => t < T && y < L);
		this.selected = keep.selected && keep.selected.t < T ? keep.selected : null;
		this.free = null; // the marginals without pins, computed when they are needed
		this.decode();
	}

	/** Run the recursions again and draw the result. */
	decode() {
		const { chain } = this;
		this.allowed = makeAllowed(chain.T, chain.L, this.pins, this.forbidden);
		const result = marginals(chain, this.allowed);
		this.free = this.allowed ? (this.free ?? marginals(chain)) : result;
		Object.assign(this, { logZ: result.logZ, p: result.unary, pairs: result.pairwise, entropy: result.entropy });
		this.paths = kbest(chain, this.count, this.allowed);
		this.best = this.paths[0]?.path ?? null;
		this.draw();
		this.handlers.change?.();
	}

	draw() {
		const { payload, p, pairs, best, gold, pins, forbidden, minimum, selected } = this;
		this.lattice.update({
			tokens: payload.tokens,
			labels: payload.labels,
			spans: payload.spans,
			p,
			pairs,
			best,
			gold,
			pins,
			forbidden,
			minimum,
			selected,
			second: this.shownPath ?? this.paths[1]?.path ?? null,
			tip: t => this.describeColumns(t),
			extra: selected?.y !== undefined ? [selected.y] : []
		});
	}

	/** Further columns of a token, such as its part of speech: "POS = NN". */
	describeColumns(t) {
		const { columns } = this.payload;
		return columns
			? Object.entries(columns)
					.map(([name, values]) => `${name} = ${values[t]}`)
					.join(", ")
			: "";
	}

	/** Probability of a path among those that the pins allow. */
	probability(path) {
		return Math.exp(pathScore(this.chain, path, this.allowed) - this.logZ);
	}

	/** Probability, without pins, that a labelling agrees with the pins. */
	pinnedProbability() {
		return Math.exp(this.logZ - this.free.logZ);
	}

	/** The labels of a position by their probability without pins, so that pins do not change the order. */
	rank(t) {
		const { labels } = this.payload,
			{ unary } = this.free;
		return [...labels.keys()].sort((a, b) => unary[t * labels.length + b] - unary[t * labels.length + a]);
	}

	select(target) {
		this.selected = target;
		this.draw();
		this.handlers.select?.(target);
	}

	/** Draw this path dashed instead of the second best; null: the second best again. */
	showPath(path) {
		this.shownPath = path;
		this.draw();
	}

	isForbidden(t, y) {
		return this.forbidden.some(([u, label]) => u === t && label === y);
	}

	/** Pin a label, or unpin it if it is pinned. */
	pin(t, y) {
		if (this.pins[t] === y) delete this.pins[t];
		else this.pins[t] = y;
		this.forbidden = this.forbidden.filter(([u, label]) => u !== t || label !== y);
		this.decode();
	}

	/** Forbid a label, or allow it again. */
	forbid(t, y) {
		const isNew = !this.isForbidden(t, y);
		this.forbidden = this.forbidden.filter(([u, label]) => u !== t || label !== y);
		if (isNew) this.forbidden.push([t, y]);
		if (this.pins[t] === y) delete this.pins[t];
		this.decode();
	}

	/** Remove pins and forbidden labels of one position, or of all. */
	clear(t = null) {
		this.pins = t === null ? {} : Object.fromEntries(Object.entries(this.pins).filter(([u]) => Number(u) !== t));
		this.forbidden = t === null ? [] : this.forbidden.filter(([u]) => u !== t);
		this.decode();
	}
}
