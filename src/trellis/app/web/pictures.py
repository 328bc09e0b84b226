"""What the page shows of CTC emissions and of word vectors."""

from typing import Any

import numpy as np

from trellis.app.web.http.errors import RequestError
from trellis.app.web.served import Emissions, WordVectors
from trellis.errors import InfeasibleError, InputError
from trellis.plots.interactive import pack

__all__ = ["describe_emissions", "find_neighbors"]


def describe_emissions(model: Any, audio_url: str | None) -> dict[str, Any]:
    """Return the emissions, the best text, and the best alignment: a symbol for each frame."""
    if not isinstance(model, Emissions):
        raise RequestError(422, "the model is not emissions of a CTC network")
    text = model.decoder.decode(model.scores)
    return {
        "name": model.name,
        "kind": "ctc",
        "symbols": model.labels,
        "blank": model.decoder.blank,
        "scores": pack(model.scores),
        "text": text,
        "path": _find_path(model, text),
        "audio": audio_url,
        "seconds": None if model.audio is None else _measure(model.audio),
    }


def _find_path(model: Emissions, text: str) -> list[int]:
    """Return the symbol of each frame on the best path of a text."""
    decoder, frames = model.decoder, len(model.scores)
    path = np.full(frames, decoder.blank)
    try:
        for unit in decoder.align(model.scores, text).units:
            path[unit.start : unit.end] = model.labels.index(unit.text)
    except (InputError, InfeasibleError, ValueError):
        # Texts of a language model may have letters without a symbol: take the best path of all.
        path = model.scores.argmax(axis=1)
    return [int(symbol) for symbol in path]


def _measure(path: Any) -> float | None:
    """Return the length of a .wav file in seconds; None if it is compressed."""
    import wave

    try:
        with wave.open(str(path)) as file:
            return float(file.getnframes() / file.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError):
        return None


def find_neighbors(model: Any, word: str, count: int) -> dict[str, Any]:
    """Return a word and its neighbours, with their cosines and places on a map.

    The places are the two principal components of these vectors, scaled to unit length.
    """
    if not isinstance(model, WordVectors):
        raise RequestError(422, "the model is not word vectors")
    neighbors = model.vectors.nearest(word, min(count, max(len(model.vectors) - 1, 1)))
    words = [word, *(neighbor.word for neighbor in neighbors)]
    cosines = [1.0, *(float(neighbor.score) for neighbor in neighbors)]
    places = model.vectors.project(words)
    places = places / max(float(np.abs(places).max()), 1e-12)
    return {
        "words": [
            {"word": name, "cosine": cosine, "x": float(x), "y": float(y)}
            for name, cosine, (x, y) in zip(words, cosines, places, strict=True)
        ]
    }
