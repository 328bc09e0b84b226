"""Targets: corpora, compressed files, templates, tag schemes, language models, word vectors."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import sys
import tempfile
import types
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mutations
import numpy as np
from arpa_models import GOOD
from foreign_files import PATTERNS, TEMPLATES
from fuzz_targets import Target, no_seed, same
from vector_files import some_file, some_rows, some_words

from trellis import NGramTrainer, Vectors
from trellis.app.cli.ctc.emissions import read_emissions, read_labels
from trellis.compat.pyctcdecode import Alphabet, BeamSearchDecoderCTC
from trellis.data import conll, conllu, corpus, crfsuite, files, jsonl, markup, tags
from trellis.features import Window, templates, wapiti
from trellis.features.extractor import TemplateFeatures
from trellis.features.spec import Spec
from trellis.formats import arpa, fasttext, word2vec
from trellis.formats.quantization import quantize
from trellis.models.ctc.labels import read_labels as label_set
from trellis.models.ctc.language_model import read_lexicon
from trellis.models.files import load

CONLL = b"Ann NNP B-PER\nsings VBZ O\n\n-DOCSTART- -X- O\n\nin IN O\nR\xc3\xb8me NNP B-LOC\n"
CONLLU = (
    b"# text = Ann sings\n1\tAnn\tAnn\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_\n"
    b"1-2\tAnn's\t_\t_\t_\t_\t_\t_\t_\t_\n2\tsings\tsing\tVERB\tVBZ\tPerson=3|Tense=Pres\t0\troot\t_\t_\n"
    b"2.1\tshe\tshe\tPRON\t_\t_\t_\t_\t_\t_\n\n"
)
JSONL = (
    b'{"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"], "id": 7}\n'
    b'{"text": "in R\xc3\xb8me", "spans": [[3, 7, "LOC"]]}\n'
    b'{"tokens": [["Ann", "NNP"]], "tags": ["O"]}\n'
)
MARKUP = b"call [Ann](person) in [New York](city)\n\\[no\\] text [a](b) [c](d)\n"
CRFSUITE = b"@weight 2\nB-PER\tw=Ann:0.5\tbias\nO\tw\\:x=a\\\\b:2\n\nO\tw=in\n"


# ---- corpora


def use_corpus(format: str, path: Path, rng: random.Random) -> None:
    X, y = corpus.read(path, format)
    corpus.write(io.StringIO(), X, y, format) if format != "conllu" else None


def use_columns(path: Path, rng: random.Random) -> None:
    conll.read(path, docstart=True, label_column=rng.choice([-1, 0, 1, 5, -9]))
    for sequence in corpus.iterate(path, "conll", width=2):
        assert len(sequence.tokens) == len(sequence.rows)


def use_conllu(path: Path, rng: random.Random) -> None:
    conllu.read(path, column=rng.choice(["form", "lemma", "upos", "xpos", "feats"]))


def use_jsonl(path: Path, rng: random.Random) -> None:
    jsonl.read(path, scheme=rng.choice(["BIO", "BILOU", "IO"]))


def use_markup(path: Path, rng: random.Random) -> None:
    X, y = markup.read(path, split=rng.random() < 0.5)
    out = io.StringIO()
    markup.write(out, X, y)


def use_crfsuite(path: Path, rng: random.Random) -> None:
    crfsuite.read(path)


def use_lines(path: Path, rng: random.Random) -> None:
    for _ in files.lines(path, errors=rng.choice(["strict", "replace"])):
        pass


def use_tags(path: Path, rng: random.Random) -> None:
    """Call the functions of tag schemes with tags of random parts."""
    pieces = ["O", "O", "B-PER", "B-PER", "I-PER", "I-PER", "B-é", "L-PER", "U-é"]
    if rng.random() < 0.5:
        pieces += ["B-", "I-", "E-PER", "S-", "", "-", "B", "PER"]
    labels: Any = ["".join(rng.choices(pieces, k=rng.choice((1, 1, 1, 1, 2)))) for _ in range(4)]
    if rng.random() < 0.1:
        labels[rng.randrange(4)] = rng.choice([None, 3, b"O", ["O"]])
    schemes = ["BIO", "IOB1", "BILOU", "IO", "BIOES", "IOE2", "nonsense", ""]
    scheme = rng.choice(schemes)
    calls: list[Any] = [
        lambda: tags.detect(labels, otherwise=rng.choice([None, "BIO"])),
        lambda: tags.spans(labels, scheme, strict=rng.random() < 0.5),
        lambda: tags.convert(labels, scheme, rng.choice(schemes)),
        lambda: tags.allowed_transitions(labels, scheme),
    ]
    rng.choice(calls)()


# ---- feature templates


def use_templates(parse: Any, path: Path, rng: random.Random) -> None:
    use_spec(parse(path))


def use_spec(spec: Spec) -> None:
    width = min(spec.columns, 50)
    features = TemplateFeatures(spec)
    features.learn([[("the",) * width, ("dog",) * width]])
    features.find([[("a",) * width]])


def use_spec_file(path: Path, rng: random.Random) -> None:
    use_spec(Spec.from_json(json.loads(path.read_bytes())))


def mutate_spec(data: bytes, rng: random.Random) -> bytes:
    value = mutations.mutate_json(json.loads(data), rng)
    return json.dumps(value).encode()


# ---- CTC


def use_arpa(path: Path, rng: random.Random) -> None:
    model = arpa.read(path)
    model.score("blue sky new")


def use_ngram_text(path: Path, rng: random.Random) -> None:
    trainer = NGramTrainer(
        rng.randint(1, 5),
        prune=rng.randint(0, 1),
        discount_fallback=True,
        characters=rng.random() < 0.5,
        skip_symbols=rng.random() < 0.5,
        memory="64K",
        n_jobs=2,
    )
    trainer.train(path).score("new york is")


def use_emissions(path: Path, rng: random.Random) -> None:
    read_emissions([path], 3)


def use_label_file(path: Path, rng: random.Random) -> None:
    label_set(read_labels(path), None, "auto")


def use_alphabet(path: Path, rng: random.Random) -> None:
    alphabet = Alphabet.loads(path.read_text(encoding="utf-8", errors="replace"))
    Alphabet.build_alphabet(alphabet.labels)


def use_lexicon(path: Path, rng: random.Random) -> None:
    read_lexicon(path, label_set(["", "a", "b", "|"], None, "auto"))


ATTRS = {
    "alpha": 0.5, "beta": 1.5, "unk_score_offset": -10.0, "score_boundary": True,
}  # fmt: skip


def use_decoder_folder(path: Path, rng: random.Random) -> None:
    """Load a folder of pyctcdecode whose attributes, words or alphabet are damaged."""
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name)
        parts = {
            "alphabet.json": json.dumps({"labels": ["", "a", " "], "is_bpe": False}).encode(),
            "language_model/attrs.json": json.dumps(ATTRS).encode(),
            "language_model/unigrams.txt": b"blue\nsky\n",
            "language_model/lm.arpa": GOOD.encode(),
        }
        (folder / "language_model").mkdir()
        damaged = rng.choice([*parts])
        for file, content in parts.items():
            change = mutations.mutate_json_text if file.endswith("json") else mutations.mutate_text
            (folder / file).write_bytes(change(content, rng) if file == damaged else content)
        decoder = BeamSearchDecoderCTC.load_from_dir(str(folder))
        width = len(decoder._alphabet.labels)
        if 0 < width < 50:
            decoder.decode(np.zeros((4, width), np.float32))


def npy_seeds() -> list[bytes]:
    seeds = []
    for array in (np.zeros((4, 3), np.float32), np.ones((2, 4, 3)), np.zeros((2, 3), ">f4")):
        file = io.BytesIO()
        np.save(file, array)
        seeds.append(file.getvalue())
    return seeds


def npz_seeds() -> list[bytes]:
    seeds = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, a=np.zeros((2, 4, 3)), lengths=np.array([4, 2]))
        seeds.append(file.getvalue())
    return seeds


def safetensors_seeds() -> list[bytes]:
    header = {
        "a": {"dtype": "F32", "shape": [2, 4, 3], "data_offsets": [0, 96]},
        "lengths": {"dtype": "I64", "shape": [2], "data_offsets": [96, 112]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text + bytes(96) + struct.pack("<2q", 4, 2)]


# ---- word vectors


def use_vectors(path: Path, rng: random.Random) -> None:
    vectors = Vectors.load(path, errors=rng.choice(["strict", "replace"]))
    if len(vectors):
        vectors.nearest(vectors.words[0], k=2)


def use_fasttext(path: Path, rng: random.Random) -> None:
    model = load(path)
    if hasattr(model, "vectors_"):
        model.vectors_["catdog"]
    else:
        model.predict(["w0 é1 unseen"], k=2)


def fasttext_seeds() -> list[bytes]:
    plain, supervised = some_file(bucket=20), some_file("supervised", bucket=20)
    large = some_file("supervised", words=256, bucket=10)  # a quantizer needs 256 rows
    packed = replace(large, input=quantize(large.input, norms=True, random_state=0))
    pruned = replace(
        large,
        prune=np.array([[7, 1], [4, 0]], np.int32),
        input=quantize(some_rows(258, 6), random_state=0),
    )
    return [file_bytes(fasttext.write, file) for file in (plain, supervised, packed, pruned)]


def vector_seeds(binary: bool) -> list[bytes]:
    write = word2vec.write_binary if binary else word2vec.write_text
    return [file_bytes(write, some_words(6), some_rows(6, 4))]


def file_bytes(write: Any, *contents: Any) -> bytes:
    """Return the bytes that a writer writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path, *contents)
        return path.read_bytes()


