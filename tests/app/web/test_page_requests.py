"""The requests of the page: scores, explanations, lists, slices, corrections, training."""

import base64
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import TOKEN, Client, serve

import trellis
from trellis import CRF, HMM, MEMM, Vectors
from trellis.app.web.correcting import Corrections
from trellis.app.web.http.errors import RequestError
from trellis.app.web.retraining import Retraining
from trellis.app.web.served import ChainModel
from trellis.app.web.session import Session
from trellis.data import conll
from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain
from trellis.metrics import span_f1
from trellis.plots import interactive

TEXT = "play something slow by Marisa Okoye"


def unpack(array: dict[str, Any]) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(array["float64"]), "<f8")
    return data.reshape(array["shape"])


def wait(ask: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
    """Ask again until the answer is complete."""
    for _ in range(600):
        answer = ask()
        if done(answer):
            return answer
        time.sleep(0.05)
    raise AssertionError(answer)


def test_the_page_and_its_files(client: Client) -> None:
    page = client.get("/")
    assert page.status == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    names = {name for name in client.site.server.app.gets if name.startswith("/static/")}
    assert {"/static/main.js", "/static/chain.js", "/static/style.css"} <= names
    for name in names:
        assert client.get(name).status == 200
    sizes = [len(client.get(name).body) for name in [*names, "/"]]
    assert sum(sizes) <= 150_000


def test_the_token_becomes_a_cookie(client: Client) -> None:
    answer = client.request("GET", f"/?token={TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert TOKEN not in cookie
    assert client.request("GET", "/", headers={"Cookie": cookie}).status == 200
    assert client.request("GET", "/", headers={"Cookie": cookie[:-1]}).status == 401
    assert client.request("GET", "/").status == 401


def test_state(client: Client, model: Any) -> None:
    state = client.ask("/page/state")
    assert [entry["kind"] for entry in state["models"]] == ["chain", "chain"]
    assert state["models"][0]["labels"] == model.classes_.tolist()
    assert state["models"][0]["needs"] == "text"
    assert state["data"] == {"name": "dev.conll", "size": 60}
    assert state["can_save"]
    assert state["can_train"]


def test_scores_are_those_of_the_model(client: Client, model: Any) -> None:
    answer = client.ask("/page/scores", text=TEXT)
    scores = model.scores([answer["tokens"]])
    assert answer["tokens"] == TEXT.split()
    assert np.array_equal(unpack(answer["unary"]), scores.unary[0])
    assert np.array_equal(unpack(answer["transition"]), scores.transition)
    assert np.array_equal(unpack(answer["start"]), scores.start)
    assert answer["spans"] == "BIO"
    assert answer["gold"] is None
    assert client.ask("/page/scores", tokens=TEXT.split()) == answer


def test_scores_of_a_labelled_sentence(client: Client, model_path: Path) -> None:
    X, y = conll.read(model_path.parent / "dev.conll")
    answer = client.ask("/page/scores", index=3, model=1)
    assert (answer["tokens"], answer["gold"], answer["model"]) == (X[3], y[3], 1)
    assert client.post("/page/scores", index=60).status == 422
    assert client.post("/page/scores", index=3, text="a").status == 400
    assert client.post("/page/scores", text=" ").status == 422
    assert client.post("/page/scores", text="a", model=2).status == 422


def test_features_add_up_to_the_score(client: Client, model: Any) -> None:
    scores: Any = model.scores([TEXT.split()])
    labels = model.classes_.tolist()
    a, b = "B-artist", "O"
    node = client.ask("/page/explain", text=TEXT, position=4, label=a, runner_up=b)
    assert node["score"] == scores.unary[0][4, labels.index(a)]
    assert np.isclose(sum(f["label"] for f in node["features"]), node["score"])
    assert np.isclose(sum(f["runner_up"] for f in node["features"]), node["runner_up_score"])
    differences = [abs(f["label"] - f["runner_up"]) for f in node["features"]]
    assert differences == sorted(differences, reverse=True)
    edge = {"text": TEXT, "position": 5, "label": "I-artist", "runner_up": b}
    inside = client.ask("/page/explain", previous=a, **edge)
    assert inside["score"] == scores.transition[labels.index(a), labels.index("I-artist")]
    assert inside["features"][0]["name"] == "transition:into B-artist"
    # After O, I-artist is forbidden: the score is −∞, which is null in JSON.
    forbidden = client.ask("/page/explain", previous=b, **edge)
    assert forbidden["score"] is None
    assert forbidden["features"][0]["name"] == "constraint"
    for wrong in ({"position": 6}, {"label": "B-nothing"}, {"position": 0, "previous": b}):
        assert client.post("/page/explain", **{**edge, **wrong}).status == 422


def test_browse(client: Client, model: Any, model_path: Path) -> None:
    X, y = conll.read(model_path.parent / "dev.conll")
    wait(lambda: client.ask("/page/browse", other=1), lambda a: a["progress"] == 1)
    everything = client.ask("/page/browse", count=1000)
    predicted = model.predict(X)
    assert everything["total"] == 60
    assert [row["predicted"] for row in everything["rows"]] == predicted
    best = [paths[0].probability for paths in model.predict_kbest(X, 1)]
    assert np.allclose([row["probability"] for row in everything["rows"]], best)
    wrong = [n for n in range(60) if predicted[n] != y[n]]
    errors = client.ask("/page/browse", filter={"errors_only": True}, count=1000)
    assert [row["index"] for row in errors["rows"]] == wrong
    pairs = [p for n in range(60) for p in zip(y[n], predicted[n], strict=True) if p[0] != p[1]]
    counts = Counter(pairs)
    confusions = {(c["gold"], c["predicted"]): c["count"] for c in errors["confusions"]}
    assert confusions.items() <= counts.items()
    assert sorted(counts.values(), reverse=True)[: len(confusions)] == [*confusions.values()]
    pair = errors["confusions"][0]
    chosen = {"gold": pair["gold"], "predicted": pair["predicted"]}
    rows = client.ask("/page/browse", filter=chosen)["rows"]
    assert rows
    for row in rows:
        assert tuple(chosen.values()) in zip(row["gold"], row["predicted"], strict=True)
    entropies = [r["entropy"] for r in client.ask("/page/browse", sort="entropy")["rows"]]
    assert entropies == sorted(entropies, reverse=True)
    margins = [r["margin"] for r in client.ask("/page/browse", sort="margin", count=9)["rows"]]
    assert margins == sorted(margins)
    assert len(margins) == 9
    same = client.ask("/page/browse", other=1, filter={"disagreements_only": True})
    assert same["total"] == 0  # both models are the same
    long = client.ask("/page/browse", filter={"min_length": 12, "max_probability": 0.5}, count=99)
    assert [r["index"] for r in long["rows"]] == [
        n for n in range(60) if len(X[n]) >= 12 and best[n] <= 0.5
    ]
    text = client.ask("/page/browse", filter={"text": "THE"}, count=99)
    assert all("the" in " ".join(r["tokens"]).lower() for r in text["rows"])


def test_slices(client: Client, model: Any, model_path: Path) -> None:
    X, y = conll.read(model_path.parent / "dev.conll")
    wait(lambda: client.ask("/page/browse"), lambda a: a["progress"] == 1)
    predicted = model.predict(X)
    kinds = [
        {"kind": "length", "value": "0-"},
        {"kind": "word", "value": "the"},
        {"kind": "unseen"},
        {"kind": "length", "value": "500-600"},
        {"kind": "label", "value": "B-time"},
    ]
    everything, word, unseen, empty, label = client.ask("/page/slices", slices=kinds)["slices"]
    assert everything["sentences"] == 60
    assert everything["f1"] == pytest.approx(span_f1(y, predicted))
    assert everything["low"] <= everything["f1"] <= everything["high"]
    assert everything["low"] < everything["high"]
    indices = [n for n in range(60) if "the" in map(str.lower, X[n])]
    assert word["sentences"] == len(indices) > 0
    assert word["f1"] == pytest.approx(
        span_f1([y[n] for n in indices], [predicted[n] for n in indices])
    )
    assert 0 < unseen["sentences"] <= 60
    assert (empty["sentences"], empty["f1"]) == (0, None)
    assert label["sentences"] == sum("B-time" in labels for labels in y)
    assert client.post("/page/slices", slices=[{"kind": "length", "value": "x"}]).status == 422
    for kind in ("word", "label", "length"):
        assert client.post("/page/slices", slices=[{"kind": kind}]).status == 422


def test_corrections_and_training(model_path: Path, tmp_path: Path) -> None:
    files = {"data": model_path.parent / "dev.conll", "train": model_path.parent / "train.conll"}
    with serve(model_path, save=tmp_path, **files) as client:
        answer = client.ask("/page/save", tokens=["play", "jazz"], labels=["O", None])
        assert answer == {"saved": 1, "file": "corrections.conll"}
        client.ask("/page/save", tokens=["play", "jazz"], labels=["O", "B-genre"])
        sentence = client.ask("/page/scores", index=2)
        labels = [None, *sentence["gold"][1:]]
        answer = client.ask("/page/save", index=2, tokens=sentence["tokens"], labels=labels)
        assert answer["saved"] == 2
        answer = client.ask("/page/save", tokens=["stop"], labels=["O"], format="jsonl", index=None)
        assert answer == {"saved": 3, "file": "corrections.jsonl"}
        X, y = conll.read(tmp_path / "corrections.conll")
        assert [["play", "jazz"], sentence["tokens"]] == X
        assert y == [["O", "B-genre"], ["?", *sentence["gold"][1:]]]
        for wrong in (["O"], ["O", "?"], ["O", "B\tX"]):
            assert client.post("/page/save", tokens=["a", "b"], labels=wrong).status == 422
        assert client.ask("/page/training")["state"] == "idle"
        client.ask("/page/train")
        done = wait(lambda: client.ask("/page/training"), lambda a: a["state"] != "running")
        assert done["state"] == "done", done
        assert 0 < done["before"]["f1"] <= 1
        assert 0 < done["after"]["f1"] <= 1
        assert done["iteration"] > 0
    trained = trellis.load(tmp_path / done["file"])
    rest = [n for n in range(60) if n != 2]
    X, y = conll.read(files["data"])
    predicted = trained.predict([X[n] for n in rest])
    assert done["after"]["f1"] == pytest.approx(span_f1([y[n] for n in rest], predicted))
    with serve(model_path, save=tmp_path) as client:  # a later session keeps the corrections
        assert client.ask("/page/save", tokens=["go"], labels=["O"])["saved"] == 4
        assert client.post("/page/train").status == 422
        assert client.post("/page/browse").status == 422
    with serve(model_path) as client:
        assert client.post("/page/save", tokens=["go"], labels=["O"]).status == 422


def test_the_newer_file_of_corrections_counts(tmp_path: Path) -> None:
    """Each format has its file; a sentence may be corrected again in the other format."""
    (tmp_path / "corrections.jsonl").write_text('{"tokens": ["go"], "tags": ["OLD"]}\n')
    os.utime(tmp_path / "corrections.jsonl", (1, 1))
    (tmp_path / "corrections.conll").write_text("go\tNEW\n\n")
    assert Corrections(tmp_path).pairs() == ([["go"]], [["NEW"]])
    os.utime(tmp_path / "corrections.conll", (0, 0))
    assert Corrections(tmp_path).pairs() == ([["go"]], [["OLD"]])


def test_a_stopped_training_is_not_kept(model_path: Path, tmp_path: Path) -> None:
    session = Session([ChainModel("model", trellis.load(model_path), model_path)])
    retraining = Retraining(session, Corrections(tmp_path), model_path.parent / "train.conll")
    retraining.close()
    retraining.start(0)
    retraining.close()
    assert retraining.state()["iteration"] == 1
    assert list(tmp_path.iterdir()) == []


def test_models_of_numbers_are_refused(tmp_path: Path) -> None:
    """A request has words: no request could be answered."""
    HMM().fit([[0, 1], [1, 0, 0]] * 2, [["A", "B"], ["B", "A", "A"]] * 2).save(tmp_path / "n")
    with pytest.raises(InputError, match="HMM takes numbers"), serve(tmp_path / "n"):
        pass


def test_corrections_if_the_first_model_has_no_labels(model_path: Path, tmp_path: Path) -> None:
    Vectors(["go", "stop"], np.eye(2, dtype=np.float32)).save(tmp_path / "vectors.trellis")
    data = model_path.parent / "dev.conll"
    with serve(tmp_path / "vectors.trellis", model_path, data=data, save=tmp_path) as client:
        sentence = client.ask("/page/scores", model=1, index=2)
        values = {"tokens": sentence["tokens"], "labels": sentence["gold"]}
        assert client.ask("/page/save", index=2, **values)["saved"] == 1


@pytest.mark.parametrize(
    ("error", "status"), [(InfeasibleError("no labelling"), 422), (ValueError("secret"), 500)]
)
def test_data_that_a_model_cannot_label(
    error: Exception, status: int, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page gets the reason; without one, it would ask for the progress for ever."""

    def fail(X: Any, k: int) -> Any:
        raise error

    chain_model = ChainModel("model", trellis.load(model_path), model_path)
    monkeypatch.setattr(chain_model.model, "predict_kbest", fail, raising=False)
    session = Session([chain_model], model_path.parent / "dev.conll")
    with contextlib.suppress(RequestError):  # the thread may be faster
        session.analysis(0)
    session.close()
    with pytest.raises(RequestError) as raised:
        session.analysis(0)
    assert raised.value.status == status
    assert ("no labelling" in str(raised.value)) == (status == 422)
    assert "secret" not in str(raised.value)


def test_other_models(tmp_path: Path) -> None:
    X, y = [["a", "b"], ["b", "a", "a"]] * 3, [["A", "B"], ["B", "A", "A"]] * 3
    features = [[{"w": token, "n": 0.5} for token in x] for x in X]
    MEMM().fit(X, y).save(tmp_path / "memm.trellis")
    HMM().fit(X, y).save(tmp_path / "hmm.trellis")
    CRF().fit(features, y).save(tmp_path / "features.trellis")
    CRF().fit([[(t, t) for t in x] for x in X], y).save(tmp_path / "columns.trellis")
    names = ("memm", "hmm", "features", "columns")
    with serve(*(tmp_path / f"{name}.trellis" for name in names)) as client:
        needs = [entry["needs"] for entry in client.ask("/page/state")["models"]]
        assert needs == ["text", "text", "features", "columns"]
        node = {"position": 0, "label": "A", "runner_up": "B"}
        memm = client.ask("/page/explain", text="a b", **node)
        assert sum(f["label"] for f in memm["features"]) == pytest.approx(memm["score"])
        assert "normaliser" in {f["name"] for f in memm["features"]}
        hmm = client.ask("/page/explain", model=1, text="a b", **node)
        assert hmm["features"] == []
        assert "note" in hmm
        scores = client.ask("/page/scores", model=1, text="a b")
        unary, matrix = unpack(scores["unary"]), unpack(scores["transition"])
        start = unpack(scores["start"])
        path = chain.viterbi(chain.Scores(unary, matrix, start)).labels
        assert [scores["labels"][n] for n in path] == ["A", "B"]
        tokens = [{"w": "a", "n": 0.5}, ["w=b"]]
        assert client.post("/page/scores", model=2, tokens=tokens[:1]).status == 200
        assert client.post("/page/scores", model=2, text="a b").status == 422
        answer = client.ask("/page/scores", model=3, tokens=[["a", "a"], ["b", "b"]])
        assert answer["columns"] == {"column 1": ["a", "b"]}
        for tokens in (["a"], [["a"]], [{"w": "a"}]):
            assert client.post("/page/scores", model=3, tokens=tokens).status == 422


def test_emissions_and_vectors(tmp_path: Path) -> None:
    import wave

    p = np.array([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1]])
    np.save(tmp_path / "speech.npy", np.log(p))
    (tmp_path / "symbols.txt").write_text("_\na\nb\n")
    with wave.open(str(tmp_path / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\0\0" * 4000)
    words = [f"w{n}" for n in range(30)]
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    Vectors(words, rows).save(tmp_path / "vectors.trellis")
    models = tmp_path / "speech.npy", tmp_path / "vectors.trellis"
    with serve(*models, symbols=tmp_path / "symbols.txt") as client:
        kinds = [entry["kind"] for entry in client.ask("/page/state")["models"]]
        assert kinds == ["ctc", "vectors"]
        answer = client.ask("/page/ctc", model=0)
        assert np.allclose(unpack(answer["scores"]), np.log(p))
        assert (answer["text"], answer["path"]) == ("ba", [2, 0, 1, 1])
        assert (answer["symbols"], answer["blank"]) == (["_", "a", "b"], 0)
        assert answer["seconds"] == 0.5
        sound = client.get(answer["audio"])
        assert sound.body == (tmp_path / "speech.wav").read_bytes()
        assert client.get("/page/audio/1").status == 404
        near = client.ask("/page/neighbors", model=1, word="w3", count=5)["words"]
        expected = Vectors(words, rows).nearest("w3", 5)
        assert [entry["word"] for entry in near] == ["w3", *(n.word for n in expected)]
        assert max(abs(entry[axis]) for entry in near for axis in "xy") == pytest.approx(1)
        assert client.post("/page/neighbors", model=1, word="nothing").status == 422
        for path in ("/page/ctc", "/page/neighbors", "/page/scores"):
            other = {"model": 1 if path == "/page/ctc" else 0}
            values = {"word": "w1"} if path == "/page/neighbors" else {}
            assert client.post(path, **other, **values).status in (400, 422)


def test_saved_page_has_all_modules(client: Client) -> None:
    html = client.ask("/page/bundle", entry="main")["html"]
    assert "src=" not in html.replace("data-source=", "")
    assert 'rel="stylesheet"' not in html
    assert html.count(interactive.STATE_MARK) == 1
    assert "import {" not in html
    assert "export function" not in html


def test_the_page_refuses_a_model_of_second_order(tmp_path: Path) -> None:
    model = CRF(order=2, max_iter=5).fit([["a", "b", "a"]], [["A", "B", "A"]])
    served = ChainModel("second.trellis", model, tmp_path / "second.trellis")
    with pytest.raises(RequestError, match=r"second.trellis has order 2: the page shows"):
        served.payload(["a", "b"])
