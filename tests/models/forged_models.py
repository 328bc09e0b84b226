"""Load every forgery of one saved model and use it: run as ``python forged_models.py NAME``.

A forgery is a valid ``.trellis`` file with one changed part: a value of its metadata, or a tensor.
The checksum is correct. Each forgery must raise FormatError when it is loaded, or give a model that
works. The script prints one line per forgery that does neither. It runs in its own process, because
a failure may be a crash, a hang, or an allocation beyond its limit.
"""

from __future__ import annotations

import copy
import faulthandler
import hashlib
import re
import resource
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import trellis
from trellis.errors import FormatError, InputError, TrellisError
from trellis.features import named
from trellis.features.spec import Field, Gazetteer, Part, Spec, Template
from trellis.formats import native, native_header

SPARE_MEMORY = 1 << 30  # address space beyond that of the imported libraries
SECONDS = 240  # after this time, the load of a forgery counts as a hang, also on a busy machine
# Errors that name a property which the model may have, but the small input has not.
MEANINGFUL = re.compile(
    r"no allowed path|no labelling is allowed|\d columns, expected \d|\d node features and"
    r"|the model was trained with|nodes and \d features; the model"
    r"|pass the function again|\d dimensions, expected \d"
)
MOST_ITEMS = 6  # of a list of metadata, the first items are changed

VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 0.5, 10**6, 2**31 - 1, 2**63, -(2**70), 1e308, -1e308),
    *("", "x", "\x00", None, True, [], {}, [[]], [None], {"a": {}}, [1, 2, 3], ["a", "a"]),
)

ABSENT = ("n_jobs", "random_state", "features", "edge_features", "joint", "vectors", "device")
"""Parameters that files do not contain."""

