"""A tagging server with FastAPI and sklearn-crfsuite, as a user writes it; serve.py measures it.

    python benchmarks/serve_peer.py train.conll model.pickle                       # train
    PEER_MODEL=model.pickle python -m uvicorn --app-dir benchmarks serve_peer:app  # serve

It imports nothing of trellis. The attributes are those of `trellis demo`, except the case.
"""

import os
import pickle
import sys


def features(words):
    """Return the attributes of each word as a list of strings."""
    lower = ["", "", *map(str.lower, words), "", ""]
    rows = []
    for t, word in enumerate(words):
        w = lower[t + 2]
        row = ["bias", f"w={word}", f"shape={word.istitle()}{word.isupper()}{word.isdigit()}"]
        row += [f"{offset}:{lower[t + 2 + offset]}" for offset in (-2, -1, 0, 1, 2)]
        row += [f"p{n}={w[:n]}" for n in (1, 2, 3, 4)] + [f"s{n}={w[-n:]}" for n in (1, 2, 3, 4)]
        rows.append(row)
    return rows


if __name__ == "__main__":  # train
    import sklearn_crfsuite

    with open(sys.argv[1], encoding="utf-8") as file:
        blocks = [block.splitlines() for block in file.read().strip().split("\n\n")]
    pairs = [[line.split("\t") for line in block] for block in blocks]
    crf = sklearn_crfsuite.CRF(c2=0.1, max_iterations=100)
    crf.fit(
        [features([word for word, _ in pair]) for pair in pairs],
        [[label for _, label in pair] for pair in pairs],
    )
    with open(sys.argv[2], "wb") as file:
        pickle.dump(crf, file)
else:  # serve
    from fastapi import FastAPI
    from pydantic import BaseModel

    with open(os.environ["PEER_MODEL"], "rb") as file:
        crf = pickle.load(file)
    app = FastAPI()

    class Batch(BaseModel):
        """The body of a request."""

        sequences: list[list[str]]

    @app.post("/v1/tag")
    def tag(batch: Batch):
        """Return the labels of each sequence."""
        labels = [list(crf.predict_single(features(words))) for words in batch.sequences]
        return {"tokens": batch.sequences, "labels": labels}
