"""Item 14: the best tagger from one command, and clusters of words as features."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import CRF
from trellis.app.cli.main import run_command
from trellis.data import conll, samples
from trellis.embeddings.vectors import Vectors, cluster_words
from trellis.errors import FormatError, InputError
from trellis.features import Clusters, Spec, Window, named, ner, pos, read_clusters
from trellis.features.extractor import TemplateFeatures

X = [["Ann", "sees", "Rome"], ["Bo", "eats", "bread"], ["Ann", "likes", "Rome"]]
Y = [["O", "O", "B-LOC"], ["O", "O", "O"], ["O", "O", "B-LOC"]]
CITIES = {"Rome": "7", "paris": "7", "bread": "3"}
VECTORS = "4 2\nRome 5 1\nParis 4 1\nbread -1 3\nwine -1 4\n"


# ---- clusters as features


def test_words_of_a_cluster_share_their_weights() -> None:
    off = Window(words=None, lower=None, shape=None, case=None, affixes=None, bigrams=None)
    settings = {name: getattr(off, name) for name in off.__dataclass_fields__}
    model = CRF(Window(**settings | {"clusters": {"topic": CITIES}})).fit(X, Y)
    assert model.predict([["he", "left", "Paris"]]) == [["O", "O", "B-LOC"]]
    assert model.predict([["he", "left", "Oslo"]]) == [["O", "O", "O"]]


def test_the_templates_of_clusters() -> None:
    plain = {t.name for t in Window().spec().templates}
    numbers = {t.name for t in Window(clusters={"topic": CITIES}).spec().templates}
    assert numbers - plain == {"topic[-1]", "topic[0]", "topic[1]"}
    bits = {"brown": {"Rome": "0110", "Paris": "01110101011"}}
    window = Window(clusters=bits, cluster_window=0)
    assert {t.name for t in window.spec().templates} - plain == {
        *("brown[0]", "brown.prefix4[0]", "brown.prefix6[0]", "brown.prefix10[0]")
    }
    for preset in (ner, pos):
        with_clusters = {t.name for t in preset(clusters={"topic": CITIES}).templates}
        assert with_clusters - {t.name for t in preset().templates} == numbers - plain


def test_the_cluster_of_a_word() -> None:
    clusters = Clusters("topic", ("Rome", "rome", "paris"), ("1", "2", "0101"))
    words = ("Rome", "rome", "ROME", "Paris", "Oslo")
    assert [clusters.find(word) for word in words] == ["1", "2", "2", "0101", None]
    assert [clusters.find("paris", size) for size in (0, 1, 4, 9)] == ["0101", "0", "0101", "0101"]
    assert not clusters.is_binary
    assert Clusters("b", ("x",), ("01",)).is_binary


def test_names_of_templates() -> None:
    clusters = [Clusters("brown", ("Rome",), ("0110",))]
    features = TemplateFeatures(named(["brown[0]", "brown.prefix2[-1]|w[0]"], clusters=clusters))
    features.learn([["Rome", "burns"]])
    assert features.names() == ["brown[0]=0110", "brown.prefix2[-1]|w[0]=01|burns"]
    with pytest.raises(InputError, match=r"field 'brown.suffix2' is unknown"):
        named(["brown.suffix2[0]"], clusters=clusters)
    with pytest.raises(InputError, match=r"gazetteers and clusters \['brown'\] must have distinct"):
        named(["w[0]"], columns=["brown"], clusters=clusters)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clusters("c", ("a", "b"), ("1",)), "clusters 'c' have 2 words, but 1 clusters"),
        (lambda: Clusters("c", ("a", 3), ("1", "2")), "words of clusters 'c': item 1"),
        (lambda: Clusters("c", ("a",), (1,)), "clusters of clusters 'c': item 0"),
        (lambda: Window(clusters={"c": ["Rome"]}).spec(), "clusters 'c' must map words to"),
        (lambda: Spec((), (), clusters=(Clusters("c", (), ()),) * 2), "two of 2 clusters have"),
        (lambda: Spec((), (), clusters=("c",)), "clusters: item 0 must be Clusters"),
    ],
)
def test_wrong_clusters(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_file_and_pickle_keep_the_clusters(tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    bits = {"brown": {"Ærø": "0110", "Rome": "0110", "Paris": "0110", "bread": "1"}}
    model = CRF(Window(clusters={"topic": CITIES, **bits})).fit(X, Y)
    model.save(path)
    for copy in (trellis.load(path), pickle.loads(pickle.dumps(model))):
        assert copy.features_.spec == model.features_.spec
        assert copy.features_.names() == model.features_.names()
        text = [["he", "left", "Paris"], ["Ærø", "bread"]]
        assert all(map(np.array_equal, copy.predict_marginals(text), model.predict_marginals(text)))


def test_many_clusters_are_no_json(tmp_path: Path) -> None:
    """The header of a file is limited to 8 MB."""
    words = {f"word{n}" + 40 * "x": str(n % 500) for n in range(200_000)}
    CRF(Window(clusters={"topic": words})).fit(X, Y).save(tmp_path / "model.trellis")
    assert len(trellis.load(tmp_path / "model.trellis").features_.spec.clusters[0].words) == 200_000


# ---- files of clusters


def test_read_clusters(tmp_path: Path) -> None:
    path = tmp_path / "clusters.tsv"
    path.write_text("Rome\t7\n\nNew York\tcities\n")
    assert read_clusters(path) == {"Rome": "7", "New York": "cities"}
    path.write_text("0110\tRome\t25\n0\tthe\t9000\n")
    assert read_clusters(path) == {"Rome": "0110", "the": "0"}
    path.write_bytes("Kiruna\t1\nÅre\t1\n".encode("cp1252"))
    assert read_clusters(path, "cp1252") == {"Kiruna": "1", "Åre": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Rome\t7\nParis\n", "line 2: must be word<TAB>cluster, or bits<TAB>word<TAB>count"),
        ("021\tRome\t7\n", "line 1: must be"),
        ("01\tRome\tx\n", "line 1: must be"),
        ("Rome\t7\nRome\t8\n", "line 2: 'Rome' already has another cluster"),
        ("\n\n", "the file contains no cluster"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "clusters.tsv"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_clusters(path)


def test_clusters_of_vectors() -> None:
    vectors = Vectors(["Rome", "Paris", "wine"], [[5, 1], [50, 10], [-1, 3]])
    clusters = cluster_words(vectors, n_clusters=2)
    assert clusters["Rome"] == clusters["Paris"] != clusters["wine"]
    assert set(clusters.values()) == {"0", "1"}
    assert cluster_words(vectors, 2) == clusters
    assert len(set(cluster_words(vectors).values())) == 2  # Rome and Paris have one direction
    with pytest.raises(InputError, match="n_clusters must be at least 1, not 0"):
        cluster_words(vectors, 0)
    with pytest.raises(InputError, match="vectors must be word vectors, not dict"):
        cluster_words({"Rome": [1, 2]})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a vector is not finite"):
        cluster_words(Vectors(["a", "b"], [[np.nan, 1], [1, 1]]), 1)


# ---- the command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    conll.write("small.conll", X, Y)
    Path("vectors.txt").write_text(VECTORS)
    Path("cities.tsv").write_text("Rome\t7\nParis\t7\nbread\t3\nwine\t3\n")
    return tmp_path


@pytest.mark.parametrize("file", ["cities.tsv", "vectors.txt"])
def test_the_option_clusters(folder: Path, file: str) -> None:
    assert run_command(["train", "small.conll", "--clusters", file, "-q"]) == 0
    spec = trellis.load("model.trellis").features_.spec
    assert [(table.name, len(table.words)) for table in spec.clusters] == [("cluster", 4)]
    options = ["--clusters", file, "--clusters", "cities.tsv", "--features", "ner", "-q"]
    assert run_command(["train", "small.conll", *options]) == 0
    tables = trellis.load("model.trellis").features_.spec.clusters
    assert [table.name for table in tables] == ["cluster", "cluster2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clusters", "cities.tsv", "--features", "chunking"],
         "--gazetteer and --clusters require --features auto, words, ner or pos, not chunking"),
        (["--clusters", "cities.tsv", "--template", "a"], "--gazetteer or --clusters"),
        (["--clusters", "cities.tsv", "-m", "neural"], "--clusters need --hybrid"),
        (["--clusters", "nothing.tsv"], "nothing.tsv"),
        (["--best", "-m", "memm"], "--best does not apply to --model memm"),
        (["--best", "--unknown", "O"], "--unknown cannot be used with --best"),
        (["--best", "--hidden", "8"], "--hidden needs --model neural"),
        (["--vectors", "vectors.txt"], "--vectors needs --model neural"),
    ],
)  # fmt: skip
def test_options_that_contradict(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run_command(["train", "small.conll", *options]) == 1
    assert message in capsys.readouterr().err


def write_calendar() -> None:
    for name, split in (("train", "train"), ("dev", "held_out")):
        X, y = samples.generate(split, "calendar")
        conll.write(f"{name}.conll", X[:60], y[:60])


def test_best_chooses_features_constraints_and_the_penalty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_calendar()
    arguments = ["train", "train.conll", "--dev", "dev.conll", "--best", "--max-iter", "8"]
    assert run_command([*arguments, "--tune", "3", "-j", "1"]) == 0
    printed = capsys.readouterr().err
    scores = {
        line.split()[1]: float(line.split()[2])
        for line in printed.splitlines()
        if line.startswith("  features: ")
    }
    assert list(scores) == ["auto", "ner", "pos"]
    best = max(scores, key=lambda name: scores[name])
    assert f"chosen features: {best}\n" in printed
    assert "constraints: BIO\n" in printed
    assert printed.count("\n  l1=0") == 3
    model = trellis.load("model.trellis")
    assert model.constraints == "BIO"
    chosen = {"auto": Window().spec, "ner": ner, "pos": pos}[best]()
    assert model.features_.spec == chosen
    assert f"chosen by the development set: l1=0       l2={model.l2:<7.4g}" in printed


def test_best_with_lists_tries_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_calendar()
    Path("people.txt").write_text("Anna\nBoris\n")
    options = ["--clusters", "cities.tsv", "--gazetteer", "person=people.txt", "--l2", "0.3"]
    arguments = ["train", "train.conll", "--best", *options, "--max-iter", "4", "-j", "1"]
    assert run_command(arguments) == 0
    printed = capsys.readouterr().err
    names = [
        line.removeprefix("  features: ").rsplit(maxsplit=1)[0].strip()
        for line in printed.splitlines()
        if line.startswith("  features: ")
    ]
    both = "gazetteers + clusters"
    assert names == [f"auto + {both}", "auto", f"ner + {both}", "ner", f"pos + {both}", "pos"]
    assert "chosen by" not in printed  # --l2 is not searched
    assert trellis.load("model.trellis").l2 == 0.3


def test_best_keeps_the_features_of_the_user(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_calendar()
    arguments = ["train", "train.conll", "--best", "--features", "pos", "--l2", "1"]
    assert run_command([*arguments, "--max-iter", "3", "-j", "1"]) == 0
    assert capsys.readouterr().err.count("  features: ") == 1


def test_best_without_constraints_if_labels_break_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_calendar()
    with Path("train.conll").open("a") as file:
        file.write("\nthe\tO\nRome\tI-place\n")
    arguments = ["train", "train.conll", "--best", "--l2", "1", "--features", "auto"]
    assert run_command([*arguments, "--max-iter", "3", "-j", "1"]) == 0
    assert "constraints IOB1 are not used: 'B-event' must not follow" in capsys.readouterr().err
    assert trellis.load("model.trellis").constraints is None


def test_best_without_a_development_set_trains_no_network(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_calendar()
    options = ["--vectors", "vectors.txt", "--l2", "1", "--features", "auto", "--max-iter", "3"]
    assert run_command(["train", "train.conll", "--best", *options, "-j", "1"]) == 0
    printed = capsys.readouterr().err
    assert "no network is trained, without --dev" in printed
    assert "  features: auto + clusters" in printed


def test_best_with_vectors_trains_a_network(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_calendar()
    options = ["--vectors", "vectors.txt", "--l2", "1", "--max-iter", "2", "--features", "auto"]
    network = ["--epochs", "1", "--hidden", "4", "--device", "cpu"]
    arguments = ["train", "train.conll", "--dev", "dev.conll", "--best", *options, *network]
    assert run_command([*arguments, "-j", "1"]) == 0
    printed = capsys.readouterr().err
    line = next(line for line in printed.splitlines() if line.startswith("dev: linear "))
    scores = [float(text.strip(",:")) for text in line.split() if text[0].isdigit()]
    kept = "hybrid" if scores[1] > scores[0] else "linear"
    assert line.endswith(f": {kept} is kept")
    kind = type(trellis.load("model.trellis")).__name__
    assert kind == {"hybrid": "NeuralTagger", "linear": "CRF"}[kept]
