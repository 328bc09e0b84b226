"""Print F1 of the built-in features: chunks of CoNLL-2000, names of CoNLL-2002 Spanish.

    python benchmarks/quality.py

Features and penalties were chosen on development data: every tenth training sentence of CoNLL-2000,
and testa of CoNLL-2002. The features of sklearn-crfsuite's tutorial are included for comparison.
Its c1 = c2 = 0.1 correspond to l1 = 0.1 and l2 = 0.2, because the L2 term of CRFsuite is c2 ‖w‖².
"""

import time

from corpora import require

from trellis import CRF
from trellis.data import conll
from trellis.features import chunking, chunking_rich, ner
from trellis.metrics import span_f1


def tutorial(sentence: list) -> list[dict]:
    """Return the features of sklearn-crfsuite's tutorial, for tokens (word, part of speech)."""
    shapes = [
        {"lower": w.lower(), "title": w.istitle(), "upper": w.isupper(), "pos": p, "pos2": p[:2]}
        for w, p in sentence
    ]
    rows = []
    for t, (word, _) in enumerate(sentence):
        row = {
            "bias": 1.0,
            "-3:": word[-3:],
            "-2:": word[-2:],
            "digit": word.isdigit(),
            **shapes[t],
        }
        for side, near, edge in ((-1, t - 1, "BOS"), (+1, t + 1, "EOS")):
            if 0 <= near < len(shapes):
                row |= {f"{side:+}:{name}": value for name, value in shapes[near].items()}
            else:
                row[edge] = True
        rows.append(row)
    return rows


def main() -> None:
    """Train each model on its training part, and print F1 on its test part."""
    chunks = [require(f"chunking/conll2000.{part}.conll.gz") for part in ("train", "test")]
    names = [require(f"ner/conll2002-es.{part}.conll.gz") for part in ("train", "testb")]
    runs = (
        ("CoNLL-2000, chunking()", chunks, CRF(chunking(), l2=1.0, max_iter=50)),
        (
            "CoNLL-2000, chunking_rich()",
            chunks,
            CRF(chunking_rich(), l2=1.0, states="all", max_iter=100),
        ),
        ("Spanish NER, tutorial", names, CRF(tutorial, l1=0.1, l2=0.2, max_iter=100)),
        ("Spanish NER, ner()", names, CRF(ner(["pos"]), l2=0.5, max_iter=100)),
    )
    print("                                 F1      weights    seconds to fit")
    for title, files, crf in runs:
        train, test = map(conll.read, files)
        start = time.perf_counter()
        crf.fit(*train)
        seconds = time.perf_counter() - start
        f1 = 100 * span_f1(test[1], crf.predict(test[0]))
        print(f"{title:30}{f1:7.2f}{len(crf.coef_):13,}{seconds:10.0f}", flush=True)


if __name__ == "__main__":
    main()
