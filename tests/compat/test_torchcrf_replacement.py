"""The replacement of pytorch-crf, compared with the original."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
original = pytest.importorskip("torchcrf")

from trellis.compat.torchcrf import CRF  # noqa: E402


def pair(tags: int, batch_first: bool) -> tuple[Any, Any]:
    torch.manual_seed(3)
    theirs = original.CRF(tags, batch_first)
    ours = CRF(tags, batch_first)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masked", [None, torch.bool, torch.uint8])
def test_likelihoods_gradients_and_tags(batch_first: bool, masked: Any) -> None:
    ours, theirs = pair(5, batch_first)
    shape = (3, 7) if batch_first else (7, 3)
    tags = torch.randint(5, shape)
    mask = None
    if masked is not None:
        lengths = torch.tensor([7, 4, 1])
        mask = torch.arange(7)[None] < lengths[:, None]
        mask = (mask if batch_first else mask.T).to(masked)
    # The default mask of pytorch-crf has bytes, and PyTorch warns about it.
    their_mask = torch.ones(shape, dtype=torch.bool) if mask is None else mask.bool()
    for reduction in ("none", "sum", "mean", "token_mean"):
        scores = [torch.randn(*shape, 5, generator=torch.manual_seed(1)) for _ in range(2)]
        for e in scores:
            e.requires_grad_()
        a = ours(scores[0], tags, mask, reduction)
        b = theirs(scores[1], tags, their_mask, reduction)
        torch.testing.assert_close(a, b)
        for crf, value in ((ours, a), (theirs, b)):
            crf.zero_grad()
            value.sum().backward()
        torch.testing.assert_close(scores[0].grad, scores[1].grad)
        torch.testing.assert_close(ours.transitions.grad, theirs.transitions.grad)
    assert ours.decode(scores[0], mask) == theirs.decode(scores[1], their_mask)


def test_repr_and_errors() -> None:
    crf = CRF(3)
    assert repr(crf) == repr(original.CRF(3)) == "CRF(num_tags=3)"
    e = torch.zeros(1, 2, 3)
    tags = torch.zeros(1, 2, dtype=torch.long)
    for wrong in (
        lambda c: c(torch.zeros(1, 2), tags),
        lambda c: c(torch.zeros(1, 2, 9), tags),
        lambda c: c(e, torch.zeros(2, 2, dtype=torch.long)),
        lambda c: c(e, tags, torch.ones(2, 2, dtype=torch.bool)),
        lambda c: c(e, tags, torch.tensor([[False, True]])),
        lambda c: c(e, tags, reduction="foo"),
        lambda c: c.decode(torch.zeros(1, 2)),
        lambda c: c.decode(e, torch.tensor([[False, True]])),
        lambda c: type(c)(0),
    ):
        with pytest.raises(ValueError, match=r"\w") as theirs:
            wrong(original.CRF(3))
        with pytest.raises(ValueError, match=r"\w") as ours:
            wrong(crf)
        assert str(ours.value) == str(theirs.value)
