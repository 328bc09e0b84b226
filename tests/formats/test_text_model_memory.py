"""Large text models of CRF++ and Wapiti take about twice the memory of the file."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from foreign_files import crfpp_model, wapiti_model
from scale import SANITIZED

SPARE = 12 << 20  # far less than the 64 MB that are allowed: the readers must not live on them
LABELS = 10

PEAK = """
import resource, sys
import trellis
def peak():  # not ru_maxrss: a child inherits the maximum of the process that started it
    line_of_peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    return int(line_of_peak.split()[1]) * 1024
trellis.load(sys.argv[1])  # what the first use of anything takes is not the file's
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
model = trellis.load(sys.argv[2])
print(peak() - before, len(model.coef_))
"""


def large_crfpp(path: Path, names: int) -> int:
    rng = random.Random(0)
    weights = [f"{rng.gauss(0, 1):.16f}\n" for _ in range(1000)]
    count = names * LABELS + LABELS**2
    with path.open("w") as file:
        file.write(f"version: 100\ncost-factor: 1\nmaxid: {count}\nxsize: 1\n\n")
        file.writelines(f"L{i}\n" for i in range(LABELS))
        file.write("\nU00:%x[0,0]\nU01:%x[0,0]/%x[1,0]\nB\n\n0 B\n")
        for i in range(names):
            value = f"U01:word{i}/x" if i % 2 else f"U00:word{i}"
            file.write(f"{i * LABELS + LABELS**2} {value}\n")
        file.write("\n")
        file.writelines(weights[i % 1000] for i in range(count))
    return count


def large_wapiti(path: Path, names: int) -> int:
    rng = random.Random(0)
    weights = [rng.gauss(0, 1).hex() for _ in range(1000)]
    count = names * LABELS // 2
    with path.open("w") as file:
        file.write(f"#mdl#2#{count}\n#rdr#2/1/0\n11:u:w=%x[0,0],\n1:b,\n#qrk#{LABELS}\n")
        file.writelines(f"2:L{i},\n" for i in range(LABELS))
        file.write(f"#qrk#{names}\n")
        for i in range(names):
            text = f"u:w={i}"
            file.write(f"{len(text)}:{text},\n")
        file.writelines(f"{2 * i}={weights[i % 1000]}\n" for i in range(count))
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(SANITIZED, reason="measures memory")
@pytest.mark.parametrize(
    ("make", "small"), [(large_crfpp, crfpp_model), (large_wapiti, wapiti_model)]
)
def test_a_large_model_takes_twice_its_size(tmp_path: Path, make: object, small: object) -> None:
    large, first = tmp_path / "large", tmp_path / "small"
    count = make(large, 120_000)  # type: ignore[operator]
    first.write_bytes(small())  # type: ignore[operator]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, first, large], capture_output=True, text=True, check=True
    )
    taken, weights = map(int, done.stdout.split())
    assert weights == count
    assert taken < 2 * large.stat().st_size + SPARE
