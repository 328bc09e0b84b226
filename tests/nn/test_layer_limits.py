"""The layers and encoders at exact limits, and the messages about invalid rows."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trellis import NeuralTagger, nn  # noqa: E402
from trellis.checks import MAX_SCORE  # noqa: E402
from trellis.errors import InputError  # noqa: E402
from trellis.nn.ctc_batch import Batch, check_numbers, check_status  # noqa: E402
from trellis.nn.tagger.settings import check_settings  # noqa: E402
from trellis.nn.words import WordEmbedding  # noqa: E402


@pytest.mark.parametrize("name", ["dropout", "word_dropout", "weight_decay", "clip"])
def test_settings_that_may_be_zero(name: str) -> None:
    check_settings(NeuralTagger(**{name: 0}))
    check_settings(NeuralTagger(**{name: 0.0}))
    for value in (-1e-9, math.nan, True, "0"):
        with pytest.raises(InputError, match=f"{name} must be at least 0 and below"):
            check_settings(NeuralTagger(**{name: value}))


def test_dropout_is_below_one() -> None:
    check_settings(NeuralTagger(dropout=math.nextafter(1.0, 0.0)))
    with pytest.raises(InputError, match="dropout must be at least 0 and below 1, not 1"):
        check_settings(NeuralTagger(dropout=1.0))


@pytest.mark.parametrize(("encoder", "most"), [("lstm", 64), ("cnn", 16)])
def test_the_most_layers(encoder: str, most: int) -> None:
    check_settings(NeuralTagger(encoder=encoder, layers=most))
    with pytest.raises(InputError, match=f"layers is {most + 1}: .* supports at most {most}"):
        check_settings(NeuralTagger(encoder=encoder, layers=most + 1))


def test_without_dropout_of_words_no_random_number_is_drawn() -> None:
    """So the other random numbers of a training are the same with and without unknown words."""
    for dropout, is_drawn in ((0.0, False), (0.5, True)):
        encoder = WordEmbedding(4, unknown_dropout=dropout)
        encoder.learn({"a": 2, "b": 1})
        encoder.train()
        before = torch.get_rng_state()
        encoder(*encoder.rows(["a", "b", "nosuch"]))
        assert torch.equal(before, torch.get_rng_state()) != is_drawn


def test_dropout_of_words_is_finite() -> None:
    for value in (math.inf, math.nan, -1e-9):
        with pytest.raises(InputError, match="unknown_dropout must be at least 0"):
            WordEmbedding(4, unknown_dropout=value)


def batch_of(frames: Any, targets: Any, lengths: Any, target_lengths: Any) -> Batch:
    return Batch(frames, *map(torch.tensor, (targets, lengths, target_lengths)))


ZEROS = torch.zeros(3, 2, 4)  # three frames, two rows, four classes


@pytest.mark.parametrize(
    ("targets", "lengths", "target_lengths", "message"),
    [
        ([[1, 2], [1, 2]], [3, 4], [2, 2], "input length of batch row 1 is 4: must be 0 to 3"),
        ([[1, 2], [1, 2]], [3, -1], [2, 2], "input length of batch row 1 is -1: must be 0 to 3"),
        ([[1, 2], [1, 2]], [3, 3], [2, 3], "target length of batch row 1 is 3: must be 0 to 2"),
        ([[1, 2], [1, 2]], [3, 0], [2, -1], "target length of batch row 1 is -1: must be 0 to 2"),
        ([[1, 2], [1, 0]], [3, 3], [2, 2], "row 1, position 1 is the blank, 0"),
        ([[1, 2], [4, 0]], [3, 3], [2, 2], "row 1, position 0 is 4: must be 0 to 3"),
        ([[1, 2], [3, -1]], [3, 3], [2, 2], "row 1, position 1 is -1: must be 0 to 3"),
    ],
)
def test_rows_that_a_kernel_marks_as_invalid(
    targets: Any, lengths: Any, target_lengths: Any, message: str
) -> None:
    batch = batch_of(ZEROS, targets, lengths, target_lengths)
    check_status([0, 0], batch, 0)
    with pytest.raises(InputError) as info:
        check_status([0, 1], batch, 0)
    assert message in str(info.value)
    assert info.value.sequence == 1


def test_numbers_of_rows_without_a_finite_loss() -> None:
    losses = torch.tensor([0.5, math.inf])

    def check(value: float, frame: int = 0, loss: float = math.inf) -> None:
        frames = ZEROS.double().clone()
        frames[frame, 1, 2] = value
        losses[1] = loss
        check_numbers(batch_of(frames, [[1], [1]], [3, 2], [1, 1]), losses)

    for value in (-math.inf, MAX_SCORE, -MAX_SCORE):
        check(value)  # the target has no path, and the scores are valid
    check(math.nan, frame=2)  # a frame after the end
    check(math.nextafter(MAX_SCORE, math.inf), loss=1.0)  # rows with a finite loss are not read
    for value in (math.nan, math.inf):
        with pytest.raises(InputError, match=r"row 1, frame 0, class 2 are .*: must be finite or"):
            check(value)
    for value in (math.nextafter(MAX_SCORE, math.inf), -math.nextafter(MAX_SCORE, math.inf)):
        with pytest.raises(InputError, match="log_probs of batch row 1 overflow: the largest"):
            check(value)
    with pytest.raises(InputError, match="log_probs of batch row 1 overflow: the largest"):
        check(0.0, loss=math.nan)


def test_hints_about_lengths() -> None:
    crf = nn.CRF(2, batch_first=True)
    emissions, tags = torch.zeros(2, 3, 2), torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(InputError, match=r"mask of shape \(2,\): .*; pass the lengths of rows as"):
        crf(emissions, tags, mask=torch.tensor([3, 2]))
    for arguments in (
        {"tags": torch.zeros(2, dtype=torch.int64)},
        {"tags": tags, "mask": torch.ones(2, 2)},
    ):
        with pytest.raises(InputError, match=r"as the emissions have$"):
            crf(emissions, **arguments)


def test_emissions_of_a_call_with_transitions() -> None:
    """They are validated before the transitions, whose shape depends on theirs."""
    crf = nn.CRF(2, batch_first=True)
    tags = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(InputError, match="emissions"):
        crf(torch.zeros(2, 3, 5), tags, transitions=torch.zeros(2, 2, 2, 2))
    with pytest.raises(InputError, match=r"transitions have shape \(2, 3, 2, 2\), not \(2, 2, 2"):
        crf(torch.zeros(2, 3, 2), tags, transitions=torch.zeros(2, 3, 2, 2))


@pytest.mark.parametrize("steps", [2, 3, 5, 6])
def test_invalid_tags_under_a_mask(steps: int) -> None:
    crf = nn.CRF(2, batch_first=True)
    mask = torch.ones(2, steps, dtype=torch.bool)
    mask[1, -1] = False
    tags = torch.zeros(2, steps, dtype=torch.int64)
    tags[1, -1] = 7  # it is masked
    assert torch.isfinite(crf(torch.zeros(2, steps, 2), tags, mask=mask))
    tags[1, -2] = 2
    with pytest.raises(InputError, match="tag"):
        crf(torch.zeros(2, steps, 2), tags, mask=mask)
