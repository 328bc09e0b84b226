"""Invalid input of CTC raises an error that names the batch row, before any computation."""

from typing import Any

import pytest
import torch

from trellis.errors import InputError
from trellis.nn.ctc import CTCLoss, ctc_loss, ctc_posterior

GPU = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
)
PROBS = torch.full((4, 2, 3), 1 / 3).log()
GOOD: dict[str, Any] = {
    "log_probs": PROBS,
    "targets": torch.tensor([[1, 2], [2, 1]]),
    "input_lengths": torch.tensor([4, 3]),
    "target_lengths": torch.tensor([2, 1]),
}
BAD = [
    (
        {"targets": torch.tensor([[1, 2], [0, 1]])},
        "target of batch row 1, position 0 is the blank, 0",
    ),
    (
        {"targets": torch.tensor([[1, 3], [1, 1]])},
        "target of batch row 0, position 1 is 3: must be",
    ),
    (
        {"targets": torch.tensor([[1, 2], [-1, 1]])},
        "target of batch row 1, position 0 is -1: must be",
    ),
    ({"target_lengths": (2, 3)}, "target length of batch row 1 is 3: must be 0 to 2"),
    ({"target_lengths": (-1, 1)}, "target length of batch row 0 is -1"),
    ({"input_lengths": (4, 5)}, "input length of batch row 1 is 5: must be 0 to 4"),
    ({"input_lengths": (-1, 4)}, "input length of batch row 0 is -1"),
    ({"input_lengths": (4, 3, 2)}, r"input_lengths have shape \(3,\): must be \(2,\)"),
    ({"target_lengths": torch.tensor([[2, 1]])}, r"target_lengths have shape \(1, 2\)"),
    ({"target_lengths": 2}, r"target_lengths have shape \(1,\): must be \(2,\)"),
    ({"input_lengths": (4.0, 3.0)}, "input_lengths have type torch.float32"),
    ({"targets": torch.ones(2, 2)}, "targets have type torch.float32"),
    ({"targets": torch.ones(3, 2, dtype=torch.long)}, r"targets have shape \(3, 2\): must have 2"),
    ({"targets": torch.ones(2, 1, 1, dtype=torch.long)}, r"targets have shape \(2, 1, 1\)"),
    ({"targets": torch.tensor([1, 2])}, "target_lengths sum to 3, but there are 2 targets"),
    (
        {"targets": torch.tensor([1]), "target_lengths": (2, -1)},
        "target length of batch row 1 is -1: must not be negative",
    ),
    ({"log_probs": PROBS[:, :0]}, r"the batch is empty: log_probs have shape \(4, 0, 3\)"),
    ({"log_probs": PROBS[:0]}, r"the batch is empty: log_probs have shape \(0, 2, 3\)"),
    ({"log_probs": PROBS[None]}, r"log_probs have shape \(1, 4, 2, 3\): must be"),
    ({"log_probs": PROBS.long()}, "log_probs have type torch.int64"),
    (
        {"log_probs": PROBS.to("meta")},
        "log_probs are on meta",
    ),
    ({"blank": 3}, "blank is 3: must be 0 to 2"),
    ({"blank": -1}, "blank is -1: must be 0 to 2"),
    ({"reduction": "average"}, "reduction is 'average'"),
    ({"label_smoothing": 1.5}, "label_smoothing is 1.5: must be 0 to 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
@pytest.mark.parametrize("device", ["cpu", GPU])
def test_bad_input(change: dict[str, Any], message: str, device: str) -> None:
    args = {**GOOD, **change}
    for name in ("log_probs", "targets"):
        if args[name].device.type == "cpu":
            args[name] = args[name].to(device)
    with pytest.raises(InputError, match=message):
        ctc_loss(**args)
    if change.keys() <= {*GOOD, "blank"}:
        with pytest.raises(InputError, match=message):
            ctc_posterior(**args)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_probs": [0.0]}, "log_probs must be a tensor, not list"),
        ({"targets": [[1], [1]]}, "targets must be a tensor, not list"),
        ({"log_probs": torch.zeros(5, 2, 4).to_sparse()}, "must be a dense tensor, not sparse_coo"),
        ({"input_lengths": []}, "input_lengths have shape \\(0,\\): must be \\(2,\\)"),
        ({"input_lengths": "three"}, "input_lengths must be integers, not 'three'"),
        ({"blank": "x"}, "blank must be an integer, not 'x'"),
        (
            {"log_probs": torch.zeros(3, 2, 4).index_fill_(1, torch.tensor([1]), torch.nan)},
            "batch row 1, frame 0, class 0 are nan",
        ),
    ],
)
def test_wrong_types_and_nan(change: dict[str, object], message: str) -> None:
    arguments = {
        "log_probs": torch.zeros(3, 2, 4),
        "targets": torch.tensor([[1], [1]]),
        "input_lengths": [3, 3],
        "target_lengths": [1, 1],
    }
    with pytest.raises(InputError, match=message):
        ctc_loss(**{**arguments, **change})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_probabilities_in_place_of_their_logarithms(dtype: torch.dtype) -> None:
    message = r"log_probs are probabilities, every frame sums to 1: .*log_softmax\(-1\)"
    probabilities = PROBS.exp().to(dtype)
    for frames in (probabilities, torch.cat([probabilities, torch.zeros(1, 2, 3, dtype=dtype)])):
        with pytest.raises(InputError, match=message):
            ctc_loss(**(GOOD | {"log_probs": frames}))
        with pytest.raises(InputError, match=message):
            ctc_posterior(**(GOOD | {"log_probs": frames}))
        with pytest.raises(InputError, match=message):
            CTCLoss()(*(GOOD | {"log_probs": frames}).values())
    assert torch.isfinite(ctc_loss(**(GOOD | {"log_probs": probabilities}), from_logits=True))


def test_scores_that_only_begin_like_probabilities() -> None:
    frames = PROBS.exp()
    frames[3, 0] = -1.0
    assert torch.isfinite(ctc_loss(**(GOOD | {"log_probs": frames})))
    assert ctc_posterior(**(GOOD | {"log_probs": frames})).shape == frames.shape
    frames = PROBS.exp()
    frames[2, 1] *= 1.1
    assert torch.isfinite(ctc_loss(**(GOOD | {"log_probs": frames})))
    none = {"input_lengths": (0, 0), "target_lengths": (0, 0)}
    ctc_loss(**(GOOD | {"log_probs": PROBS.exp()} | none))
