"""`trellis ctc decode` and `align` give the same texts and times as the library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from commands import Ran, process

from trellis import CTCDecoder

Run = Callable[..., Ran]

LABELS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]
SAID = ["good day", "a bad egg", "yes"]
ARPA = """\\data\\
ngram 1=5

\\1-grams:
-2\t<unk>
-99\t<s>
-1\t</s>
-0.5\tgood
-0.5\tday

\\end\\
"""


def emissions(text: str, sure: float = 0.8) -> np.ndarray:
    """Return emissions with two frames per letter and a blank after each letter."""
    frames = [n for letter in text for n in (*[LABELS.index(letter)] * 2, 0)]
    p = np.full((len(frames), len(LABELS)), (1 - sure) / (len(LABELS) - 1))
    p[np.arange(len(frames)), frames] = sure
    return np.log(p)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with emissions in every file format, labels and references."""
    rows = [emissions(text) for text in SAID]
    for n, row in enumerate(rows):
        np.save(tmp_path / f"{n}.npy", row)
    np.savez(tmp_path / "all.npz", **{f"u{n}": row for n, row in enumerate(rows)})
    named = {f"u{n}": row.astype(np.float32) for n, row in enumerate(rows)}
    safetensors.numpy.save_file(named, tmp_path / "all.safetensors")
    stack = np.zeros((3, max(map(len, rows)), len(LABELS)), np.float32)
    for n, row in enumerate(rows):
        stack[n, : len(row)] = row
    np.savez(tmp_path / "stack.npz", emissions=stack, lengths=[len(row) for row in rows])
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    indices = {label or "<pad>": n for n, label in enumerate(LABELS)}
    (tmp_path / "vocab.json").write_text(json.dumps(dict(sorted(indices.items()))))
    (tmp_path / "said.txt").write_text("\n".join(SAID) + "\n")
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "words.txt").write_text("good\nday\nyes\n")
    return tmp_path


@pytest.mark.parametrize("labels", ["labels.txt", "labels.json", "vocab.json"])
def test_texts_of_files(run: Run, folder: Path, labels: str) -> None:
    for files in (["0.npy", "1.npy", "2.npy"], ["all.npz"], ["all.safetensors"], ["stack.npz"]):
        ran = run("ctc", "decode", *files, "--labels", labels)
        assert ran == (0, "".join(f"{text}\n" for text in SAID), ""), files


def test_the_k_best(run: Run, folder: Path) -> None:
    ran = run("ctc", "decode", "0.npy", "-l", "labels.txt", "-k", 3)
    rows = [line.split("\t") for line in ran.out.splitlines()]
    expected = CTCDecoder(LABELS).decode_beams(emissions(SAID[0]), k=3)
    assert [row[2] for row in rows] == [utterance.text for utterance in expected]
    assert [float(row[1]) for row in rows] == pytest.approx(
        [utterance.score for utterance in expected], abs=1e-4
    )
    assert {row[0] for row in rows} == {"0.npy"}


def test_json(run: Run, folder: Path) -> None:
    ran = run(
        "ctc", "decode", "all.npz", "-l", "labels.txt", "--json", "-k", 2, "--frame", 0.02,
        "--reference", "said.txt",
    )  # fmt: skip
    assert ran.code == 0
    output = json.loads(ran.out)
    assert output["wer"] == output["cer"] == 0.0
    assert [utterance["name"] for utterance in output["utterances"]] == [
        f"all.npz:u{n}" for n in range(3)
    ]
    best = output["utterances"][0]["beams"][0]
    expected = CTCDecoder(LABELS).decode_beams(emissions(SAID[0]), k=1)[0]
    assert best["text"] == "good day"
    assert best["score"] == pytest.approx(expected.score)
    assert best["acoustic"] + best["lm"] == pytest.approx(best["score"])
    assert best["words"] == [
        {
            "text": utterance.text,
            "start": round(0.02 * utterance.start, 6),
            "end": round(0.02 * utterance.end, 6),
        }
        for utterance in expected.words
    ]
    assert all(1 <= len(utterance["beams"]) <= 2 for utterance in output["utterances"])
    assert max(len(utterance["beams"]) for utterance in output["utterances"]) == 2


