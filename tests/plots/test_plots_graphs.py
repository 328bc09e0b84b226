"""Lattices of CTC, beams and graphs of models: shapes, and errors that name the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, MEMM
from trellis.errors import InputError
from trellis.inference import chain, ctc
from trellis.plots import Drawing, ctc_lattice, factor_graph, lattice, model_graph, prefix_tree

LABELS = ["–", "a", "b"]


def shapes(drawing: Drawing, kind: str) -> list[Any]:
    return [shape for shape in drawing.shapes if shape.kind == kind]


def uniform(frames: int, target: list[int]) -> Drawing:
    alpha, symbols, _ = ctc.forward(np.log(np.full((frames, 3), 1 / 3)), target)
    return ctc_lattice(alpha, symbols, LABELS)


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        # s -> s, s + 1, and s + 2 between different labels
        ([], [(0, 0)]),
        ([1], [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]),
        ([1, 2], [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)]),
        ([1, 1], [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4), (4, 4)]),
    ],
)
def test_edges_of_the_ctc_lattice(target: list[int], steps: list[tuple[int, int]]) -> None:
    drawing = uniform(9, target)
    rows = sorted({shape.y for shape in shapes(drawing, "node")})
    columns = sorted({shape.x for shape in shapes(drawing, "node")})
    assert len(columns) == 9
    ends = [shape.points for shape in shapes(drawing, "edge")]
    last = [(a, b) for a, b in ends if a[0] == columns[7]]
    assert sorted((rows.index(a[1]), rows.index(b[1])) for a, b in last) == steps
    assert all(columns.index(b[0]) == columns.index(a[0]) + 1 for a, b in ends)


def test_states_without_a_path_have_no_node() -> None:
    drawing = uniform(3, [1, 2])
    assert len(shapes(drawing, "node")) == 2 + 4 + 5
    tips = [shape.tip for shape in shapes(drawing, "node")]
    assert tips[0] == "frame 0, –: log α = -1.099, 50 % of the frame"


def test_a_frame_without_any_path() -> None:
    alpha = np.array([[0.0, 0.0, -np.inf], [-np.inf] * 3])
    assert len(shapes(ctc_lattice(alpha, [0, 1, 0], LABELS), "node")) == 2


def test_path_of_a_lattice() -> None:
    alpha, symbols, _ = ctc.forward(np.log(np.full((7, 3), 1 / 3)), [1, 1, 2])
    drawing = ctc_lattice(alpha, symbols, LABELS, [0, 1, 1, 0, 1, 2, 0])
    (path,) = shapes(drawing, "path")
    rows = sorted({shape.y for shape in shapes(drawing, "symbol")})
    assert [rows.index(y + 4) for _, y in path.points] == [0, 1, 1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), [0, 1, 0], LABELS), r"alpha has shape \(3,\): must be \(frames, 3\)"),
        ((np.zeros((2, 2)), [0, 1, 0], LABELS), r"alpha has shape \(2, 2\): must be"),
        ((np.zeros((0, 3)), [0, 1, 0], LABELS), r"alpha has shape \(0, 3\): must be"),
        (
            (np.array([[0, np.nan, 0]]), [0, 1, 0], LABELS),
            "alpha of frame 0, symbol 1 is nan: must",
        ),
        (
            (np.array([[0, 0, np.inf]]), [0, 1, 0], LABELS),
            "alpha of frame 0, symbol 2 is inf: must",
        ),
        ((np.zeros((1, 3)), [0, 3, 0], LABELS), "symbol 1 is 3: must be the index of one of 3"),
        ((np.zeros((1, 3)), [0, -1, 0], LABELS), "symbol 1 is -1: must be the index of one of 3"),
        (
            (np.zeros((1, 3)), [1, 0, 1], LABELS),
            r"symbol 0 is 1: symbols 0, 2, 4 … must be the blank \(0\), and the others must not",
        ),
        (
            (np.zeros((1, 3)), [0, 0, 0], LABELS),
            "symbol 1 is 0: symbols 0, 2, 4 … must be the blank",
        ),
        ((np.zeros((2, 3)), [0, 1, 0], LABELS, [0]), "the path has 1 labels, but there are 2 fr"),
        ((np.zeros((2, 3)), [0, 1, 0], LABELS, [0, 2]), "path, frame 1: label 2 cannot follow"),
        ((np.zeros((1, 5)), [0, 1, 0, 2, 0], LABELS, [2]), "path, frame 0: label 2 cannot follow"),
    ],
)
def test_bad_ctc_lattices(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ctc_lattice(*arguments)


def test_lines_of_a_prefix_tree() -> None:
    beams = [[((), -1.0), ((1,), -1.0)], [((1,), -1.0), ((1, 2), -2.0), ((2,), -3.0)]]
    drawing = prefix_tree(beams, LABELS)
    names = {(s.x, s.y): s.tip.split(": ")[-1] for s in shapes(drawing, "hypothesis")}
    names |= {(s.x, s.y): "start" for s in shapes(drawing, "root")}

    def ends(kind: str) -> list[tuple[str, str]]:
        return [
            tuple(names[point].split(",")[0] for point in shape.points)
            for shape in shapes(drawing, kind)
        ]

    assert ends("same") == [("start", "ε"), ("a", "a")]
    assert ends("grown") == [("start", "a"), ("ε", "a"), ("a", "ab"), ("ε", "b")]
    areas = [(shape.radius - 3.0) ** 2 for shape in shapes(drawing, "hypothesis")[:2]]
    assert areas == pytest.approx([24.5, 24.5])  # 7² shared by two


def test_the_beams_of_a_search() -> None:
    """The beam after t frames is the result for the first t frames."""
    p = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], size=6)
    beams = [
        [(h.labels, h.log_prob) for h in ctc.beam_search(np.log(p[:t]), beam_width=3, k=3)]
        for t in range(1, 7)
    ]
    drawing = prefix_tree(beams, LABELS)
    assert len(shapes(drawing, "hypothesis")) == sum(map(len, beams))
    # Each hypothesis comes from one of the beam before it.
    grown = len(shapes(drawing, "same")) + len(shapes(drawing, "grown"))
    assert grown >= len(shapes(drawing, "hypothesis"))


@pytest.mark.parametrize(
    ("beams", "message"),
    [
        ([], "beams is empty: at least one frame"),
        ([[((1,), -1.0)], []], "beams, frame 1 is empty: a beam has at least one"),
        ([[((3,), -1.0)]], "beams, frame 0, hypothesis 0: 3 is not the index of one of 3 labels"),
        ([[((-1,), -1.0)]], "beams, frame 0, hypothesis 0: -1 is not the index"),
        ([[((1,), -1.0), ((1,), -2.0)]], r"frame 0, hypothesis 1: \[1\] occurs twice"),
        ([[((1,), -np.inf)]], "hypothesis 0: the log-probability is -inf: must be finite"),
    ],
)
def test_bad_beams(beams: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prefix_tree(beams, LABELS)


@pytest.mark.parametrize(
    ("model", "edges", "arrows"),
    [("independent", 0, 3), ("memm", 0, 5), ("hmm", 0, 5), ("crf", 5, 0), ("skip-chain", 5, 0)],
)
def test_models(model: str, edges: int, arrows: int) -> None:
    drawing = model_graph(model, ["a", "b", "a"])
    assert len(shapes(drawing, "variable")) == 6
    assert len(shapes(drawing, "factor")) == edges
    assert len(shapes(drawing, "edge")) == 2 * edges
    assert len(shapes(drawing, "arrow")) == len(shapes(drawing, "head")) == arrows
    tips = [shape.tip for shape in shapes(drawing, "variable")]
    assert tips == ["y1", "y2", "y3", "a·1", "b", "a·3"]


def test_the_direction_of_arrows() -> None:
    memm, hmm = (shapes(model_graph(m, ["a"]), "arrow")[0].points for m in ("memm", "hmm"))
    assert memm[0][1] > memm[1][1]  # upwards, to the label
    assert hmm[0][1] < hmm[1][1]


def test_a_factor_that_skips_is_above_its_row() -> None:
    drawing = model_graph("skip-chain", list("abcd"), skips=[(0, 1), (1, 3)])
    heights = {shape.tip: shape.y for shape in shapes(drawing, "factor")}
    assert heights["factor of y2, y4"] < heights["factor of y1, y2"]
    assert min(shape.y for shape in drawing.shapes if shape.kind == "factor") > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: model_graph("hmmm", ["a"]), "model must be one of independent, memm, hmm, crf"),
        (lambda: model_graph("crf", []), "tokens must be a list of at least one token"),
        (lambda: model_graph("crf", "abc"), "tokens must be a list"),
        (
            lambda: model_graph("crf", ["a", "b"], skips=[(0, 1)]),
            "skips need the model 'skip-chain'",
        ),
        (
            lambda: model_graph("skip-chain", ["a", "b"], skips=[(0, 2)]),
            r"skip \(0, 2\): must be two",
        ),
        (
            lambda: model_graph("skip-chain", ["a", "b"], skips=[(1, 1)]),
            r"skip \(1, 1\): must be two",
        ),
        (
            lambda: model_graph("skip-chain", ["a", "b"], skips=[(-1, 1)]),
            r"skip \(-1, 1\): must be",
        ),
        (lambda: factor_graph({}), "variables is empty"),
        (
            lambda: factor_graph({"a": (0, 0)}, [["b"]]),
            r"factor \['b'\]: 'b' is not one of the var",
        ),
        (lambda: factor_graph({"a": (0, 0)}, [[]]), "a factor has no variables"),
        (lambda: factor_graph({"a": (0, 0)}, [], [("a", "c")]), r"arrow \['a', 'c'\]: 'c' is not"),
        (
            lambda: factor_graph({"a": (0, 0)}, [], [("a", "a")]),
            "must be two variables at different",
        ),
        (lambda: factor_graph({"a": (0, 0)}, observed=["d"]), r"observed \['d'\]: 'd' is not one"),
    ],
)
def test_bad_graphs(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# ---- models

X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
Y = [["D", "N", "V"]] * 2


@pytest.mark.parametrize("kind", [CRF, MEMM, HMM])
def test_plot_of_a_model(kind: Any) -> None:
    model = kind().fit(X, Y)
    x = ["the", "cat", "barks"]
    expected = lattice(
        x,
        model.classes_.tolist(),
        model.predict_marginals([x])[0],
        *(labelling.labels for labelling in model.predict_kbest([x], 2)[0]),
        pairwise=model.predict_pairwise([x])[0],
    )
    assert model.plot(x).svg() == expected.svg()
    titled = model.plot(x, ["D", "N", "V"], title="A sentence")
    assert len(shapes(titled, "gold")) == 3
    assert titled.about == "A sentence"
    scores = model.scores([x])
    for name, table in (
        ("alpha", chain.forward(scores).alpha),
        ("beta", chain.backward(scores).beta),
        ("viterbi", chain.viterbi_table(scores).score),
    ):
        texts = [shape.text for shape in shapes(model.plot(x, numbers=name), "number")]
        rows = model.plot(x, numbers=name)
        assert texts == [f"{v:.2f}".replace("-", "−") for v in table[0].ravel()]
        assert len(shapes(rows, "number")) == 9


def test_plots_of_other_tokens() -> None:
    crf = CRF().fit([[("a", "x"), ("b", "y")]], [["A", "B"]])
    assert [s.text for s in shapes(crf.plot([("b", "x")]), "token")] == ["b"]
    ready = CRF().fit([[{"f": 1.0}, ["g"]]], [["A", "B"]])
    assert [s.text for s in shapes(ready.plot([["g"], ["f"]]), "token")] == ["0", "1"]
    one = CRF().fit([["a", "a"]], [["A", "A"]])
    assert len(shapes(one.plot(["a"]), "second")) == 0


def test_bad_plots() -> None:
    crf = CRF().fit(X, Y)
    with pytest.raises(InputError, match="sequence 0 is empty"):
        crf.plot([])
    with pytest.raises(InputError, match="numbers must be one of alpha, beta, viterbi, not 'pi'"):
        crf.plot(X[0], numbers="pi")
    with pytest.raises(InputError, match=r"pairwise has shape \(1, 1\): must be \(0, 1, 1\)"):
        lattice(["a"], ["A"], np.ones((1, 1)), ["A"], pairwise=np.ones((1, 1)))
    with pytest.raises(InputError, match=r"numbers is nan at \(0, 0\)"):
        lattice(["a"], ["A"], np.ones((1, 1)), ["A"], numbers=np.full((1, 1), np.nan))


def test_edges_of_pair_marginals() -> None:
    p, pairs = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[[0.5, 0.0], [0.005, 0.495]]])
    drawing = lattice(["a", "b"], ["A", "B"], p, ["A", "A"], pairwise=pairs)
    edges = [(s.tip, s.stroke_width, round(s.opacity, 3)) for s in shapes(drawing, "edge")]
    assert edges == [
        ("a b · A → A · p = 0.500", 3.0, 0.5),
        ("a b · B → B · p = 0.495", 2.98, 0.497),
    ]