def gensim_seeds() -> list[bytes]:
    """Return pickles of an object with the class name and the attributes of gensim's vectors."""
    name = "gensim.models.keyedvectors"
    before = {key: sys.modules.get(key) for key in ("gensim", "gensim.models", name)}
    module = types.ModuleType(name)
    cls = type("KeyedVectors", (), {"__module__": name})
    module.KeyedVectors = cls  # type: ignore[attr-defined]
    sys.modules.update({key: module if key == name else types.ModuleType(key) for key in before})
    vectors = cls()
    vectors.__dict__.update(index_to_key=some_words(5), vectors=some_rows(5, 3), vector_size=3)
    seeds = [pickle.dumps(vectors, protocol) for protocol in (2, 4, 5)]
    for key, old in before.items():
        if old is None:
            del sys.modules[key]
        else:
            sys.modules[key] = old
    return seeds


def targets() -> list[Target]:
    """Return all targets of this file."""
    text, lines, raw = (
        mutations.mutate_text,
        mutations.mutate_json_lines,
        mutations.mutate_bytes,
    )
    spec = Window(gazetteers={"city": ["Rome"]}, columns=("pos",)).spec()
    labels = b'{"": 0, "a": 1, "|": 2}'
    return [
        Target("conll", lambda: [CONLL], text, use_columns, cases=150),
        Target("conllu", lambda: [CONLLU], text, use_conllu, cases=150),
        Target("jsonl", lambda: [JSONL], lines, use_jsonl, cases=150),
        Target("markup", lambda: [MARKUP], text, use_markup, cases=150),
        Target("corpus", lambda: [CONLL, MARKUP], text, partial(use_corpus, "conll"), cases=50),
        Target("crfsuite data", lambda: [CRFSUITE], text, use_crfsuite, cases=150),
        Target("compressed", lambda: [CONLL, CONLLU], mutations.mutate_compressed, use_lines,
               cases=100),
        Target("tag schemes", no_seed, same, use_tags, cases=150),
        Target("CRF++ templates", lambda: [TEMPLATES.encode()], text,
               partial(use_templates, templates.parse), cases=100),
        Target("Wapiti patterns", lambda: ["\n".join(PATTERNS).encode()], text,
               partial(use_templates, wapiti.parse), cases=100),
        Target("feature specs", lambda: [json.dumps(spec.to_json()).encode()], mutate_spec,
               use_spec_file, cases=60),
        Target("ARPA", lambda: [GOOD.encode()], text, use_arpa, cases=150),
        Target("n-gram text", lambda: [b"new york is\n\nold <s> york \xc3\xa9\n"], text,
               use_ngram_text, cases=100),
        Target("npy", npy_seeds, raw, use_emissions, ".npy", cases=100),
        Target("npz", npz_seeds, raw, use_emissions, ".npz", cases=60),
        Target("safetensors", safetensors_seeds, mutations.mutate_safetensors, use_emissions,
               ".safetensors", cases=100),
        Target("CTC labels", lambda: [labels], mutations.mutate_json_text, use_label_file, ".json",
               cases=100),
        Target("lexicon", lambda: [b"ab\ta b\nba\n"], text, use_lexicon, cases=100),
        Target("alphabet", lambda: [b'{"labels": ["", "a", " "], "is_bpe": false}'],
               mutations.mutate_json_text, use_alphabet, cases=100),
        Target("pyctcdecode folder", no_seed, same, use_decoder_folder, cases=15),
        Target("fastText", fasttext_seeds, raw, use_fasttext, ".bin", cases=60),
        Target("word2vec text", partial(vector_seeds, False), text, use_vectors, ".vec", cases=100),
        Target("word2vec binary", partial(vector_seeds, True), raw, use_vectors, ".bin", cases=100),
        Target("gensim", gensim_seeds, raw, use_vectors, ".kv", cases=80),
    ]  # fmt: skip
