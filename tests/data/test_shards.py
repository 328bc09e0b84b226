"""Shards of a corpus: together they are the file, whatever the size, format and compression."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale import examples

from trellis.data import Corpus, conll, conllu, corpus, jsonl, markup
from trellis.data.shards.borders import BLANK_LINE, LINE, find_borders
from trellis.errors import FormatError, InputError

ROWS = [
    "Ann NNP B-PER",
    "sings VBZ O",
    "",
    "-DOCSTART- -X- O",
    "",
    "Hush UH O",
    "",
    "",
    "New NNP B",
]
ROWS += ["York NNP I", "  ", "a\tDT\tO", "b  NN  O", ""] * 3
UNIVERSAL = "# text = a b\n1\ta\ta\tDET\t_\t_\t0\t_\t_\t_\n2\tb\tb\tNOUN\t_\t_\t1\t_\t_\t_\n\n" * 4
OBJECTS = '{"tokens": ["Ann", "sings"], "tags": ["B", "O"]}\n{"text": "Rome!", "spans": []}\n' * 3
MARKED = "call [Ann](person)\n\nhush\n" * 3
COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
CORPORA: dict[str, tuple[str, Any]] = {
    "a.conll": ("\n".join(ROWS) + "\n", conll.read),
    "crlf.conll": ("\r\n".join(ROWS), conll.read),
    "tab.conll": ("# newdoc\nNew York\tB\n\n# x\nsings\tO\nb\tO\n\n" * 3, conll.read),
    "a.conllu": (UNIVERSAL, conllu.read),
    "a.jsonl": (OBJECTS, jsonl.read),
    "a.md": (MARKED, markup.read),
}


def write(folder: Path, name: str, text: str, suffix: str = "") -> Path:
    path = folder / (name + suffix)
    path.write_bytes(COMPRESS[suffix](text.encode()))
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", CORPORA)
def test_shards_together_are_the_file(tmp_path: Path, name: str, suffix: str) -> None:
    text, read = CORPORA[name]
    path = write(tmp_path, name, text, suffix)
    X, y = read(path)
    for size in (1, 7, 20, 50, 10_000):
        shards = Corpus.text(path, shard=size)
        assert shards.load() == (X, y)
        assert list(shards) == list(zip(X, y, strict=True)) == list(shards)  # restartable
        ends = [(shard.begin, shard.end) for shard in shards.shards]
        assert ends[0][0] == 0
        assert ends[-1][1] == len(text.encode())
        assert all(first[1] == second[0] for first, second in pairwise(ends))
        assert all(end - begin >= min(size, 8) - 8 for begin, end in ends)
    assert len(Corpus.text(path, shard=1).shards) > 2


@pytest.mark.parametrize("name", CORPORA)
def test_borders_do_not_depend_on_compression(tmp_path: Path, name: str) -> None:
    text = CORPORA[name][0]
    corpora = [Corpus.text(write(tmp_path, name, text, s), shard=20) for s in COMPRESS]
    places = [[(shard.begin, shard.end) for shard in c.shards] for c in corpora]
    assert all(place == places[0] for place in places)
    assert len({c.fingerprint() for c in corpora}) == 1


@given(
    text=st.text(alphabet="a \t\r\n", max_size=60).map(str.encode),
    size=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    by_line=st.booleans(),
)
@pytest.mark.parametrize("n", [examples(200)])
def test_borders_do_not_depend_on_blocks(
    text: bytes, size: int, cuts: list[int], by_line: bool, n: int
) -> None:
    pattern = LINE if by_line else BLANK_LINE
    ends = [*sorted(cuts), len(text)]
    blocks = [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    borders = list(find_borders(blocks, size, pattern))
    assert borders == list(find_borders([text], size, pattern))
    # a plain definition: the first match that ends at or after each multiple of size
    expected: list[int] = []
    target = size
    while match := pattern.search(text, target - 1):
        expected.append(match.end())
        target = (match.end() // size + 1) * size
    assert borders == expected


def test_fingerprint_depends_on_the_contents(tmp_path: Path) -> None:
    text = "a O\nb O\n\n" * 5
    first = Corpus.text(write(tmp_path, "a.conll", text), shard=20)
    other = Corpus.text(write(tmp_path, "b.conll", text.replace("b", "c", 1)), shard=20)
    assert first.fingerprint() != other.fingerprint()
    assert first.fingerprint() != Corpus.text(tmp_path / "a.conll", shard=30).fingerprint()
    assert pickle.loads(pickle.dumps(first)).fingerprint() == first.fingerprint()


def test_columns_of_the_first_row_hold_for_later_shards(tmp_path: Path) -> None:
    # A shard that starts with a tab would be read as tab-separated without the first row.
    path = write(tmp_path, "a.conll", "a b O\n\nc\td\tO\ne f O\n\n" * 4)
    assert Corpus.text(path, shard=1).load() == conll.read(path)


MARK = "\ufeff"
EDGES: dict[str, tuple[str, Any]] = {
    "mark.conll": (f"{MARK}é O\n\n" * 3 + "𝄞 O\n", conll.read),
    "mark.conllu": (MARK + UNIVERSAL.replace("\ta\t", "\té\t"), conllu.read),
    "mark.jsonl": (MARK + OBJECTS.replace("Ann", "𝄞"), jsonl.read),
    "mark.md": (f"{MARK}é [𝄞](person)\r\n\r\n" * 3 + MARK, markup.read),
    "blank.conll": ("\r\n \n\t\n\n" * 5, conll.read),
    "long.conll": ("wörter O\n" * 40 + "\na O", conll.read),
    "first.conll": ("\n\n\n" * 9 + "a b O\n\nc\td\tO\n\n" * 2, conll.read),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", EDGES)
def test_marks_blank_lines_and_long_sequences(tmp_path: Path, name: str, suffix: str) -> None:
    text, read = EDGES[name]
    data = text.encode()
    path = tmp_path / (name + suffix)
    cut = len(data) // 2  # two streams, cut perhaps inside a character
    path.write_bytes(COMPRESS[suffix](data[:cut]) + COMPRESS[suffix](data[cut:]))
    expected = read(path)
    for size in (1, 3, 10, 64, 1000):
        assert Corpus.text(path, shard=size).load() == expected


@pytest.mark.parametrize("encoding", ["cp1252", "shift_jis", "gb18030", "iso2022_jp"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    word = "naïve" if encoding == "cp1252" else "日本"
    path = tmp_path / "a.conll"
    path.write_bytes(f"{word} O\n\nb {word}\n\n".encode(encoding) * 9)
    expected = conll.read(path, encoding=encoding)
    for size in (1, 9, 30):
        shards = Corpus.text(path, shard=size, columns=corpus.Columns(encoding=encoding))
        assert shards.load() == expected
    texts = tmp_path / "a.txt"
    texts.write_bytes(f"{word} b\n".encode(encoding) * 9)
    whole, parts = (
        Corpus.text(texts, n, columns=corpus.Columns(encoding=encoding), labelled=False)
        for n in (1000, 1)
    )
    assert (len(parts.shards), parts.load()) == (9, whole.load())


def test_an_empty_file_among_others(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"{n}.conll", text) for n, text in enumerate(["", "a O\n", "\n", ""])]
    assert Corpus.text(paths).load() == ([["a"]], [["O"]])


def test_lines_of_sequences_and_errors(tmp_path: Path) -> None:
    rows = [f"w{n} B\nv O\n" for n in range(40)]
    text = "\n".join(rows)
    path = write(tmp_path, "a.conll", text)
    lines = text.split("\n")
    for shard in Corpus.text(path, shard=60).shards:
        for n, tokens in enumerate(shard.read()[0]):
            line = shard.line_of(n)
            assert line is not None
            assert lines[line - 1].split()[0] == tokens[0]
    rows[30] = "w30 B\nbroken\n"
    path.write_text("\n".join(rows))
    wrong = "\n".join(rows).split("\n").index("broken") + 1
    shards = Corpus.text(path, shard=60).shards
    failures = []
    for shard in shards:
        try:
            shard.read()
        except FormatError as error:
            failures.append(str(error))
    assert len(failures) == 1
    assert failures[0].startswith(f"{path}, line {wrong}: the row has 1 columns")


def test_a_name_with_brackets_is_not_a_pattern(tmp_path: Path) -> None:
    path = write(tmp_path, "a[1].conll", "a O\n")
    assert Corpus.text(path).load()[0] == [["a"]]


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.conll", "a O\n")
    monkeypatch.chdir(tmp_path)
    shards = Corpus.text("a.conll")
    monkeypatch.chdir("/")  # a worker may have another current folder
    assert shards.load() == ([["a"]], [["O"]])


def test_unlabelled(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "Call Ann!\nHush.\n" * 3)
    shards = Corpus.text(path, shard=5, labelled=False)
    assert not shards.labelled
    X, y = shards.load()
    assert y is None
    assert X[:2] == [["Call", "Ann", "!"], ["Hush", "."]]
    path = write(tmp_path, "b.conll", "\n".join(ROWS))
    for shard_size in (1, 30, 1000):
        parts = Corpus.text(path, shard=shard_size, labelled=False).shards
        tagged = [s for part in parts for s in part.sequences(2)]
        assert tagged == list(corpus.iterate(path, "conll", 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shard": 0}, "shard is 0"),
        ({"shard": "64XB"}, "64XB"),
        ({"shard": "MB"}, "such as 64MB"),
        ({"format": "text"}, "has no labels"),
        ({"format": "conll", "columns": corpus.Columns(encoding="utf-16")}, "convert it to UTF-8"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    path = write(tmp_path, "a.conll", "a O\n")
    with pytest.raises(InputError, match=message):
        Corpus.text(path, **arguments)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file has a name"):
        Corpus.text(str(tmp_path / "*.conll"))
    with pytest.raises(FormatError, match=r"b\.conll: cannot be read: No such file"):
        Corpus.text([write(tmp_path, "a.conll", "a O\n"), tmp_path / "b.conll"])
    with pytest.raises(InputError, match="list of files of the corpus is empty"):
        Corpus.text([])
    with pytest.raises(InputError, match="has no shard"):
        Corpus.text(write(tmp_path, "empty.conll", ""))
    shards = Corpus.text(tmp_path / "a.conll")
    write(tmp_path, "a.conll", "b O\nc O\n")
    with pytest.raises(FormatError, match="has changed since"):
        shards.load()
    (tmp_path / "a.conll").unlink()
    with pytest.raises(FormatError, match=r"a\.conll: cannot be read"):
        shards.load()
    damaged = write(tmp_path, "d.conll", "a O\n\n" * 1000, ".gz")
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"d\.conll\.gz: cannot be decompressed"):
        Corpus.text(damaged, shard=100)
    for value in (3, [3], None):
        with pytest.raises(InputError, match="a corpus needs a path, a pattern, or a list"):
            Corpus.text(value)


# ---- tables


class Rows:
    """A dataset with slices, as the library `datasets` has."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows[part]] for name in self.rows[0]}


