"""``/v1``: answers equal those of the model, in batches and streams, and as they are declared."""

import http.client
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import TOKEN, Client, serve

from trellis.app.web.http.errors import RequestError

SENTENCES = ["play jazz", ["book", "a", "table", "for", "two"], "wake me at seven"]


@pytest.fixture
def X() -> list[list[str]]:
    return [s.split() if isinstance(s, str) else s for s in SENTENCES]


def test_tag(client: Client, model: Any, X: list[list[str]]) -> None:
    answer = client.ask("/v1/tag", sequences=SENTENCES)
    assert answer == {"tokens": X, "labels": model.predict(X)}
    assert client.ask("/v1/tag", sequences=SENTENCES, model=1) == answer
    assert client.ask("/v1/tag", sequences=["", []])["labels"] == [[], []]


def test_marginals(client: Client, model: Any, X: list[list[str]]) -> None:
    answer = client.ask("/v1/marginals", sequences=SENTENCES)
    assert answer["labels"] == model.classes_.tolist()
    for p, expected in zip(answer["marginals"], model.predict_marginals(X), strict=True):
        assert np.abs(np.array(p) - expected).max() <= 5e-7


def test_kbest(client: Client, model: Any, X: list[list[str]]) -> None:
    answer = client.ask("/v1/kbest", sequences=SENTENCES, k=3)
    expected = [[path._asdict() for path in paths] for paths in model.predict_kbest(X, 3)]
    assert answer["paths"] == expected


def test_explain(client: Client, model: Any, X: list[list[str]]) -> None:
    answer = client.ask("/v1/explain", sequence=SENTENCES[0])
    for decision, expected in zip(answer["decisions"], model.explain(X[0]), strict=True):
        assert decision["label"] == expected.label
        assert decision["contributions"] == [c._asdict() for c in expected.contributions]


def test_answers_are_as_declared(client: Client) -> None:
    app = client.site.server.app
    for path, endpoint in app.posts.items():
        if path.startswith("/v1/"):
            name = "sequence" if path == "/v1/explain" else "sequences"
            value = SENTENCES[0] if path == "/v1/explain" else SENTENCES
            endpoint.answer.read(client.ask(path, **{name: value}), "the answer")
    with pytest.raises(RequestError, match="labels is missing"):
        app.posts["/v1/tag"].answer.read({"tokens": []}, "")


def test_document(client: Client) -> None:
    document = client.get("/openapi.json").value
    assert document["openapi"].startswith("3.")
    paths = {f"/v1/{name}" for name in ("tag", "marginals", "kbest", "explain")}
    assert paths <= document["paths"].keys()
    assert not any(path.startswith("/page") for path in document["paths"])
    body = document["paths"]["/v1/kbest"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["required"] == ["sequences"]
    assert body["schema"]["properties"]["k"]["default"] == 5
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert b"/v1/kbest" in page.body
    assert b"<script" not in page.body
    assert client.get("/docs.css").status == 200


def test_health_needs_no_token(client: Client) -> None:
    answer = client.request("GET", "/health")
    assert (answer.status, answer.value) == (200, {"status": "ok"})


def test_stream(client: Client, model: Any) -> None:
    """A stream is answered line by line; a wrong line does not end it."""
    lines = [json.dumps({"sequences": [f"play track {n}"]}) for n in range(300)]
    lines[7] = '{"sequences": 1}'
    lines[9] = ""
    body = "\n".join(lines).encode()
    answer = client.post_bytes("/v1/tag", body, "application/x-ndjson")
    assert answer.headers["content-type"] == "application/x-ndjson"
    answers = [json.loads(line) for line in answer.body.splitlines()]
    assert len(answers) == 299
    assert answers[7]["line"] == 8
    assert "sequences is 1" in answers[7]["error"]
    rest = [n for n in range(300) if n not in (7, 9)]
    expected = model.predict([["play", "track", str(n)] for n in rest])
    assert [a["labels"][0] for a in answers if "labels" in a] == expected


def test_stream_answers_before_it_ends(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.putrequest("POST", "/v1/tag")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(text: bytes) -> None:
        connection.send(b"%x\r\n%s\r\n" % (len(text), text))

    # More lines than the server computes ahead, so the first answers come while the stream is open.
    line = json.dumps({"sequences": ["play jazz"]}).encode() + b"\n"
    for _ in range(100):
        send(line)
    reply = connection.getresponse()
    assert b"labels" in reply.readline()
    send(line)
    connection.send(b"0\r\n\r\n")
    assert len(reply.read().splitlines()) == 100
    connection.close()


def test_many_clients_at_once(client: Client, model: Any) -> None:
    """Requests that are computed as one batch get their own answers, also if one is wrong."""
    failures: list[Any] = []

    def ask(number: int) -> None:
        tokens = ["play", "track", str(number)]
        if number % 7 == 0:
            if client.post("/v1/tag", sequences=[[{"w": "a"}]]).status != 422:
                failures.append(number)
        elif client.ask("/v1/tag", sequences=[tokens])["labels"] != model.predict([tokens]):
            failures.append(number)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_bounds(model_path: Path) -> None:
    with serve(model_path, max_tokens=10, max_body=1000, api=True) as client:
        assert client.post("/v1/tag", sequences=[["a"] * 10]).status == 200
        answer = client.post("/v1/tag", sequences=[["a"] * 6, ["a"] * 5])
        assert (answer.status, "11 tokens" in answer.value["error"]) == (413, True)
        assert client.post("/v1/tag", sequences=["a " * 600]).status == 413
        answer = client.post_bytes(
            "/v1/tag", b'{"sequences": ["' + b"a" * 1000, "application/x-ndjson"
        )
        assert b"a line has more than" in answer.body
        # With --api there is no page.
        assert client.request("GET", f"/?token={TOKEN}").headers["location"] == "/docs"
        assert client.get("/").status == 404
        assert client.post("/page/state").status == 404


def test_time_limit(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    with serve(model_path, timeout=0.5, workers=1) as client:
        chain = client.site.server.app.posts["/v1/tag"].call.__self__.models[0]
        predict = chain.model.predict
        monkeypatch.setattr(
            chain.model, "predict", lambda X: release.wait(20) and predict(X), raising=False
        )
        answer = client.post("/v1/tag", sequences=["a"])
        release.set()
        assert (answer.status, "no answer within" in answer.value["error"]) == (503, True)
        assert client.post("/v1/tag", sequences=["a"]).status == 200
