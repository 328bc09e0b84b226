"""Small files with thousands of labels do not take gigabytes at the first prediction."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import trellis
from trellis.errors import FormatError
from trellis.features import named
from trellis.models.chain.labels import LIMIT_VARIABLE, MANY_LABELS, MAX_LABELS

SCRIPT = """
import resource, sys
import trellis
trellis.CRF(max_iter=1).fit([["a", "b"]], [["X", "Y"]]).predict([["a"]])  # imports all it needs
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
print(len(trellis.load(sys.argv[1]).predict([["a", "b"]])[0]))
"""


def crfpp_file(labels: int) -> bytes:
    names = "".join(f"L{i}\n" for i in range(labels))
    header = f"version: 100\ncost-factor: 1\nmaxid: {labels}\nxsize: 1\n\n"
    weights = "0.5\n" * labels
    return f"{header}{names}\nU00:%x[0,0]\n\n0 U00:a\n\n{weights}".encode()


def wapiti_file(labels: int) -> bytes:
    names = "".join(f"{len(str(i))}:{i},\n" for i in range(labels))
    text = f"#mdl#2#1\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#{labels}\n{names}#qrk#1\n3:u:a,\n0=0x1p+0\n"
    return text.encode()


@pytest.mark.parametrize("make", [crfpp_file, wapiti_file])
@pytest.mark.parametrize("labels", [MANY_LABELS + 1, MAX_LABELS - 1, 16_000])
def test_many_labels_with_few_weights(
    make: Callable[[int], bytes], labels: int, tmp_path: Path
) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(make(labels))
    with pytest.raises(FormatError, match=rf"model\.txt: the model has {labels} labels and only"):
        trellis.load(path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize("make", [crfpp_file, wapiti_file])
def test_the_most_labels_take_little_memory(make: Callable[[int], bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(make(MANY_LABELS))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "2\n", run.stderr[-2000:]


def test_a_trained_model_with_more_labels_loads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number for the environment variable allows training and loading."""
    monkeypatch.setattr("trellis.models.chain.labels.MAX_LABELS", 70)
    monkeypatch.setattr("trellis.models.chain.labels.MANY_LABELS", 65)
    monkeypatch.setattr("trellis.models.chain.weights.MANY_LABELS", 65)
    words = [[f"w{i}"] for i in range(80)]
    monkeypatch.setenv(LIMIT_VARIABLE, "100")
    with pytest.warns(UserWarning, match="80 different labels"):
        model = trellis.CRF(named(["w[0]"]), transitions="seen", max_iter=1).fit(words, words)
    model.save(tmp_path / "model.trellis")
    assert len(trellis.load(tmp_path / "model.trellis").classes_) == 80
    for limit in ("", "79"):
        monkeypatch.setenv(LIMIT_VARIABLE, limit)
        with pytest.raises(FormatError, match=f"80 labels.*{LIMIT_VARIABLE} to 80 or more"):
            trellis.load(tmp_path / "model.trellis")


def test_enough_weights_need_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a weight for each transition, the matrix is not larger than the file."""
    monkeypatch.setattr("trellis.models.chain.weights.MANY_LABELS", 65)
    words = [[f"w{i}"] for i in range(80)]
    model = trellis.CRF(named(["w[0]"]), transitions="all", max_iter=1).fit(words, words)
    model.save(tmp_path / "model.trellis")
    assert len(trellis.load(tmp_path / "model.trellis").classes_) == 80