DATA = [{"tokens": [f"w{n}", "b"], "tags": ["B", "O"]} for n in range(7)]
EXPECTED = [row["tokens"] for row in DATA], [row["tags"] for row in DATA]


def test_dataset() -> None:
    shards = Corpus.dataset(Rows(DATA), shard=3)
    assert len(shards.shards) == 3
    assert shards.load() == EXPECTED
    changed = [*DATA[:6], {"tokens": ["x", "y"], "tags": ["B", "O"]}]
    identities = [Corpus.dataset(Rows(d), shard=7).shards[0].identity() for d in (DATA, changed)]
    assert identities[0] != identities[1]
    arrays = [np.zeros((2000, 2)), np.zeros((2000, 2))]
    arrays[1][1000, 1] = 1  # the text of an array would leave it out
    rows = [Rows([{"tokens": array, "tags": ["O"] * 2000}]) for array in arrays]
    assert len({Corpus.dataset(data).fingerprint() for data in rows}) == 2
    with pytest.raises(FormatError, match="row 4: the row has 2 tokens but 1 labels"):
        Corpus.dataset(Rows([*DATA[:4], {"tokens": ["x", "y"], "tags": ["B"]}]), shard=3).load()
    with pytest.raises(FormatError, match="no column 'labels': it has tokens, tags"):
        Corpus.dataset(Rows(DATA), labels="labels").load()
    with pytest.raises(InputError, match="must have a length"):
        Corpus.dataset(iter(DATA))


