"""Many labels: a warning above 1,000, an error above the limit, before any L × L matrix exists."""

import resource
from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, MEMM
from trellis.errors import InputError
from trellis.models.chain.labels import LIMIT_VARIABLE, MANY_LABELS, MAX_LABELS, encode


def _words(count: int) -> list[list[str]]:
    return [[f"word{i}" for i in range(begin, begin + 10)] for begin in range(0, count, 10)]


@pytest.mark.parametrize("model", [CRF(), MEMM(), HMM()])
def test_too_many_labels_are_refused(model: Any) -> None:
    words = _words(MAX_LABELS + 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=rf"{MAX_LABELS + 10} different labels.*'word.*--label"):
        model.fit(words, words)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_many_labels_warn_and_the_limit_can_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    many, few = _words(MANY_LABELS + 10), _words(MANY_LABELS)
    lengths = np.full(len(many), 10)
    with pytest.warns(UserWarning, match=f"{MANY_LABELS + 10} different labels"):
        encode(many, lengths)
    encode(few, lengths[: len(few)])  # warnings are errors in the tests
    monkeypatch.setenv(LIMIT_VARIABLE, "1000")
    with pytest.raises(InputError, match="at most 1000"):
        encode(many, lengths)
    monkeypatch.setenv(LIMIT_VARIABLE, "many")
    with pytest.raises(InputError, match="must be a number of labels"):
        encode(many, lengths)
