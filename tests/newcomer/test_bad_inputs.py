"""The messages for mistakes of newcomers are those of docs/notes/bad_inputs.md.

The other tests of this file concern messages of which the page has one example.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bad_inputs
import numpy as np
import pytest
from bad_inputs import CODE, COMMANDS, NAMES, PAGE, RECIPES, Mistake
from commands import Ran

from trellis import CRF
from trellis.data import conll, jsonl, markup
from trellis.errors import FormatError, InputError
from trellis.inference import ctc

Run = Callable[..., Ran]
WARNED = ["No empty lines", "Only one label", "Labelled text as raw text", "Data of another task"]


@pytest.fixture(scope="module")
def mistakes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mistakes")
    bad_inputs.make_folder(path)
    return path


def test_there_are_at_least_50() -> None:
    assert len(COMMANDS) >= 30
    assert len(CODE) >= 20
    assert len({mistake.title for mistake in COMMANDS}) == len(COMMANDS)
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(bad_inputs.HEAD)
    assert re.findall(r"^\*\*(.+)\*\*$", page, re.M) == [m.title for m in [*COMMANDS, *CODE]]


@pytest.mark.parametrize("mistake", [*COMMANDS, *CODE], ids=lambda mistake: mistake.title)
def test_the_message_is_that_of_the_page(mistake: Mistake, mistakes_folder: Path) -> None:
    if not bad_inputs.is_possible(mistake):
        pytest.skip(f"{mistake.needs} is not installed")
    section = bad_inputs.render_one(mistake, mistakes_folder)
    assert section in PAGE.read_text(encoding="utf-8")
    assert "Traceback" not in section
    assert str(mistakes_folder) not in section
    if mistake in COMMANDS:
        assert section.endswith("[0]\n```\n") == (mistake.title in WARNED)


def test_tag_does_not_replace_its_model(mistakes_folder: Path) -> None:
    """The labelled text took the place of the model."""
    model = mistakes_folder / "recipes.trellis"
    before = model.read_bytes()
    tag = Mistake("", "tag recipes.trellis raw.txt -o recipes.trellis")
    assert bad_inputs.run_mistake(tag, mistakes_folder)[0] == 1
    assert model.read_bytes() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_probabilities_are_no_scores(shape: tuple[int, ...], dtype: Any) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), shape[:-1]).astype(dtype)
    for function in (ctc.greedy, ctc.beam_search):
        with pytest.raises(InputError, match=r"probabilities, every frame sums to 1: pass their"):
            function(p)
        function(np.log(p))
        function(p * 2)  # unnormalised scores
    almost = p.copy()
    almost[..., -1, 0] += 0.5  # the first frame alone does not make them probabilities
    ctc.greedy(almost)


def test_one_label_is_a_probability_and_a_score() -> None:
    """With V = 1, the score 0 is log 1."""
    assert ctc.greedy(np.zeros((2, 1))).log_prob == 0.0


@pytest.mark.parametrize("text", [RECIPES, f"see [1](2)\n{RECIPES}"])
def test_tag_of_marked_text_warns(run: Run, folder: Path, text: str) -> None:
    (folder / "a.txt").write_text(text)
    assert "add --format markup" in run("tag", "model.trellis", "a.txt").err
    assert run("tag", "model.trellis", "a.txt", "--format", "markup").err == ""
    assert run("tag", "model.trellis", "a.txt", "--format", "text").err == ""


def test_tag_of_markdown_and_brackets_does_not_warn(run: Run, folder: Path) -> None:
    (folder / "a.txt").write_text("see [the page](https://a.org/b) or f[0](x y) or [b](c/d)\n")
    assert run("tag", "model.trellis", "a.txt").err == ""


def test_train_warns_only_if_lines_seem_to_be_missing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(NAMES)
    (tmp_path / "a.md").write_text("[a](b) c\n")
    for name in ("a.conll", "a.md"):
        assert "warning" not in run("train", name).err
    (tmp_path / "a.txt").write_text("Ann lives here\nBob left Rome\n")
    ran = run("train", "a.txt")
    assert "all 2 rows form one sequence" in ran.err
    assert "read as rows with the label in the last column, see --format" in ran.err
    assert run("train", "a.txt", "-q").err == ""


def test_a_weight_in_one_sequence_is_sufficient(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(f"{NAMES}# weight = 2\n{NAMES}")
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a"], "tags": ["O"]}\n')
    assert run("train", "a.conll", "--weight", "weight").code == 0
    assert "no key 'weight' occurs" in run("train", "a.jsonl", "--weight", "weight").err


def test_a_missing_folder_is_named(run: Run, tmp_path: Path) -> None:
    assert "the folder data does not exist" in run("train", "data/a.conll").err
    assert run("train", "zzz.conll").err == "trellis: zzz.conll: No such file or directory\n"


@pytest.mark.parametrize("module", [conll, jsonl, markup])
@pytest.mark.parametrize(("X", "y"), [(["ab", "cd"], ["xy", "zw"]), ([["a"]], ["O"])])
def test_flat_lists_are_not_written(module: Any, X: Any, y: Any, tmp_path: Path) -> None:
    """The characters of the tokens were written as tokens."""
    with pytest.raises(InputError, match="must be a list of lists: for a single sequence, write"):
        module.write(tmp_path / "a", X, y)
    assert list(tmp_path.iterdir()) == []


def test_hints_for_rows_are_not_given_for_other_reasons() -> None:
    with pytest.raises(FormatError, match=r"but line 1 has 3: 'a'$"):
        conll.read(["a b O", "a"])
    with pytest.raises(FormatError, match=r"but line 1 has 2: 'a\\tb\\tO'$"):
        conll.read(["a\tO", "a\tb\tO"])


def test_explain_accepts_features() -> None:
    """A token may be a list of features, so a sequence of them is a list of lists."""
    x = [["word=a", "end=a"], ["word=b"]]
    model = CRF(max_iter=2).fit([x], [["A", "B"]])
    assert len(model.explain(x)) == 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_masks_of_integers_and_booleans(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    from trellis import nn

    layer, mask = nn.CRF(3, batch_first=True), torch.ones(2, 4)
    emissions = torch.zeros(2, 4, 3)
    expected = layer.decode(emissions)
    assert layer.decode(emissions, mask.to(getattr(torch, dtype))) == expected
    with pytest.raises(InputError, match="mask must be boolean or integers"):
        layer.decode(emissions, mask)


def test_an_unseen_word_without_known_parts_has_no_neighbors(run: Run, tmp_path: Path) -> None:
    """A classifier without n-grams gave it the vector 0, and all words the cosine 0."""
    (tmp_path / "a.txt").write_text("__label__x good film\n__label__y bad film\n")
    options = ["--min-count", "1", "--dim", "4", "--epochs", "1", "-q"]
    assert run("embed", "a.txt", "--supervised", "-o", "m.bin", *options).code == 0
    ran = run("neighbors", "m.bin", "film", "plot")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "trellis: 'plot' has no vector: the model knows no part of it\n"
    assert "bad" in run("neighbors", "m.bin", "film").out


@pytest.mark.parametrize("name", ["conllu", "text", "tokens"])
def test_a_format_that_cannot_be_written_leaves_no_file(
    run: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.conll").write_text(NAMES)
    ran = run("convert", "a.conll", "b.out", "--to", name)
    assert ran.err == (
        f"trellis: b.out: {name} cannot be written: add --to conll, jsonl or markup\n"
    )
    assert not (tmp_path / "b.out").exists()