def test_library_datasets_has_names_of_classes() -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.Sequence(datasets.ClassLabel(names=["O", "B"]))
    features = datasets.Features(
        {"tokens": datasets.Sequence(datasets.Value("string")), "t": names}
    )
    rows = {"tokens": [["Ann", "sings"], ["b"]], "t": [[1, 0], [0]]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    shards = Corpus.dataset(dataset, shard=1, labels="t")
    assert shards.load() == ([["Ann", "sings"], ["b"]], [["B", "O"], ["O"]])


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_pylist(DATA), path, row_group_size=3)
    shards = Corpus.parquet(path)
    assert len(shards.shards) == 3
    assert shards.load() == EXPECTED
    assert Corpus.parquet(path, labels=None).load() == (EXPECTED[0], None)
    with pytest.raises(FormatError, match="no column 'words': it has tokens, tags"):
        Corpus.parquet(path, tokens="words")
    parquet.write_table(pa.Table.from_pylist(DATA[:4]), path, row_group_size=3)
    with pytest.raises(FormatError, match=r"a\.parquet: the file has changed since"):
        shards.load()
    path.write_bytes(b"not parquet")
    with pytest.raises(FormatError, match=r"a\.parquet: cannot be read"):
        Corpus.parquet(path)


def test_bag() -> None:
    bag = pytest.importorskip("dask.bag")
    shards = Corpus.bag(bag.from_sequence(DATA, npartitions=3))
    assert len(shards.shards) == 3
    assert shards.load() == EXPECTED
    pairs = [(row["tokens"], row["tags"]) for row in DATA]
    assert Corpus.bag(bag.from_sequence(pairs, npartitions=2)).load() == EXPECTED
    with pytest.raises(FormatError, match="must be a dict or a pair"):
        Corpus.bag(bag.from_sequence([1], npartitions=1)).load()
    with pytest.raises(InputError, match=r"must be a dask\.bag\.Bag"):
        Corpus.bag(DATA)


def test_a_corpus_is_not_mixed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps(DATA[0]) + "\n")
    parts = Corpus.jsonl(path).shards, Corpus.jsonl(path, labelled=False).shards
    with pytest.raises(InputError, match="some shards of the corpus have labels"):
        Corpus([*parts[0], *parts[1]])
