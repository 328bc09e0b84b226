"""`trellis train`: development data, reproducible files, and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import Ran, process, tree, typed
from training import DEFAULTS, DEV_X, DEV_Y, FEW, KNOWN, X, Y, same_weights, write

import trellis
from trellis import CRF
from trellis.app.training.tuning import split_folds
from trellis.optim.result import Progress

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def expected() -> CRF:
    return CRF(max_iter=FEW, **DEFAULTS).fit(X, Y)


# ---- development data


@pytest.mark.parametrize("every", [1, 3])
def test_patience(run: Run, tmp_path: Path, every: int) -> None:
    write(tmp_path)
    options = ["--dev", "dev.conll", "--dev-every", every, "--patience", "2"]
    ran = run("train", "train.conll", *options)
    assert ran.code == 0
    model = CRF(early_stopping=2, **DEFAULTS).fit(X, Y, dev=(DEV_X, DEV_Y), dev_every=every)
    assert 0 < len(model.losses_) < len(CRF().fit(X, Y).losses_)
    same_weights(tmp_path / "model.trellis", model)
    f1 = trellis.metrics.span_f1(DEV_Y, model.predict(DEV_X))
    assert f"dev span F1 {100 * f1:.2f}" in ran.err


def test_without_patience_dev_does_not_stop_training(
    run: Run, tmp_path: Path, expected: CRF
) -> None:
    write(tmp_path)
    assert run("train", "train.conll", "--dev", "dev.conll", "--max-iter", FEW).code == 0
    loaded = trellis.load(tmp_path / "model.trellis")
    np.testing.assert_array_equal(loaded.coef_, expected.coef_)
    assert [n for n, _ in loaded.dev_scores_] == [*range(5, loaded.n_iter_ + 1, 5)]


# ---- reproducible files


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--l1", "0.5", "--dev", "dev.conll", "--patience", "3"],
        ["-m", "memm"],
        ["-m", "hmm"],
        ["-m", "sgd", "--max-iter", "3"],
        ["-m", "arow"],
        ["--tune", "3", "--max-iter", "15"],
        ["--order", "2", "--tune", "2", "--max-iter", "15"],
    ],
    ids=typed,
)
def test_two_runs_write_the_same_bytes(run: Run, tmp_path: Path, options: list[str]) -> None:
    write(tmp_path)
    runs = [run("train", "train.conll", "-o", f"{n}.trellis", *options) for n in range(2)]
    one, two = (
        run("train", "train.conll", "-o", f"jobs{n}.trellis", "--jobs", n, *options) for n in (1, 2)
    )
    assert [ran.code for ran in (*runs, one, two)] == [0, 0, 0, 0]
    files = [(tmp_path / f"{name}.trellis").read_bytes() for name in ("0", "1", "jobs1", "jobs2")]
    assert files[0] == files[1]
    assert files[2] == files[3]
    assert files[0] == files[2]


def test_tuning_chooses_the_best_trial(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    ran = run("train", "train.conll", "--tune", "4", "--max-iter", "10")
    tried = re.findall(r"^  l1=(\S+) +l2=(\S+) +(\S+)$", ran.err, re.MULTILINE)
    assert [trial[:2] for trial in tried] == [
        *(("0", l2) for l2 in ("0.18", "0.06", "0.02", "0.006667"))
    ]
    l1, l2, score = re.search(
        r"^chosen by cross-validation: l1=(\S+) +l2=(\S+) +(\S+)$", ran.err, re.MULTILINE
    ).groups()
    assert float(score) == max(float(trial[2]) for trial in tried)
    assert (l1, l2, score) in tried
    loaded = trellis.load(tmp_path / "model.trellis")
    assert (f"{loaded.l1:.4g}", f"{loaded.l2:.4g}") == (l1, l2)
    model = CRF(l1=loaded.l1, l2=loaded.l2, max_iter=10, **DEFAULTS).fit(X, Y)
    same_weights(tmp_path / "model.trellis", model)


def test_another_seed_has_other_folds() -> None:
    first, same, other = (
        [held_out.tolist() for _, held_out in split_folds(9, seed)] for seed in (0, 0, 1)
    )
    assert first == same != other


# ---- messages


def test_summary_on_standard_error(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    ran = run("train", "train.conll", "--dev", "dev.conll", "-o", "new.trellis")
    tokens, labels = sum(map(len, X)), len(KNOWN)
    assert f"{len(X)} sequences, {tokens:,} tokens, {labels} labels" in ran.err
    model = trellis.load(tmp_path / "new.trellis")
    assert f"\n{model.n_iter_} iterations, loss {model.objective_:,.2f}; " in ran.err
    size = (tmp_path / "new.trellis").stat().st_size
    assert ran.err.endswith(f"new.trellis: {size / 1e6:.1f} MB\n")
    assert ran.out == ""


def test_quiet_prints_nothing(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    quiet = ["-q", "--max-iter", "2"]
    assert run("train", "train.conll", *quiet, "--dev", "dev.conll") == (0, "", "")
    assert run("train", "train.conll", *quiet, "--tune", "2") == (0, "", "")
    assert run("train", "train.conll", *quiet, "--resume") == (0, "", "")
    assert run("train", "train.conll", "-q", "-m", "hmm") == (0, "", "")


def test_piped_output_has_no_bar_and_no_colour(tmp_path: Path) -> None:
    write(tmp_path)
    options = ["--dev", "dev.conll", "--tune", "2", "--max-iter", "5"]
    ran = process("train", "train.conll", *options, folder=tmp_path)
    assert ran.code == 0
    assert ran.out == ""
    assert not re.search(r"[\x1b\r\x08]|[━█╸]", ran.err)
    assert ran.err.count("\n") <= 6  # sizes, two trials, the choice, the result, the file
    assert sorted(tree(tmp_path)) == ["dev.conll", "model.trellis", "train.conll"]


def test_the_model_replaces_an_earlier_one(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    assert run("train", "train.conll", "--max-iter", "1", "-o", "m").code == 0
    (tmp_path / "m").chmod(0o600)
    (tmp_path / "link").symlink_to("m")
    assert run("train", "train.conll", "--max-iter", "2", "-o", "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert trellis.load(tmp_path / "m").n_iter_ == 2
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["m" * 240, "模" * 70 + ".trellis", "a b'\"$`\n[*]?\\.trellis"])
def test_unusual_model_file_names(run: Run, tmp_path: Path, name: str) -> None:
    """Names up to the limit of the file system; the name of the checkpoint is longer."""
    write(tmp_path)
    ran = run("train", "train.conll", "--max-iter", "3", "--checkpoint-every", "1", "-o", name)
    assert ran.code == 0, ran
    assert sorted(tree(tmp_path)) == sorted(["dev.conll", "train.conll", name])


def test_the_default_name_of_the_model(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    assert run("train", "train.conll", "--max-iter", "1").code == 0
    assert sorted(tree(tmp_path)) == ["dev.conll", "model.trellis", "train.conll"]


def test_a_corpus_of_one_token(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.conll").write_text("Rome B-place")
    for model in ("crf", "memm", "hmm", "sgd", "perceptron", "passive-aggressive", "arow"):
        assert run("train", "one.conll", "-m", model, "-q") == (0, "", "")
        assert trellis.load(tmp_path / "model.trellis").predict([["Rome", "x"]])[0][0] == "B-place"


def test_progress_is_in_order(tmp_path: Path) -> None:
    """The fractions and texts of the progress bar."""
    from trellis.app.training.progress import draw_iterations

    seen: list[tuple[float | None, str]] = []
    model = CRF(max_iter=30)
    draw = draw_iterations(model, lambda share, text: seen.append((share, text)))

    def callback(progress: Progress) -> None:
        draw(progress)

    model.fit(X, Y, callback=callback)
    assert len(seen) == len(model.losses_)
    shares = [share for share, _ in seen if share is not None]
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert all(text.startswith(f"iteration {n}  loss ") for n, (_, text) in enumerate(seen, 1))
