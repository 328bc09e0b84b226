"""Parts of models at their exact limits: label 0, probability 0, the largest numbers of a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.checks import MAX_SCORE
from trellis.errors import FormatError, InputError
from trellis.formats import wapiti
from trellis.formats.native import Tensors
from trellis.models.chain.emissions.poisson import _MAX_COUNT, Poisson
from trellis.models.chain.labels import encode
from trellis.models.chain.parameters import choose_l2, count_known, label_costs
from trellis.models.ctc.language_model import read_language
from trellis.models.ctc.transcripts import Unit, joint_confidence


def test_constraints_of_the_first_label() -> None:
    """The labels are sorted, so I-a is label 0 here."""
    X = [["x", "y"]]
    for labels, message in (
        (["I-a", "O"], "'I-a' must not be the first label"),
        (["O", "I-a"], "'I-a' must not follow 'O'"),
    ):
        with pytest.raises(InputError, match=message):
            trellis.CRF(constraints="BIO").fit(X, [labels])
    for labels, message in (
        (["B-a", "I-a"], "'I-a' must not be the last label"),
        (["O", "B-a"], "'B-a' must not be the last label"),
    ):
        with pytest.raises(InputError, match=message):
            trellis.CRF(constraints="BIOES").fit(X, [labels])
    trellis.CRF(constraints="BIO", max_iter=1).fit(X, [["B-a", "I-a"]])


def test_positions_that_restrict_their_label() -> None:
    lengths = np.array([2, 2])
    labels = encode([["A", "B"], ["A", None]], lengths)
    assert labels.classes == ("A", "B")
    assert count_known(labels, lengths, None) == 3.0
    assert count_known(labels, lengths, np.array([2.0, 0.5])) == 4.5
    sets = encode([["A", {"A", "B"}], ["A", "B"]], lengths)
    assert count_known(sets, lengths, None) == 3.0
    assert choose_l2(0.25, labels, lengths, None) == 0.25


def test_weights_of_labels() -> None:
    costs = label_costs({"A": 2.0, "B": 1e-300}, ["A", "B", "C"])
    assert costs is not None
    np.testing.assert_allclose(costs, np.log([2.0, 1e-300, 1.0]))
    assert label_costs(None, ["A"]) is None
    for weight in (0.0, -1.0, np.inf, np.nan, "1"):
        with pytest.raises(
            InputError, match=r"label_weight of 'A' is .*: must be finite and above"
        ):
            label_costs({"A": weight}, ["A"])  # type: ignore[dict-item]


def test_rates_in_a_file() -> None:
    def restore(*rates: float) -> Any:
        return Poisson.from_parts(
            {"min_variance": 1e-3}, Tensors(Path("x"), {"rates": np.array([rates])}), 1
        ).rates

    assert restore(_MAX_COUNT, 5e-324).tolist() == [[_MAX_COUNT, 5e-324]]
    for rate in (0.0, -1.0, np.nextafter(_MAX_COUNT, np.inf)):
        with pytest.raises(InputError, match=r"rates must be above 0 and at most 2\*\*53"):
            restore(1.0, rate)
    with pytest.raises(InputError, match="rates must have at least one dimension"):
        restore()


def test_counts_of_a_poisson_distribution() -> None:
    model = trellis.HMM(emissions="poisson")
    for values in ([[0.0], [_MAX_COUNT]], [[1.0], [2.0]]):
        model.fit([np.array(values)], [["A", "B"]])
    for value in (-1.0, 0.5, 2 * _MAX_COUNT):
        with pytest.raises(InputError, match="sequence 0, position 1"):
            model.fit([np.array([[1.0], [value]])], [["A", "B"]])


def test_confidence_of_several_units() -> None:
    units = [Unit("a", 0, 1, 0.5), Unit("b", 1, 4, 0.25)]
    assert joint_confidence(units) == pytest.approx((0.5 * 0.25**3) ** 0.25)
    assert joint_confidence([*units, Unit("c", 4, 5, 0.0)]) == 0.0


def test_objects_that_are_no_language_models() -> None:
    for lm in (SimpleNamespace(BaseScore=1), SimpleNamespace(BeginSentenceWrite=1), 3):
        with pytest.raises(InputError, match=r"lm must be a path, an NGramModel or a kenlm.Model"):
            read_language(lm)


def test_labels_of_text_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.txt"
    path.write_text(
        "#mdl#2#2\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#2\n1:A,\n1:B,\n#qrk#1\n3:u:a,\n"
        "0=0x1p+0\n1=0x1p+1\n"
    )
    assert wapiti.read(path).labels == ["A", "B"]
    monkeypatch.setattr(wapiti, "MAX_LABELS", 2)
    assert wapiti.read(path).labels == ["A", "B"]
    monkeypatch.setattr(wapiti, "MAX_LABELS", 1)
    with pytest.raises(FormatError, match="the model has 2 labels: must be 1 to 1 distinct labels"):
        wapiti.read(path)


def test_labels_that_are_rows() -> None:
    """One label per sample; a list of rows is no such list."""

    def features(x: Any, y: Any) -> dict[str, float]:
        return {f"{x}{y}": 1.0}

    model = trellis.SoftmaxRegression(features=features)
    with pytest.raises(ValueError, match="1d array"):
        model.fit(["a", "b"], [[0, 1], [1, 0]])
    model.fit(["a", "b"], [0, 1])
    assert model.predict(["a", "b"]).tolist() == [0, 1]


def test_the_largest_scores_of_a_regression() -> None:
    model = trellis.SoftmaxRegression(fit_intercept=False).fit([[1.0], [-1.0]], ["a", "b"])
    largest = float(MAX_SCORE)
    model.coef_ = np.array([[largest], [-largest]])
    assert model.predict([[1.0], [-1.0]]).tolist() == ["a", "b"]
    assert model.predict_proba([[1.0]]).tolist() == [[1.0, 0.0]]
    with pytest.raises(InputError, match="scores of sample 1 overflow: the score of class 'a'"):
        model.predict([[1.0], [np.nextafter(1.0, 2.0)]])
