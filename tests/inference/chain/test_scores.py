"""Every function of the chain takes `Scores` in place of the arrays, with the same result."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain

OPTIONS: dict[str, dict[str, Any]] = {
    "score": {"labels": [[0, 1, 1], [1, 0, 0]]},
    "log_partition": {},
    "log_prob": {"labels": [[0, 1, 1], [1, 0, 0]]},
    "marginals": {},
    "expected_counts": {"weights": [1.0, 2.0]},
    "viterbi": {},
    "kbest": {"k": 2},
    "sample": {"n": 3, "random_state": 0},
    "entropy": {},
    "max_marginals": {},
    "forward": {},
    "backward": {},
    "viterbi_table": {},
}


def make_scores() -> chain.Scores:
    rng = np.random.default_rng(0)
    return chain.Scores(
        unary=rng.normal(size=(2, 3, 2)),
        transition=rng.normal(size=(2, 2)),
        start=rng.normal(size=2),
        end=rng.normal(size=2),
        mask=np.array([[[1, 1]] * 3, [[1, 1], [1, 0], [1, 1]]], dtype=bool),
        lengths=[3, 2],
    )


def arrays_of(result: Any) -> list[Any]:
    """Return the fields of a result, or the result itself."""
    if isinstance(result, chain.Marginals):
        return [result.unary, result.pairwise, result.log_partition]
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", OPTIONS)
def test_scores_and_arrays_give_the_same_result(name: str) -> None:
    function, options, scores = getattr(chain, name), OPTIONS[name], make_scores()
    from_value = arrays_of(function(scores, n_jobs=1, **options))
    from_keywords = arrays_of(function(**scores._asdict(), n_jobs=1, **options))
    from_positions = arrays_of(
        function(*scores[:4], mask=scores.mask, lengths=scores.lengths, **options)
    )
    for value, keyword, position in zip(from_value, from_keywords, from_positions, strict=True):
        np.testing.assert_array_equal(value, keyword)
        np.testing.assert_array_equal(value, position)


def test_scores_of_a_list_of_sequences() -> None:
    unary = [np.zeros((3, 2)), np.zeros((1, 2))]
    np.testing.assert_allclose(
        chain.log_partition(chain.Scores(unary, np.zeros((2, 2)))), np.log([8, 2])
    )


def test_a_copy_with_another_mask() -> None:
    scores = chain.Scores(np.zeros((1, 2)), np.zeros((2, 2)))
    masked = scores._replace(mask=np.array([[True, False]]))
    assert chain.log_partition(masked) - chain.log_partition(scores) == pytest.approx(-np.log(2))


@pytest.mark.parametrize("name", ["transition", "start", "end", "mask", "lengths"])
def test_no_array_next_to_scores(name: str) -> None:
    scores = make_scores()
    with pytest.raises(InputError, match="pass Scores alone"):
        chain.viterbi(scores, **{name: getattr(scores, name)})


def test_transition_scores_are_required() -> None:
    with pytest.raises(TypeError, match=r"viterbi\(\) needs unary and transition"):
        chain.viterbi(np.zeros((3, 2)))  # type: ignore[call-overload]


def test_unknown_option() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
        chain.viterbi(np.zeros((3, 2)), np.zeros((2, 2)), k=3)


@pytest.mark.parametrize("name", OPTIONS)
def test_help_shows_a_readable_signature_and_an_example(name: str) -> None:
    function = getattr(chain, name)
    signature = str(inspect.signature(function))
    assert signature.startswith("(unary: ArrayLike | Scores, transition: ArrayLike | None = None,")
    assert "numpy.ndarray" not in signature
    assert "scores" not in signature
    assert ">>> " in function.__doc__
    assert set(OPTIONS[name]) <= set(inspect.signature(function).parameters)


def test_errors_carry_the_index_of_the_sequence() -> None:
    unary = [np.zeros((3, 2)), np.full((3, 2), -np.inf)]
    with pytest.raises(InputError, match="labels of sequence 1") as raised:
        chain.score(unary, np.zeros((2, 2)), labels=[[0, 0, 0], [0]])
    assert raised.value.sequence == 1
    with pytest.raises(InfeasibleError, match="sequence 1 has no allowed path") as infeasible:
        chain.viterbi(unary, np.zeros((2, 2)))
    assert str(infeasible.value.renumbered(7)).startswith("sequence 7 has no allowed path")


SCORES, LAYOUT = ["unary", "transition", "start", "end"], ["mask", "lengths", "n_jobs"]


@pytest.mark.parametrize("name", OPTIONS)
def test_all_parameters_in_their_order(name: str) -> None:
    parameters = inspect.signature(getattr(chain, name)).parameters
    names = [*parameters]
    options = [n for n in names if n not in (*SCORES, *LAYOUT)]
    assert {*options} == {*OPTIONS[name]} | ({"labels"} if name == "expected_counts" else set())
    assert names == [*SCORES, *options, *LAYOUT]
    keyword_only = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert keyword_only == [*options, *LAYOUT]
