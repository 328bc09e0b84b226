"""The replacement of pycrfsuite: taggers and items, compared with python-crfsuite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis.compat.pycrfsuite import CRFSUITE_VERSION, ItemSequence, Tagger, Trainer

X = [
    [{"w": "Ann", "cap": True}, {"w": "left", "n": 0.5}, {"w": "Rome", "in": {"a": 1, "b": ["c"]}}],
    [["w:Bob", "cap"], {}, {"w": "Oslo"}],
]
Y = [["PER", "O", "LOC"], ["PER", "O", "LOC"]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    trainer = Trainer("lbfgs", {"c2": 0.05}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    name = str(tmp_path_factory.mktemp("models") / "m.crfsuite")
    trainer.train(name)
    return name


@pytest.fixture
def tagger(path: str) -> Tagger:
    tagger = Tagger()
    tagger.open(path)
    return tagger


def items(tokens: Any) -> Any:
    return ItemSequence(tokens).items()


def test_items_are_read_as_in_the_original() -> None:
    original = pytest.importorskip("pycrfsuite")
    for tokens in (
        *X,
        [{b"key": b"value", "other": "né"}],
        [{"a": {"b": {"c": 2}, "d": {"x"}}, "e": [], "f": {}}],
        [{"a": False, "b": -1.5, "c": 3}],
        [{"a": 1}.keys(), ("x", "y"), {"z"}],
    ):
        assert items(tokens) == original.ItemSequence(tokens).items()
    assert repr(ItemSequence(X[0])) == "<ItemSequence of size 3>"
    assert items(ItemSequence(X[0])) == items(X[0])


@pytest.mark.parametrize("bad", ["foo", ["foo"], [[{"a": 1}]], [5], [{"a": object()}], [{1: 2}]])
def test_invalid_items(bad: Any, tagger: Tagger) -> None:
    for call in (ItemSequence, tagger.tag):
        with pytest.raises(ValueError, match="position 0"):
            call(bad)
    for not_a_sequence in (5, None):
        for call in (ItemSequence, tagger.set):
            with pytest.raises(TypeError):
                call(not_a_sequence)


def test_same_results_as_the_original(path: str, tagger: Tagger, tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    assert not pycrfsuite.__name__.startswith("trellis")
    original = pycrfsuite.Tagger()
    original.open(path)
    assert tagger.labels() == original.labels()
    for x in X:
        assert tagger.tag(x) == original.tag(x) == tagger.tag(ItemSequence(x)) == tagger.tag()
        for y in ([*Y[0]], ["O"] * 3):
            assert tagger.probability(y) == pytest.approx(original.probability(y), rel=1e-12)
        for t in range(3):
            for label in tagger.labels():
                expected = original.marginal(label, t)
                assert tagger.marginal(label, t) == pytest.approx(expected, abs=1e-12)
    ours, theirs = tagger.info(), original.info()
    assert vars(ours) == vars(theirs)
    tagger.dump(str(tmp_path / "ours"))
    original.dump(str(tmp_path / "theirs"))
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_dump_prints_to_standard_output(tagger: Tagger, capsys: Any) -> None:
    tagger.dump()
    assert "LABELS = {\n      0: PER\n" in capsys.readouterr().out


def test_open_inmemory(path: str, tagger: Tagger) -> None:
    from_bytes = Tagger()
    with from_bytes.open_inmemory(Path(path).read_bytes()) as opened:
        assert opened.tag(X[0]) == tagger.tag(X[0])
    with pytest.raises(TypeError, match="expected bytes"):
        from_bytes.open_inmemory("text")  # type: ignore[arg-type]


def test_closed_tagger(path: str) -> None:
    tagger = Tagger()
    for _ in range(2):
        for call in (
            tagger.labels,
            tagger.tag,
            lambda: tagger.set(X[0]),
            lambda: tagger.tag(X[0]),
            lambda: tagger.probability(["O"]),
            lambda: tagger.marginal("O", 0),
        ):
            with pytest.raises(ValueError, match="not opened"):
                call()
        for call in (tagger.dump, tagger.info):
            with pytest.raises(RuntimeError, match="closed"):
                call()
        with tagger.open(path):
            pass


def test_invalid_calls(tagger: Tagger) -> None:
    assert tagger.tag() == []
    assert tagger.tag([]) == []
    assert tagger.marginal("O", 0) == tagger.probability([]) == 0.0
    tagger.set(X[0])
    with pytest.raises(ValueError, match=r"\|x\| = 3, \|y\| = 1"):
        tagger.probability(["O"])
    for t in (-1, 3):
        with pytest.raises(ValueError, match="out of range"):
            tagger.marginal("O", t)
    with pytest.raises(RuntimeError, match="label identifier: NONE"):
        tagger.marginal("NONE", 0)
    with pytest.raises(RuntimeError, match="label identifier: NONE"):
        tagger.probability(["O", "NONE", "O"])


def test_model_without_data(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    trainer.train(str(tmp_path / "m"))
    tagger = Tagger()
    tagger.open(str(tmp_path / "m"))
    assert tagger.labels() == []
    with pytest.raises(RuntimeError, match="no labels"):
        tagger.tag(X[0])


def test_version() -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    assert CRFSUITE_VERSION == pycrfsuite.CRFSUITE_VERSION
