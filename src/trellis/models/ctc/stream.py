"""CTC decoding of frames while they arrive."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InfeasibleError, InputError
from trellis.inference.ctc.inputs import Array, prepare
from trellis.models.ctc.labels import LabelSet
from trellis.models.ctc.transcripts import Partial, Transcript, transcript

__all__ = ["Stream", "check_width"]


class Stream:
    """Decode frames while they arrive: `feed` chunks of shape ``(T, V)``, then `finish`.

    >>> from trellis import CTCDecoder
    >>> stream = CTCDecoder(["", " ", "a", "b"]).stream()
    >>> one = np.log([[0.02, 0.02, 0.94, 0.02], [0.02, 0.94, 0.02, 0.02]])
    >>> stream.feed(one)
    Partial(text='a', stable='')
    >>> stream.finish()[0].text
    'a'
    """

    def __init__(self, words: _core.CtcWords, labels: LabelSet, logits: bool) -> None:
        self._words, self._labels, self._logits = words, labels, bool(logits)
        self._core: _core.CtcStreamFloat64 | None = None
        self._dtype: Any = None
        self._ended = False

    def feed(self, frames: Array) -> Partial:
        """Decode more frames and return the text so far. All chunks must have the same dtype."""
        self._check_open()
        frame_scores = np.asarray(frames)
        if (
            frame_scores.ndim == 2
            and len(frame_scores) == 0
            and frame_scores.shape[1] == len(self._labels.pieces)
        ):
            return self._read_partial()
        frame_scores = prepare(frame_scores, self._labels.blank, None).scores[0]
        check_width(frame_scores, self._labels, "frames")
        if self._core is None:
            self._start(frame_scores.dtype)
        if frame_scores.dtype != self._dtype:
            raise InputError(
                f"frames has dtype {frame_scores.dtype}: must be {self._dtype}, like earlier frames"
            )
        assert self._core is not None
        # If the core raises an error, some of the frames are not processed: the stream has ended.
        self._ended = True
        failed_frame = self._core.feed(np.require(frame_scores, requirements=["C", "A"]))
        if failed_frame >= 0:
            raise InfeasibleError(f"frame {failed_frame}: every text has probability 0")
        self._ended = False
        return self._read_partial()

    def finish(self, k: int = 10) -> list[Transcript]:
        """End the stream and return the `k` best texts, like `CTCDecoder.decode_beams`."""
        count = as_positive(k, "k")
        self._check_open()
        self._ended = True
        if self._core is None:
            self._start(np.dtype(np.float64))
        assert self._core is not None
        return [transcript(*best) for best in self._core.finish(count)]

    def _start(self, dtype: Any) -> None:
        """Create the decoder in the core. Its dtype is that of the first frames."""
        use_float32 = dtype == np.float32
        stream_class = _core.CtcStreamFloat32 if use_float32 else _core.CtcStreamFloat64
        self._core, self._dtype = stream_class(self._words, self._logits), dtype

    def _read_partial(self) -> Partial:
        return Partial("", "") if self._core is None else Partial(*self._core.partial())

    def _check_open(self) -> None:
        if self._ended:
            raise InputError("the stream has ended: create a new stream")


def check_width(x: NDArray[Any], labels: LabelSet, name: str) -> None:
    """Raise InputError unless each frame has one score for each label."""
    if x.shape[-1] != len(labels.pieces):
        raise InputError(
            f"{name} has {x.shape[-1]} scores per frame: "
            f"must be {len(labels.pieces)}, one per label"
        )
