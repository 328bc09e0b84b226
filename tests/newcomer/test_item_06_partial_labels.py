"""Item 6: partial labels with a tagging scheme as constraints, where y lacks tags of the scheme."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from trellis import CRF, MEMM
from trellis.data import tags
from trellis.errors import InputError

WORDS = ["Ann", "Lee", "sings", "today"]
X = [WORDS, WORDS[1:], WORDS[:3]] * 2


def neural_tagger(**options: Any) -> Any:
    pytest.importorskip("torch")
    from trellis import NeuralTagger

    return NeuralTagger(
        hidden=4, word_dim=4, epochs=2, patience=None, random_state=0, device="cpu", **options
    )


MODELS = {"crf": CRF, "memm": MEMM, "neural": neural_tagger}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("scheme", "labels", "classes"),
    [
        ("BIO", [None, "I-X", "O", "O"], ["B-X", "I-X", "O"]),
        ("BIO", [None, None, "O", {"B-Y", "O"}], ["B-Y", "I-Y", "O"]),
        ("IOB2", ["O", None, "I-X", "O"], ["B-X", "I-X", "O"]),
        ("BILOU", [None, "I-X", None, "O"], ["B-X", "I-X", "L-X", "O", "U-X"]),
        ("BIOES", ["O", None, "E-X", "O"], ["B-X", "E-X", "I-X", "O", "S-X"]),
        ("IOE2", [None, "I-X", None, "O"], ["E-X", "I-X", "O"]),
        ("BIO", [None, "I", None, "B"], ["B", "I", "O"]),
    ],
)
def test_the_label_set_is_completed(
    name: str, scheme: str, labels: list[Any], classes: list[str]
) -> None:
    model = MODELS[name](constraints=scheme).fit([WORDS] * 3, [labels] * 3)
    assert model.classes_.tolist() == classes
    predicted = model.predict([WORDS])[0]
    # Strict reading finds the same spans as lenient reading only if the tags are well-formed.
    assert tags.spans(predicted, scheme, strict=True) == tags.spans(predicted, scheme)
    best = model.predict([WORDS], known=[labels])[0]
    assert [tag for tag, label in zip(best, labels, strict=True) if isinstance(label, str)] == [
        label for label in labels if isinstance(label, str)
    ]


def test_the_likelihood_sums_over_the_completions() -> None:
    y = [[None, "I-X", "O", "O"], ["B-X", "O", None], ["O", None, "I-X"]] * 2
    model = CRF(constraints="BIO").fit(X, [*y[:3], *y[:3]])
    classes = model.classes_.tolist()
    total = 0.0
    for completion in product(classes, repeat=1):
        labels = [completion[0], "I-X", "O", "O"]
        total += float(np.exp(model.log_likelihood([WORDS], [labels])[0]))
    assert np.isclose(np.log(total), model.log_likelihood([WORDS], [y[0]])[0], rtol=1e-12)


def test_labels_that_are_all_known_stay_the_only_ones() -> None:
    model = CRF(constraints="BIO").fit([["Ann", "sings"]], [["B-X", "O"]])
    assert model.classes_.tolist() == ["B-X", "O"]


def test_without_a_scheme_nothing_is_added() -> None:
    y = [[None, "I-X", "O", "O"]]
    assert CRF().fit([WORDS], y).classes_.tolist() == ["I-X", "O"]
    assert CRF(constraints=[("O", "I-X")]).fit([WORDS], y).classes_.tolist() == ["I-X", "O"]
    assert CRF(constraints="plain").fit([WORDS], y).classes_.tolist() == ["I-X", "O"]


def test_a_warm_start_keeps_the_order_of_the_earlier_labels() -> None:
    model = CRF(constraints="BIO", warm_start=True).fit([["Ann", "sings"]], [["O", "B-X"]])
    model.fit([WORDS], [[None, "I-Y", "O", "B-X"]])
    assert model.classes_.tolist() == ["B-X", "O", "B-Y", "I-X", "I-Y"]


def test_a_tag_outside_of_the_scheme_is_still_refused() -> None:
    with pytest.raises(InputError, match="'Z-X' is not a tag of scheme BIO"):
        CRF(constraints="BIO").fit([WORDS], [[None, "Z-X", "O", "O"]])


@pytest.mark.parametrize("of_tagger", ["BIO", None])
@pytest.mark.parametrize("of_linear", ["BIO", None])
def test_both_parts_of_a_hybrid_have_the_same_labels(of_tagger: Any, of_linear: Any) -> None:
    features = CRF(max_iter=5, constraints=of_linear)
    tagger = neural_tagger(constraints=of_tagger, features=features)
    tagger.fit([WORDS] * 3, [["O", None, {"B-X", "O"}, "O"]] * 3)
    assert tagger.classes_.tolist() == tagger.linear_.classes_.tolist()
    assert len(tagger.classes_) == (3 if of_tagger or of_linear else 2)
    assert tagger.predict_marginals([WORDS])[0].shape == (4, len(tagger.classes_))