WORDS = [["the", "Dog", "barks"], ["a", "cat"], ["Ærø", "", "日本"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["N", "V", "N"]]
ROWS = [np.arange(12.0).reshape(4, 3) % 5, np.ones((2, 3))]
ROW_TAGS = [["P", "Q", "R", "P"], ["Q", "P"]]
TEXTS = ["good fine nice", "bad poor awful", "good nice", "awful bad"] * 3


class Case(NamedTuple):
    """One model: how it is made, and calls that must not fail after it is loaded."""

    make: Callable[[], Any]
    use: Callable[[Any], object]


def use_chain(X: Any, y: Any) -> Callable[[Any], object]:
    def use(model: Any) -> None:
        labels = model.predict(X)
        assert [len(row) for row in labels] == [len(row) for row in y]
        for rows in model.predict_marginals(X):
            assert np.isfinite(rows).all()
        model.predict_kbest(X, 2)
        model.sample(X, 2, random_state=0)
        model.log_likelihood(X, labels)
        model.transition_scores()
        model.describe()
        if hasattr(model, "top_features"):
            model.top_features(3)
        model.to_parts()

    return use


def use_hmm(X: Any) -> Callable[[Any], object]:
    def use(model: Any) -> None:
        model.predict(X)
        for rows in model.predict_marginals(X):
            assert np.isfinite(rows).all()
        assert np.isfinite(model.score(X))
        model.generate(2, random_state=0)
        model.describe()
        model.to_parts()

    return use


def made_hmm(X: Any, **settings: Any) -> Any:
    return trellis.HMM(n_states=2, max_iter=3, random_state=1, **settings).fit(X)


def use_rows(model: Any) -> None:
    X = np.ones((3, model.coef_.shape[1]))
    assert len(model.predict(X)) == 3
    assert np.isfinite(model.predict_proba(X)).all()
    model.decision_function(X)
    model.predict_log_proba(X)
    model.to_parts()


def use_graph(X: Any) -> Callable[[Any], object]:
    def use(model: Any) -> None:
        labels = model.predict(X)
        for rows in model.predict_marginals(X):
            assert np.isfinite(rows).all()
        model.log_likelihood(X, labels)
        model.to_parts()

    return use


def use_vectors(model: Any) -> None:
    vectors = getattr(model, "vectors_", model)
    if vectors.words:
        assert np.isfinite(vectors[vectors.words[0]]).all()
        vectors.nearest(vectors.words[0], k=2)
    if hasattr(model, "vector"):
        assert np.isfinite(model.vector("unseen")).all()
    model.to_parts()
    if hasattr(model, "partial_fit"):
        # a forged number of epochs is valid, and up to a million of them take long
        model.set_params(n_jobs=1, epochs=1).partial_fit([["good", "new"]] * 3)


def use_classifier(model: Any) -> None:
    assert len(model.predict(["good bad", "unseen", ""], k=2)) == 3
    model.test(TEXTS[:2], ["P", "N"])
    model.to_parts()


def all_fields() -> Spec:
    fields = (
        Field(),
        Field(kind="suffix", size=2),
        Field(kind="length", size=4),
        Field(kind="test", pattern="^[A-Z]"),
        Field(kind="match", pattern="[a-z]+"),
        Field(kind="gazetteer", pattern="pets"),
        Field(kind="first"),
    )
    single = [Template(f"f{n}", (Part(0, n),), (f"f{n}=", "")) for n in range(len(fields))]
    pair = Template("p", (Part(-1, 0), Part(0, 1, "last")), ("p=", "|", ""))
    edge = Template("e", (Part(0, 0),), ("e=", ""), edge=True)
    pets = Gazetteer("pets", (("dog",), ("a", "cat")))
    return Spec(fields, (*single, pair, edge), (("<",), (">",)), (pets,))


def make_tagger(**options: Any) -> Any:
    sizes = {"hidden": 3, "word_dim": 4, "char_dim": 3, "char_hidden": 4, "epochs": 1}
    tagger = trellis.NeuralTagger(random_state=0, device="cpu", **(sizes | options))
    return tagger.fit(WORDS, TAGS, dev=(WORDS, TAGS))


def joint_names(x: Any, i: int, previous: Any, label: Any) -> list[str]:
    return [f"{x[i]}/{label}", f"{previous}->{label}"]


def use_joint(model: Any) -> None:
    model.set_feature_functions(joint=joint_names)
    CHAIN(model)


def make_graph(model: Any) -> Any:
    return model.fit(*graph_data())


def graph_data() -> tuple[list[Any], list[Any]]:
    nodes = np.eye(4, 2) + np.arange(4)[:, None] % 3
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    return [(nodes, edges)] * 2, [np.array(["a", "b", "a", "b"])] * 2


def clique_data() -> tuple[list[Any], list[Any]]:
    X, y = graph_data()
    cliques, features = {"x": [[0, 1, 2]], "y": [[3, 2, 1, 0]]}, {"x": [[0.5]]}
    return [(*x, None, None, cliques, features) for x in X], y


def grid_data() -> tuple[list[Any], list[Any]]:
    truth = np.arange(12).reshape(3, 4) // 6
    return [truth * 1.5 - 0.3], [truth]


def made_embedding(model: Any) -> Any:
    return model.fit([text.split() for text in TEXTS])


SMALL = {"vector_size": 4, "epochs": 1, "min_count": 1, "n_jobs": 1, "random_state": 0}
CHAIN = use_chain(WORDS, TAGS)
CASES: dict[str, Case] = {
    "crf": Case(
        lambda: trellis.CRF(
            all_fields(),
            max_iter=3,
            constraints=[("D", "V")],
            label_weight={"N": 2.0},
            solver_options={"memory": 3},
            random_state=3,
        ).fit(WORDS, TAGS, dev=(WORDS, TAGS)),
        CHAIN,
    ),
    "crf of ready features": Case(
        lambda: trellis.CRF(max_iter=2).fit([[["a"], ["b", "c"]]], [["P", "Q"]]),
        use_chain([[["a"], ["b", "c"]]], [["P", "Q"]]),
    ),
    "crf of arrays": Case(
        lambda: trellis.CRF(max_iter=2).fit(ROWS, ROW_TAGS), use_chain(ROWS, ROW_TAGS)
    ),
    "crf of edge templates": Case(
        lambda: trellis.CRF(edge_features=named(["w[0]", "w[1]"]), max_iter=2).fit(WORDS, TAGS),
        CHAIN,
    ),
    "crf of joint features": Case(
        lambda: trellis.CRF(joint=joint_names, max_iter=2).fit(WORDS, TAGS), use_joint
    ),
    "crf of order 2": Case(lambda: trellis.CRF(order=2, max_iter=2).fit(WORDS, TAGS), CHAIN),
    "memm": Case(lambda: trellis.MEMM(max_iter=2).fit(WORDS, TAGS), CHAIN),
    "hmm": Case(lambda: trellis.HMM(random_state=1).fit(WORDS, TAGS), CHAIN),
    "hmm of symbols": Case(
        lambda: made_hmm([[1, 2, "x"], [2, 2]], emissions="categorical"), use_hmm([[1, 3, "y"]])
    ),
    "hmm of vectors": Case(
        lambda: made_hmm(ROWS, emissions="gaussian", covariance="full"), use_hmm(ROWS)
    ),
    "hmm of mixtures": Case(lambda: made_hmm(ROWS, emissions="mixture"), use_hmm(ROWS)),
    "hmm of counts": Case(lambda: made_hmm(ROWS, emissions="poisson"), use_hmm(ROWS)),
    "logistic": Case(
        lambda: trellis.LogisticRegression().fit([[0.0, 1.0], [1.0, 0.5]], ["a", "b"]), use_rows
    ),
    "softmax": Case(
        lambda: trellis.SoftmaxRegression().fit([[0.0], [1.0], [2.0]], ["a", "b", "c"]), use_rows
    ),
    "graph": Case(
        lambda: make_graph(trellis.GraphCRF(max_iter=3, random_state=1)),
        use_graph(graph_data()[0]),
    ),
    "graph, cliques": Case(
        lambda: trellis.GraphCRF(max_iter=3).fit(*clique_data()), use_graph(clique_data()[0])
    ),
    "grid": Case(lambda: trellis.GridCRF(max_iter=3).fit(*grid_data()), use_graph(grid_data()[0])),
    "word2vec": Case(lambda: made_embedding(trellis.Word2Vec(sample=0, **SMALL)), use_vectors),
    "word2vec, softmax tree": Case(
        lambda: made_embedding(trellis.Word2Vec(loss="hierarchical", sample=0, **SMALL)),
        use_vectors,
    ),
    "fasttext": Case(
        lambda: made_embedding(trellis.FastText(bucket=50, sample=0, **SMALL)), use_vectors
    ),
    "fasttext, dictionary": Case(
        lambda: made_embedding(trellis.FastText(bucket=50, sample=0, ngrams="dictionary", **SMALL)),
        use_vectors,
    ),
    **{
        f"classifier, {loss}": Case(
            lambda loss=loss: trellis.TextClassifier(
                loss=loss, bucket=20, word_ngrams=2, **SMALL
            ).fit(TEXTS, ["P", "N", "P", "N"] * 3),
            use_classifier,
        )
        for loss in ("softmax", "hierarchical", "negative", "ova")
    },
    "vectors": Case(
        lambda: trellis.Vectors(["a", "b"], np.eye(2, 3, dtype=np.float32)), use_vectors
    ),
    "tagger": Case(make_tagger, CHAIN),
    "tagger, all words": Case(
        lambda: make_tagger(words=("embedding", "rnn", "cnn"), encoder="cnn", head="softmax"),
        CHAIN,
    ),
    "tagger, hybrid": Case(
        lambda: make_tagger(features="crf", head="crf", layers=2, constraints=[("D", "V")]), CHAIN
    ),
    "tagger, n-grams": Case(lambda: make_tagger(words=("ngrams",), head="memm"), CHAIN),
}


# ---- forgeries


def values_of(old: Any) -> Iterator[Any]:
    """Yield the values that replace a value of the metadata."""
    for value in VALUES:
        if type(value) is not type(old) or value != old:
            yield value
    if isinstance(old, list):
        yield old + old
        yield old[:-1]
        yield old[::-1]
        yield [old]
    if isinstance(old, int) and not isinstance(old, bool):
        yield from (old + 1, old - 1, old * 1000)


def forge_meta(meta: Any) -> Iterator[tuple[str, Any]]:
    """Yield (description, metadata), each with one value replaced or removed."""
    for name in ABSENT if "parameters" in meta else ():
        for value in VALUES:
            parameters = {**meta["parameters"], name: value}
            yield f"parameters.{name} = {value!r}", {**meta, "parameters": parameters}
    for path, old in list(walk(meta, ())):
        for value in values_of(old):
            changed = copy.deepcopy(meta)
            parent(changed, path)[path[-1]] = value
            yield f"{'.'.join(map(str, path))} = {value!r:.40}", changed
        changed = copy.deepcopy(meta)
        del parent(changed, path)[path[-1]]
        yield f"{'.'.join(map(str, path))} removed", changed


def walk(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from walk(value[key], (*path, key))
    elif isinstance(value, list):
        for n in range(min(len(value), MOST_ITEMS)):
            yield from walk(value[n], (*path, n))


def parent(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def arrays_of(old: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arrays that replace a tensor."""
    for dtype in (np.float64, np.float32, np.int64, np.int32, np.uint8, np.uint16, np.bool_):
        if dtype != old.dtype:
            yield f"as {np.dtype(dtype)}", np.zeros_like(old, dtype)
    yield "empty", old.reshape(-1)[:0].copy()
    yield "flat", old.reshape(-1)[None].copy()
    yield "a scalar", np.zeros((), old.dtype)
    if old.ndim:
        yield "longer", np.concatenate([old, old[-1:]])
        yield "shorter", old[:-1].copy()
        yield "without rows", old[:0].copy()
    if old.ndim > 1:
        yield "wider", np.concatenate([old, old[..., -1:]], axis=-1)
        yield "without columns", old[..., :0].copy()
        yield "transposed", np.ascontiguousarray(old.T)
    yield "zeros", np.zeros_like(old)
    if not old.size:
        return
    extremes: tuple[Any, ...]
    if old.dtype.kind == "f":
        # Larger numbers are valid, but sums of them overflow: the tests of inference cover that.
        extremes = (np.nan, np.inf, -np.inf, 1e30, -1e30, -1.0, 1e-300)
    elif old.dtype.kind == "b":
        extremes = (True, False)
    else:
        limits = np.iinfo(old.dtype)
        extremes = (limits.min, limits.max, limits.max - 1, 1, 7)
    with np.errstate(all="ignore"):
        for value in extremes:
            for place, index in (("first", 0), ("last", -1), ("all", slice(None))):
                changed = old.copy()
                changed.reshape(-1)[index] = np.array(value).astype(old.dtype)
                yield f"{place} {value!r}", changed
    yield "reversed", np.ascontiguousarray(old[::-1]) if old.ndim else old


def forge_tensors(tensors: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (description, tensors), each with one tensor replaced, removed or added."""
    for name, old in tensors.items():
        yield f"{name} removed", {k: v for k, v in tensors.items() if k != name}
        for what, array in arrays_of(old):
            yield f"{name}: {what}", {**tensors, name: array}
    yield "another tensor", {**tensors, "another": np.zeros(3)}


def forgeries(contents: native.Contents) -> Iterator[tuple[str, bytes]]:
    """Yield (description, bytes of the file)."""
    meta, tensors = contents.meta, {k: v.copy() for k, v in contents.tensors.items()}
    for what, changed in forge_meta(meta):
        try:
            yield what, seal(contents.kind, changed, tensors)
        except InputError:  # JSON has no such number
            continue
    for what, arrays in forge_tensors(tensors):
        yield what, seal(contents.kind, meta, arrays)


def seal(kind: str, meta: Any, tensors: dict[str, Any]) -> bytes:
    """Return the bytes of a file with a correct checksum. `native.write` waits for the disk."""
    arrays = native_header.lay_out(tensors)
    parts = [native_header.build(kind, meta, arrays)]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    data = b"".join(parts)
    digits = hashlib.sha256(data).hexdigest().encode()
    return data[: native_header.DIGITS.start] + digits + data[native_header.DIGITS.stop :]


# ---- the check


def check(case: Case, folder: Path) -> Iterator[str]:
    """Yield a line for each forgery that raises a wrong error or gives a broken model."""
    path = folder / "model.trellis"
    case.make().save(path)
    contents = native.read(path)
    case.use(trellis.load(path))
    count, accepted = 0, 0
    limit_memory()
    for what, data in forgeries(contents):
        count += 1
        path.unlink()  # the earlier file may still be mapped
        path.write_bytes(data)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            model = trellis.load(path)
        except FormatError as error:
            if len(str(error)) > 2000 or not str(error).startswith(str(path)):
                yield f"{what}: message of {len(str(error))} characters: {error!s:.100}"
            continue
        except BaseException as error:
            yield f"{what}: load raised {type(error).__name__}: {error!s:.200}"
            continue
        finally:
            faulthandler.cancel_dump_traceback_later()
        accepted += 1
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            case.use(model)
        except BaseException as error:
            if not isinstance(error, TrellisError) or not MEANINGFUL.search(str(error)):
                yield f"{what}: use raised {type(error).__name__}: {error!s:.200}"
        finally:
            faulthandler.cancel_dump_traceback_later()
    print(f"{count} forgeries, {accepted} accepted")


def limit_memory() -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_MEMORY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if "tagger" in sys.argv[1]:
        import torch

        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for line in check(CASES[sys.argv[1]], Path(folder)):
            print("FAILED", line, flush=True)
