"""The quantities behind the predictions of a sequence model: scores, log Z, pair marginals."""

from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_not_empty, one_of
from trellis.errors import InputError, TrellisError
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.sequences import count_positions

__all__ = ["Quantities"]

# A model in a notebook shows the transitions of this many positions and at most this many labels.
_POSITIONS, _MAX_SHOWN = 4, 12


class Quantities:
    """Mixin of `Decoding`: scores, log Z, marginals of label pairs, and a picture."""

    def scores(self, X: Any, known: Any = None) -> Scores:
        """Return the scores of all labellings of X, for the functions of `trellis.inference.chain`.

        The fields are those of a list of sequences: ``unary`` has one array (length, labels) per
        sequence, in the order of ``classes_``; for ``CRF(order=2)``, it is (length, states), and
        ``label_states_`` says what each column stands for. The score of a labelling is the sum of
        w · φ for a CRF, log p(y | x) for an MEMM and log p(x, y) for an HMM. Constraints are scores
        of -inf. ``known``, as in ``predict``, becomes the ``mask``. All sequences are scored at
        once, so memory is needed for all of them.

        >>> from trellis import CRF
        >>> crf = CRF().fit([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]])
        >>> scores = crf.scores([["a", "b", "b"]])
        >>> chain.viterbi(scores).labels[0].tolist()
        [0, 1, 1]
        """
        model: Any = self
        model._check_fitted()
        X, known = model._read_known(X, known)
        check_not_empty(count_positions(X))
        scores: Scores = model._compute_scores(X)
        if known is None:
            return scores
        return scores._replace(mask=model._compute_mask(known, scores))

    def log_partition(self, X: Any, known: Any = None) -> NDArray[np.float64]:
        """log Z(x) = log Σ_y exp(score(x, y)) of each sequence, shape (sequences,).

        With ``known``, the sum is over the labellings that agree with it: -inf if there is none.
        For an HMM, it is log p(x); for an MEMM it is 0, and less with constraints. An empty
        sequence has one labelling, so its log Z is 0.

        >>> from trellis import CRF
        >>> crf = CRF().fit([["a", "b"]], [["A", "B"]])
        >>> X, y = [["a", "b"]], [["A", "B"]]
        >>> score = crf.joint_features(X[0], y[0]).dot(crf.coef_)
        >>> bool(np.isclose(score - crf.log_partition(X), crf.log_likelihood(X, y)))
        True
        """

        def totals(scores: Scores) -> list[Any]:
            return list(cast(Any, chain.log_partition(scores, n_jobs=model.n_jobs)))

        model: Any = self
        return np.array(model._map_slices(X, known, totals, float))

    def predict_pairwise(self, X: Any, known: Any = None) -> list[NDArray[np.float64]]:
        """p(yₜ₋₁, yₜ | x) for each sequence, shape (length - 1, labels, labels).

        ``[t - 1, a, b]`` is the probability that label a at t - 1 is followed by label b, in the
        order of ``classes_``. Sums over a or b are the marginals of ``predict_marginals``.

        >>> from trellis import CRF
        >>> crf = CRF().fit([["a", "b"]], [["A", "B"]])
        >>> pairs, p = crf.predict_pairwise([["a", "b"]])[0], crf.predict_marginals([["a", "b"]])[0]
        >>> pairs.shape, np.allclose(pairs[0].sum(axis=1), p[0])
        ((1, 2, 2), True)
        """

        def pairs(scores: Scores) -> list[Any]:
            p = cast(list[Any], chain.marginals(scores, n_jobs=model.n_jobs).pairwise)
            states = model._label_states
            return p if states is None else [states.sum_pairs(pairs) for pairs in p]

        def no_pairs() -> NDArray[np.float64]:
            return np.zeros((0, len(model.classes_), len(model.classes_)))

        model: Any = self
        results: list[NDArray[np.float64]] = model._map_slices(X, known, pairs, no_pairs)
        return results

    def plot(
        self, x: Any, gold: Any = None, *, numbers: str | None = None, title: str | None = None
    ) -> Any:
        """Return a `trellis.plots.Drawing` of the trellis of one sequence.

        It shows the marginals of nodes and edges, the best and the second best labelling, and the
        true labels, if ``gold`` is given. ``numbers`` selects the logarithms that are written below
        the nodes: "alpha", "beta" or "viterbi" (π), the tables of ``forward``, ``backward`` and
        ``viterbi_table`` in `trellis.inference.chain`.

        >>> from trellis import CRF
        >>> crf = CRF().fit([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]])
        >>> drawing = crf.plot(["a", "b", "b"], numbers="alpha")
        >>> [shape.tip for shape in drawing.shapes if shape.kind == "edge"][0]
        'a b · A → A · p = 0.028'
        """
        model: Any = self
        tables = {"alpha": chain.forward, "beta": chain.backward, "viterbi": chain.viterbi_table}
        table = None if numbers is None else tables[one_of(numbers, tables, "numbers")]
        scores = self.scores([x])
        states = model._label_states
        if states is not None and numbers == "beta":
            raise InputError(
                "numbers='beta' needs order=1: of order 2, beta depends on the label before"
            )
        best = [labelling.labels for labelling in model.predict_kbest([x], 2)[0]]
        # models is below plots in the layers (tests/test_layering.py), so it has no import
        # statement for plots: plots is loaded by name when a picture is drawn.
        return import_module("trellis.plots").lattice(
            _name_tokens(x, len(cast(Any, scores.unary)[0])),
            model.classes_.tolist(),
            model.predict_marginals([x])[0],
            best[0],
            second=best[1] if len(best) > 1 else None,
            gold=gold,
            title=title,
            pairwise=self.predict_pairwise([x])[0],
            numbers=None if table is None else _read_table(table(scores)[0][0], states, numbers),
        )

    def inspect(self, x: Any, gold: Any = None, *, title: str = "") -> Any:
        """Return the lattice of one sequence, which a notebook shows and lets the reader change.

        The result has the scores of the sequence; the page computes from them what it shows. So a
        label can be pinned or forbidden without Python, and ``save("page.html")`` writes a page
        that works alone. ``gold`` are the true labels.

        >>> from trellis import CRF
        >>> crf = CRF().fit([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]])
        >>> crf.inspect(["a", "b", "b"])
        Lattice(3 tokens, 2 labels)
        """
        model: Any = self
        interactive = import_module("trellis.plots.interactive")
        scores = self.scores([x])
        labels = [" → ".join(map(str, state)) for state in self._columns_of_scores()]
        words = _name_tokens(x, len(cast(Any, scores.unary)[0]))
        # The columns of a model of second order are not labels.
        is_shown = gold is not None and len(labels) == len(model.classes_)
        true = list(map(str, gold)) if is_shown else None
        payload = interactive.sentence_payload(words, labels, scores, name=title, gold=true)
        return interactive.Lattice(payload, self.plot(x, gold, title=title or None).svg())

    def _columns_of_scores(self) -> list[tuple[Any, ...]]:
        """Return the labels that each column of ``scores(X)`` stands for."""
        model: Any = self
        states = getattr(model, "label_states_", None)
        return [(label,) for label in model.classes_] if states is None else list(states)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return what a notebook shows: scikit-learn's diagram, and a lattice of transitions."""
        parent = getattr(super(), "_repr_mimebundle_", None)
        bundle = {"text/plain": repr(self)} if parent is None else dict(parent(**options))
        if parent is None or "text/html" in bundle:  # else the user wants text
            bundle["text/html"] = bundle.get("text/html", "") + self._show_transitions()
        return bundle

    def _show_transitions(self) -> str:
        """Return the lattice of the model before it sees a sequence; "" if it is not fitted."""
        model: Any = self
        try:
            matrix = np.asarray(model.transition_scores(), dtype=np.float64)
        except (TrellisError, AttributeError):
            return ""
        if not matrix.any():
            return ""
        sizes = np.where(np.isfinite(matrix), np.abs(matrix), 0.0)
        order = np.argsort(-np.maximum(sizes.max(axis=0), sizes.max(axis=1)), kind="stable")
        shown = np.sort(order[:_MAX_SHOWN])
        labels = [str(model.classes_[n]) for n in shown]
        interactive = import_module("trellis.plots.interactive")
        positions = list(map(str, range(1, _POSITIONS + 1)))
        scores = Scores([np.zeros((_POSITIONS, len(shown)))], matrix[np.ix_(shown, shown)])
        payload = interactive.sentence_payload(positions, labels, scores, name="transitions")
        count = f"{len(shown)} of {len(matrix)} labels, those with the largest weights"
        caption = f"<p>Transitions alone, before the model sees a sequence: {count}.</p>"
        return caption + str(interactive.Lattice(payload, "").html())


def _read_table(values: NDArray[np.float64], states: Any, name: str | None) -> NDArray[np.float64]:
    """Return the table of labels, (length, labels), from a table of the columns of scores.

    For order 2 these columns are states, whose values are combined for each label.
    """
    if states is None:
        return values
    join = np.logaddexp if name == "alpha" else np.maximum
    table: NDArray[np.float64] = join.reduceat(values, states.begin, axis=1)
    return table


def _name_tokens(x: Any, length: int) -> list[str]:
    """Return the words of a sequence, or the numbers of its positions if they are features."""
    words = [token[0] if isinstance(token, tuple) and token else token for token in x]
    return words if all(isinstance(word, str) for word in words) else [*map(str, range(length))]
