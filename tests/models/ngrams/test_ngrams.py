"""`NGramTrainer`: every number against plain Python, memory, pruning, and bad input."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kneser_ney import UNKNOWN, assert_close, discounts, estimate, parse_arpa, probability_of
from scale import examples

import trellis
from trellis import NGramTrainer
from trellis.errors import FormatError, InputError
from trellis.formats import arpa
from trellis.models.ngrams import FALLBACK, Level, Progress

SMALL = ["a b c", "a b", "", "c a b a"]
WORDS = st.lists(st.sampled_from("abcde"), max_size=6).map(" ".join)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).filter(lambda lines: any(lines))
PRUNES = st.sampled_from([[0], [0, 1], [0, 0, 2], [1, 1, 2], [2]])


def draw_text(lines: int, seed: int = 0) -> list[str]:
    """Lines whose words have frequencies like those of a language."""
    rng = random.Random(seed)
    return [
        " ".join(f"w{int(rng.paretovariate(0.6)) % 500}" for _ in range(rng.randrange(12)))
        for _ in range(lines)
    ]


def arpa_text(trainer: NGramTrainer, text: Any) -> str:
    file = io.BytesIO()
    trainer.write(text, file)
    return file.getvalue().decode()


@settings(max_examples=examples(200, 40), deadline=None)
@given(TEXTS, st.integers(1, 5), PRUNES)
def test_every_number_against_plain_python(lines: list[str], order: int, prune: list[int]) -> None:
    prune = prune[:order]
    trainer = NGramTrainer(order, prune=prune, discount_fallback=True, decimals=15, n_jobs=1)
    model = parse_arpa(arpa_text(trainer, lines))
    thresholds = prune + prune[-1:] * (order - len(prune))
    assert_close(model, estimate(lines, order, thresholds), 1e-10)


def test_a_discount_of_zero_gives_a_weight_of_zero() -> None:
    """D(1) = 0 for the 2-grams of this text; the core once wrote a weight of 1e-17 in its place."""
    lines = ["", "a a", "a d c b b", "a c b b", "b a c b b"]
    expected = estimate(lines, 3)
    assert expected["c",][1] == 0.0
    trainer = NGramTrainer(3, discount_fallback=True, decimals=15)
    model = parse_arpa(arpa_text(trainer, lines))
    assert_close(model, expected, 1e-10)


@pytest.mark.parametrize("prune", [[0], [0, 1, 2]])
def test_a_text_whose_discounts_can_be_estimated(prune: list[int]) -> None:
    lines = draw_text(600)
    trainer = NGramTrainer(3, prune=prune, decimals=15)
    file = io.BytesIO()
    summary = trainer.write(lines, file)
    assert not any(level.fallback for level in summary.levels)
    thresholds = (prune + prune[-1:] * 3)[:3]
    expected = estimate(lines, 3, thresholds, None)
    assert_close(parse_arpa(file.getvalue().decode()), expected, 1e-10)
    kept = [sum(len(gram) == n for gram in expected) for n in (1, 2, 3)]
    assert [level.kept for level in summary.levels] == kept


@settings(max_examples=examples(50, 10), deadline=None)
@given(TEXTS, st.integers(1, 4), PRUNES)
def test_every_context_sums_to_one(lines: list[str], order: int, prune: list[int]) -> None:
    trainer = NGramTrainer(order, prune=prune[:order], discount_fallback=True, decimals=15)
    model = parse_arpa(arpa_text(trainer, lines))
    words = [gram[0] for gram in model if len(gram) == 1 and gram != ("<s>",)]
    histories = ["<s>", "</s>", "a", "b", "e", UNKNOWN]
    for n in range(order):
        for context in itertools.product(histories, repeat=n):
            total = sum(probability_of(model, context, word) for word in words)
            assert total == pytest.approx(1.0, abs=1e-10)


def test_the_text_of_the_file() -> None:
    """A file that lmplz (2023, -o 2 --discount_fallback) writes for this text, with 7 decimals."""
    assert arpa_text(NGramTrainer(2, discount_fallback=[0.5, 1, 1.5]), ["a b c", "a b"]) == (
        "\\data\\\nngram 1=6\nngram 2=5\n\n\\1-grams:\n"
        "-1\t<unk>\t0\n0\t<s>\t-0.30103\n-0.5228787\t</s>\t0\n-0.69897\ta\t-0.30103\n"
        "-0.69897\tb\t-0.30103\n-0.69897\tc\t-0.30103\n\n\\2-grams:\n"
        "-0.39794\tb </s>\n-0.1870866\tc </s>\n-0.2218487\t<s> a\n-0.2218487\ta b\n"
        "-0.455932\tb c\n\n\\end\\\n"
    )


@pytest.mark.parametrize("decimals", [1, 4, 15])
def test_decimals(decimals: int) -> None:
    text = arpa_text(NGramTrainer(2, discount_fallback=True, decimals=decimals), SMALL)
    lengths = {len(number) for number in re.findall(r"\d\.(\d+)", text)}
    assert max(lengths) == decimals


def test_probabilities_of_zero_are_written_as_minus_99() -> None:
    lm = NGramTrainer(2, discount_fallback=0).train(["a a a b b"])
    assert lm.score("never", bos=False, eos=False) == -99.0
    text = arpa_text(NGramTrainer(2, discount_fallback=0), ["a a a b b"])
    assert "-99\t<unk>\t0\n0\t<s>\t-99\n" in text


def test_little_memory_gives_the_same_file(tmp_path: Path) -> None:
    lines = draw_text(4000)
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    (tmp_path / "temporary").mkdir()
    options: dict[str, Any] = {"prune": [0, 0, 1], "discount_fallback": True}
    in_memory = NGramTrainer(5, **options, memory="1G", n_jobs=1)
    expected = arpa_text(in_memory, lines)
    assert len(expected) > 200_000
    for jobs, memory in ((1, "64k"), (3, 1 << 17), (2, "1M"), (3, "1G")):
        on_disk = NGramTrainer(
            5, **options, memory=memory, n_jobs=jobs, folder=tmp_path / "temporary"
        )
        assert arpa_text(on_disk, tmp_path / "text") == expected
        assert not os.listdir(tmp_path / "temporary")


def test_the_model_in_memory_is_that_of_the_file(tmp_path: Path) -> None:
    trainer = NGramTrainer(3, discount_fallback=True)
    lm = trainer.train(SMALL)
    assert isinstance(lm, trellis.NGramModel)
    assert (lm.order, lm.path) == (3, None)
    summary = trainer.write(SMALL, tmp_path / "lm.arpa.gz")
    assert gzip.decompress((tmp_path / "lm.arpa.gz").read_bytes()).startswith(b"\\data\\\n")
    loaded = arpa.read(tmp_path / "lm.arpa.gz")
    assert loaded.counts == lm.counts == tuple(level.kept for level in summary.levels)
    assert loaded.words() == lm.words() == ["<s>", "</s>", "a", "b", "c"]
    expected = estimate(SMALL, 3)
    for sentence in ("a b c", "", "c c", "a never b"):
        assert loaded.score(sentence) == lm.score(sentence)
    assert 10.0 ** lm.score("a b", eos=False) == pytest.approx(
        expected["<s>", "a"][0] * expected["<s>", "a", "b"][0], rel=1e-6
    )


def test_summary() -> None:
    summary = NGramTrainer(2, prune=[0, 1], discount_fallback=[0.25]).write(SMALL, io.BytesIO())
    fallback = (0.25, 0.25, 0.25)
    assert summary[:3] == (4, 9, 3)
    unigrams, bigrams = summary.levels
    assert unigrams._replace(discounts=fallback) == Level(6, 6, fallback, False)
    assert unigrams.discounts == pytest.approx((1 / 3, 1.0, 5 / 3))
    assert bigrams == Level(10, 2, fallback, True)


def test_estimated_discounts_are_in_the_summary() -> None:
    lines = draw_text(600)
    summary = NGramTrainer(1).write(lines, io.BytesIO())
    counts: dict[tuple[str, ...], int] = {}
    for word in itertools.chain.from_iterable([*line.split(), "</s>"] for line in lines):
        counts[word,] = counts.get((word,), 0) + 1
    expected = discounts(counts, None)
    assert expected is not None
    assert summary.levels[0].discounts == pytest.approx(expected[1:])
    assert not summary.levels[0].fallback


def test_sources(tmp_path: Path) -> None:
    """Lines, files, compressed files, open files and lists of files give the same model."""
    trainer = NGramTrainer(3, discount_fallback=True)
    expected = arpa_text(trainer, SMALL)
    data = "\n".join(SMALL).encode()  # the last line has no line break
    (tmp_path / "plain.txt").write_bytes(data)
    (tmp_path / "mark.txt").write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(data + b"\n"))
    for source in (
        str(tmp_path / "plain.txt"),
        tmp_path / "mark.txt",
        tmp_path / "packed.txt.gz",
        io.BytesIO(data),
        iter(SMALL),
        [io.BytesIO(data)],
    ):
        assert arpa_text(trainer, source) == expected
    two = [tmp_path / "plain.txt", io.BytesIO(b" c\t a\r\n")]
    assert arpa_text(trainer, two) == arpa_text(trainer, [*SMALL, "c a"])


def test_blocks_may_end_anywhere() -> None:
    class Trickle(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(3)

    lines = ["één twee drie", "", "  vier ", "ab"]
    trainer = NGramTrainer(2, discount_fallback=True)
    data = "\n".join(lines).encode()
    assert arpa_text(trainer, Trickle(data)) == arpa_text(trainer, lines)


def test_characters() -> None:
    words = NGramTrainer(3, discount_fallback=True)
    characters = NGramTrainer(3, discount_fallback=True, characters=True)
    assert arpa_text(characters, ["één ab", " b  a"]) == arpa_text(words, ["é é n | a b", "b | a"])


def test_skip_symbols() -> None:
    trainer = NGramTrainer(2, discount_fallback=True, skip_symbols=True)
    text = ["<s> a b </s>", "c<unk> <unk> a"]
    plain = NGramTrainer(2, discount_fallback=True)
    assert arpa_text(trainer, text) == arpa_text(plain, ["a b", "c<unk> a"])


def test_progress(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SMALL))
    seen: list[Progress] = []
    NGramTrainer(2, discount_fallback=True).train(tmp_path / "text", callback=seen.append)
    assert seen == [
        Progress("counting", 1.0, 8),  # the last word is complete at the end of the text
        Progress("estimating", None, 9),
        Progress("writing", 1.0, 9),
    ]
    seen.clear()
    NGramTrainer(2, discount_fallback=True).train(SMALL, callback=seen.append)
    assert seen[0] == Progress("counting", None, 9)


def test_text_perplexity() -> None:
    lm = NGramTrainer(2, discount_fallback=True).train(SMALL)
    text = ["a b", "never a", ""]
    scores = [word for line in text for word in lm.full_scores(line)]
    total = sum(word.log10 for word in scores)
    result = lm.text_perplexity(text)
    assert result.value == pytest.approx(10 ** (-total / 7))
    known = sum(word.log10 for word in scores if not word.oov)
    assert result.without_unknown == pytest.approx(10 ** (-known / 6))
    assert (result.words, result.unknown) == (4, 1)
    assert lm.text_perplexity(["a b"]).value == pytest.approx(lm.perplexity("a b"))
    with pytest.raises(InputError, match="the text has no lines, so its perplexity is undefined"):
        lm.text_perplexity([])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a b c d"], "no 1-grams have the adjusted count 2, so the text is too small"),
        (["a a b b c c"], r"no 1-grams have the adjusted count \d"),
        (draw_text(3) * 3, "discount_fallback"),
    ],
)
def test_discounts_that_cannot_be_estimated(lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        NGramTrainer(2).train(lines)
    assert str(caught.value).endswith(
        "so the text is too small or not natural: remove repeated lines, or choose the discounts "
        "with discount_fallback (--discount-fallback)"
    )
    assert NGramTrainer(2, discount_fallback=FALLBACK).train(lines).order == 2


def test_a_discount_out_of_range() -> None:
    """n₁ … n₄ = 2, 1, 1, 4: D(3) = 3 − 4 · ½ · 4 = −5."""
    lines = ["a b c c d d d", *(f"{word} " * 4 for word in "efg")]
    with pytest.raises(InputError, match="the discount of 1-grams with the adjusted count 3 is -5"):
        NGramTrainer(1).train(lines)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\nb <s> c\n", "line 2: '<s>' is not a word but a symbol of the model: remove it, or"),
        (b"<unk>", "line 1: '<unk>' is not a word"),
        (b"a\n\n</s>", "line 3: '</s>' is not a word"),
        (b"a\nb\0c", "line 2: the line has a zero byte: not a text file"),
        (b"a\nb \xff c", "line 2: not UTF-8: '?'"),
        (b"a\n" + b"b" * 20_000, "line 2: a word is longer than 16 kibibytes: 'bbb"),
        (b"a\n" + b"b" * 2_000_000, "line 2: a word is longer than a mebibyte"),
    ],
)
def test_text_that_cannot_be_counted(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(data)
    trainer = NGramTrainer(2, discount_fallback=True, folder=tmp_path)
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        trainer.train(tmp_path / "text")
    assert str(caught.value).startswith(f"{tmp_path / 'text'}, line ")
    with pytest.raises(FormatError, match=re.escape(message)):
        trainer.train([io.BytesIO(b"one\ntwo\n"), tmp_path / "text"])
    assert os.listdir(tmp_path) == ["text"]


def test_a_word_may_have_16_kibibytes() -> None:
    assert NGramTrainer(1, discount_fallback=True).train(["b" * (1 << 14)]).counts == (4,)
    with pytest.raises(FormatError, match="16 kibibytes"):
        NGramTrainer(1, discount_fallback=True).train(["b" * ((1 << 14) + 1)])


@pytest.mark.parametrize("text", [[], [""], ["", "  \t"], io.BytesIO(b"\n \n")])
def test_texts_without_words(text: Any) -> None:
    with pytest.raises(InputError, match=r"^the text has no words$"):
        NGramTrainer(2, discount_fallback=True).train(text)


@pytest.mark.parametrize("text", [7, None, b"a b", object()])
def test_texts_of_a_wrong_type(text: Any) -> None:
    with pytest.raises(InputError, match="text must be a path, an open binary file or lines, not "):
        NGramTrainer(2).train(text)


def test_lines_of_a_wrong_type() -> None:
    with pytest.raises(InputError, match=r"<list>, line 2 is int, not str"):
        NGramTrainer(2).train(["a", 7])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"a line has an unpaired surrogate: '\\udc00'"):
        NGramTrainer(2).train(["a", "\udc00"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 0}, "order is 0: must be in 1..32"),
        ({"order": 33}, "order is 33"),
        ({"order": 2.0}, "order must be an integer"),
        ({"prune": -1}, "prune must be at least 0, not -1"),
        ({"prune": [0, 1, 0]}, "prune is 0, 1, 0: the numbers must not decrease"),
        ({"prune": []}, "prune has 0 numbers: must be 1 to 3, the order"),
        ({"prune": [0, 0, 0, 0]}, "prune has 4 numbers: must be 1 to 3, the order"),
        ({"prune": "01"}, "prune must be an integer"),
        ({"discount_fallback": []}, r"discount_fallback is \[\]: must be True or 1 to 3 numbers"),
        ({"discount_fallback": [0.1] * 4}, "must be True or 1 to 3 numbers"),
        ({"discount_fallback": "0"}, "must be True or 1 to 3 numbers"),
        ({"discount_fallback": [1.1]}, "discount_fallback of count 1 is 1.1: must be in 0..1"),
        ({"discount_fallback": [1, 2.1]}, "discount_fallback of count 2 is 2.1: must be in 0..2"),
        ({"discount_fallback": [1, 2, 4]}, "discount_fallback of count 3 is 4: must be in 0..3"),
        ({"discount_fallback": -1}, "discount_fallback of count 1 is -1"),
        ({"characters": "yes"}, "characters must be True or False"),
        ({"skip_symbols": 2}, "skip_symbols must be True or False"),
        ({"memory": "lots"}, "memory is 'lots': must be a size such as 512M or 2G"),
        ({"memory": "-1G"}, "must be a size such as 512M or 2G"),
        ({"memory": 65_535}, "memory must be at least 65536, not 65535"),
        ({"memory": "63K"}, "memory must be at least 65536"),
        ({"folder": 7}, "folder must be a path or None, not int"),
        ({"folder": "/no/such"}, "folder is '/no/such': there is no such folder"),
        ({"decimals": 0}, "decimals is 0: must be in 1..15"),
        ({"decimals": 16}, "decimals is 16"),
        ({"n_jobs": 0}, "n_jobs is 0"),
    ],
)
def test_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NGramTrainer(**{"order": 3, **arguments})


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ({"order": 32}, "order", 32),
        ({}, "order", 5),
        ({}, "prune", [0] * 5),
        ({"order": 4, "prune": [0, 1]}, "prune", [0, 1, 1, 1]),
        ({"prune": 3}, "prune", [3] * 5),
        ({}, "discount_fallback", None),
        ({"discount_fallback": False}, "discount_fallback", None),
        ({"discount_fallback": True}, "discount_fallback", (0.5, 1.0, 1.5)),
        ({"discount_fallback": [1, 2, 3]}, "discount_fallback", (1.0, 2.0, 3.0)),
        ({"discount_fallback": [0.5, 0.7]}, "discount_fallback", (0.5, 0.7, 0.7)),
        ({"discount_fallback": 0}, "discount_fallback", (0.0, 0.0, 0.0)),
        ({}, "memory", 1 << 30),
        ({"memory": " 64K "}, "memory", 1 << 16),
        ({"memory": "3m"}, "memory", 3 << 20),
        ({"memory": "2T"}, "memory", 2 << 40),
        ({"memory": "70000"}, "memory", 70_000),
        ({"decimals": 15}, "decimals", 15),
        ({}, "decimals", 7),
    ],
)
def test_values_of_arguments(arguments: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(NGramTrainer(**arguments), name) == value


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        NGramTrainer(2).train(tmp_path / "none")
    with pytest.raises(FormatError, match="cannot be decompressed"):
        NGramTrainer(2).train(io.BytesIO(gzip.compress(b"a b" * 999)[:-9]))


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    trainer = NGramTrainer(2, discount_fallback=True, folder=tmp_path)
    with pytest.raises(OSError, match="No such file"):
        trainer.write(SMALL, tmp_path / "none" / "lm.arpa")
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space left"):
            trainer.write(draw_text(100), "/dev/full")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("stage", ["counting", "estimating", "writing"])
def test_an_error_in_a_callback_leaves_no_files(stage: str, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.stage == stage:
            raise KeyboardInterrupt

    trainer = NGramTrainer(3, discount_fallback=True, memory="64K", folder=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        trainer.write(draw_text(2000), tmp_path / "lm.arpa", callback=stop)
    assert not os.listdir(tmp_path)


def test_steps_of_the_core_in_a_wrong_order(tmp_path: Path) -> None:
    def new(**changes: Any) -> Any:
        options: dict[str, Any] = {
            "order": 2,
            "characters": False,
            "skip_symbols": False,
            "decimals": 7,
            "memory": 0,
            "threads": 1,
            "folder": str(tmp_path),
        }
        return trellis._core.NgramTraining(**{**options, **changes})  # type: ignore[attr-defined]

    training = new()
    with pytest.raises(ValueError, match="not the next one"):
        training.next_block()
    for wrong in ({"order": 33}, {"decimals": 16}, {"memory": -1}, {"threads": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            new(**wrong)
    training = new()
    training.feed(b"a b")
    with pytest.raises(ValueError, match="one threshold for each length"):
        training.estimate([0], None)
    training.end_text()
    training.estimate([0, 0], [0.5, 1.0, 1.5])
    calls: list[Callable[[], Any]] = [lambda: training.feed(b"c"), training.end_text]
    for call in calls:
        with pytest.raises(ValueError, match="not the next one"):
            call()
    training.close()
    with pytest.raises(ValueError, match="in use or closed"):
        training.levels()