def test_error_rates(run: Run, folder: Path) -> None:
    (folder / "other.txt").write_text("good day\na big egg\nyes\n")
    ran = run("ctc", "decode", "all.npz", "-l", "labels.txt", "--reference", "other.txt")
    assert ran.out == "".join(f"{text}\n" for text in SAID), "rates do not mix with texts"
    assert "WER 16.67%" in ran.err
    assert f"CER {2 / 20:.2%}" in ran.err
    ran = run("ctc", "decode", "all.npz", "-l", "labels.txt", "--reference", "other.txt", "--json")
    assert json.loads(ran.out)["wer"] == pytest.approx(1 / 6)


def test_options_reach_the_decoder(run: Run, folder: Path) -> None:
    """Every option changes the result in the same way as in Python."""
    rng = np.random.default_rng(1)
    x = emissions("good day", 0.6) + 1.5 * rng.normal(size=(24, len(LABELS)))
    np.save(folder / "x.npy", x)
    x -= np.logaddexp.reduce(x, axis=1, keepdims=True)
    cases: list[tuple[list[Any], dict[str, Any]]] = [
        ([], {}),
        (["--lm", "lm.arpa"], {"lm": folder / "lm.arpa"}),
        (["--lm", "lm.arpa", "--alpha", 2], {"lm": folder / "lm.arpa", "alpha": 2.0}),
        (["--lm", "lm.arpa", "--beta", 9], {"lm": folder / "lm.arpa", "beta": 9.0}),
        (["--beam", 2], {"beam_width": 2}),
        (["--lexicon", "words.txt"], {"lexicon": folder / "words.txt"}),
        (["--hotwords", "words.txt"], {"hotwords": ["good", "day", "yes"]}),
        (
            ["--hotwords", "words.txt", "--hotword-weight", 1],
            {"hotwords": ["good", "day", "yes"], "hotword_weight": 1.0},
        ),
    ]
    answers = set()
    for arguments, options in cases:
        ran = run(
            "ctc", "decode", "x.npy", "-l", "labels.txt", "--logits", "--json", "-k", 3, *arguments
        )
        assert ran.code == 0, ran.err
        (utterance,) = json.loads(ran.out)["utterances"]
        expected = CTCDecoder(LABELS, **options).decode_beams(x, k=3)
        assert [beam["text"] for beam in utterance["beams"]] == [beam.text for beam in expected]
        assert utterance["beams"][0]["score"] == pytest.approx(expected[0].score, abs=1e-5)
        answers.add(round(utterance["beams"][0]["score"], 4))
    assert len(answers) >= 6


def test_align(run: Run, folder: Path) -> None:
    ran = run("ctc", "align", "0.npy", "-l", "labels.txt", "--text", "good day", "--frame", 0.01)
    assert ran.code == 0
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("0.npy", "0", "0.11", "good"),
        ("0.npy", "0.15", "0.23", "day"),
    ]
    assert all(0.5 < float(row[3]) <= 1 for row in rows)


def test_align_all(run: Run, folder: Path) -> None:
    ran = run("ctc", "align", "all.npz", "-l", "labels.txt", "--reference", "said.txt", "--json")
    output = json.loads(ran.out)["utterances"]
    assert [utterance["text"] for utterance in output] == SAID
    assert [[part["text"] for part in utterance["parts"]] for utterance in output] == [
        text.split() for text in SAID
    ]
    ran = run(
        "ctc", "align", "all.npz", "-l", "labels.txt", "--reference", "said.txt", "--json",
        "--characters",
    )  # fmt: skip
    output = json.loads(ran.out)["utterances"]
    assert ["".join(part["text"] for part in utterance["parts"]) for utterance in output] == SAID
    assert output[0]["parts"][0] == {"text": "g", "start": 0, "end": 2, "confidence": 0.8}


@pytest.mark.slow
def test_as_a_process(folder: Path) -> None:
    ran = process("ctc", "decode", "0.npy", "-l", "labels.txt", folder=folder)
    assert ran == (0, "good day\n", "")
    ran = process("ctc", "--help", folder=folder)
    assert ran.code == 0
    assert "decode" in ran.out
    assert "align" in ran.out
