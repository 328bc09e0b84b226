"""Mistakes of users who do not know the library, and the messages that they see.

`COMMANDS` and `CODE` are tables of mistakes. `render` runs them and returns the page
docs/notes/bad_inputs.md; test_bad_inputs.py compares it with the file. To write the file:

    PYTHONPATH=src:tests/app python tests/newcomer/bad_inputs.py
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import pickle
import shlex
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trellis.app.cli.main import run_command

PAGE = Path(__file__).parents[2] / "docs/notes/bad_inputs.md"
HEAD = """# Notes: bad inputs

Mistakes of users who have read the README, the tutorial and the help texts, but not the source,
and what they see. Each message says what is wrong, where, and what to do.
`tests/newcomer/bad_inputs.py` has the table of mistakes and writes this page; a test compares them.

`[1]` is the exit code. A command with `[0]` does what was asked, and prints a warning. Lines that
begin with `Usage:` or `Try` are left out.
"""
WIDE = "Ann\tNNP\tB-PER\nleft\tVBD\tO\n\n"
RECIPES = """\
[2](quantity) [cups](unit) [flour](food)
[a pinch](quantity) of [salt](food)
[3](quantity) [eggs](food), [beaten](state)
"""
NAMES = "Ann\tB-PER\nlives\tO\nin\tO\nRome\tB-LOC\n\nBob\tB-PER\nleft\tO\n\n"
OBJECT = '{"tokens": ["Ann", "left"], "tags": ["B-PER", "O"]}'


class Mistake(NamedTuple):
    """A command or code, and the files that it needs besides those of `make_folder`."""

    title: str
    text: str
    files: dict[str, str | bytes] = {}  # noqa: RUF012
    needs: str = ""
    """A module without which the message is another one."""
    alone: bool = False
    """Whether the code needs a process of its own."""


COMMANDS = [
    Mistake("A name of a command", "tran train.txt"),
    Mistake("A name of a file", "train trian.txt"),
    Mistake("CSV", "train a.csv", {"a.csv": "word,label\nAnn,B-PER\nleft,O\n"}),
    Mistake("A JSON array", "train a.json", {"a.json": f"[{OBJECT}]"}),
    Mistake("A spreadsheet", "train a.xlsx", {"a.xlsx": b"PK\3\4\x14\0\6\0\x08\0\0\0!\0"}),
    Mistake("An empty file", "train a.conll", {"a.conll": ""}),
    Mistake("Text without labels", "train raw.txt"),
    Mistake(
        "A row without a label", "train a.conll", {"a.conll": "Ann\tB-PER\nleft\nRome\tB-LOC\n"}
    ),
    Mistake(
        "A row with a space instead of a tab", "train a.conll", {"a.conll": "Ann\tB-PER\nleft O\n"}
    ),
    Mistake(
        "A token that contains a space", "train a.conll", {"a.conll": "Ann B-PER\nNew York B-LOC\n"}
    ),
    Mistake("No empty lines", "train a.conll", {"a.conll": "Ann\tB-PER\nleft\tO\nBob\tB-PER\n"}),
    Mistake("Only one label", "train a.conll", {"a.conll": "Ann\tO\nleft\tO\n\nBob\tO\n\n"}),
    Mistake("A bracket that is not closed", "train a.txt", {"a.txt": f"{RECIPES}[1 egg(food)\n"}),
    Mistake(
        "A space before the label",
        "train a.txt",
        {"a.txt": f"{RECIPES}[1] (quantity) [egg](food)\n"},
    ),
    Mistake(
        "Other keys in JSON",
        "train a.jsonl",
        {"a.jsonl": '{"words": ["Ann"], "labels": ["B-PER"]}\n'},
    ),
    Mistake(
        "Another name for the spans",
        "train a.jsonl",
        {"a.jsonl": '{"text": "Ann left", "entities": [[0, 3, "PER"]]}\n'},
    ),
    Mistake(
        "A span that ends after the end of the text",
        "train a.jsonl",
        {"a.jsonl": '{"text": "Ann left", "spans": [[0, 30, "PER"]]}\n'},
    ),
    Mistake(
        "Fewer tags than tokens",
        "train a.jsonl",
        {"a.jsonl": f'{OBJECT}\n{{"tokens": ["Bob", "left"], "tags": ["B-PER"]}}\n'},
    ),
    Mistake(
        "Another encoding", "tag recipes.trellis a.txt", {"a.txt": "1 café\n".encode("cp1252")}
    ),
    Mistake(
        "A span that begins with I-",
        "train a.conll --constraints BIO",
        {"a.conll": f"{NAMES}Eve\tI-PER\nsang\tO\n\n"},
    ),
    Mistake(
        "A comma after the last key",
        "train a.jsonl",
        {"a.jsonl": f'{OBJECT}\n{{"tokens": ["Bob"], "tags": ["B-PER"],}}\n'},
    ),
    Mistake(
        "Tokens as one text",
        "train a.jsonl",
        {"a.jsonl": '{"tokens": "Ann left", "tags": ["B-PER", "O"]}\n'},
    ),
    Mistake(
        "A span that ends inside a word",
        "train a.jsonl",
        {"a.jsonl": '{"text": "Ann left", "spans": [[0, 2, "PER"]]}\n'},
    ),
    Mistake(
        "Development data with more columns", "train names.conll --dev a.conll", {"a.conll": WIDE}
    ),
    Mistake(
        "Test data with more columns than the training data",
        "eval names.trellis a.conll",
        {"a.conll": WIDE},
    ),
    Mistake("Labels of another scheme", "train names.conll --constraints BIOES"),
    Mistake("A column that does not exist", "train names.conll --label 2"),
    Mistake("A name of a column", "train names.conll --label label"),
    Mistake("A negative number", "train names.conll --l2 -1"),
    Mistake("A word instead of a number", "train names.conll --max-iter many"),
    Mistake("An underscore in an option", "train names.conll --max_iter 5"),
    Mistake("A model that does not exist", "train names.conll --model lstm"),
    Mistake("An option of another model", "train names.conll --model hmm --l2 3"),
    Mistake("An option of the neural model", "train names.conll --hidden 20"),
    Mistake("A set of features that does not exist", "train names.conll --features nre"),
    Mistake("A scheme in lower case", "train names.conll --constraints bio"),
    Mistake("--patience without --dev", "train names.conll --patience 3"),
    Mistake("--tune with two sequences", "train names.conll --tune 8"),
    Mistake("A gazetteer without a name", "train names.conll --gazetteer raw.txt"),
    Mistake(
        "A template for data with more columns",
        "train names.conll --template a.template",
        {"a.template": "U00:%x[0,0]\nU01:%x[0,1]\n"},
    ),
    Mistake(
        "A typing error in a template",
        "train names.conll --template a.template",
        {"a.template": "U00:%x[0,0]\nU01:%y[0,1]\n"},
    ),
    Mistake(
        "Templates and a set of features",
        "train names.conll --template a.template --features ner",
        {"a.template": "U00:%x[0,0]\n"},
    ),
    Mistake("A weight that the data do not have", "train names.conll --weight weigth"),
    Mistake(
        "A device of another library", "train names.conll -m neural --device gpu", needs="torch"
    ),
    Mistake("A folder that does not exist", "train names.conll -o models/a.trellis"),
    Mistake("The training data as the output", "train names.conll -o names.conll"),
    Mistake("The model as the output", "tag recipes.trellis raw.txt -o recipes.trellis"),
    Mistake("Model and data exchanged", "tag raw.txt recipes.trellis"),
    Mistake(
        "A pickle as a model", "tag a.pkl raw.txt", {"a.pkl": pickle.dumps({"weights": [1.0]})}
    ),
    Mistake("Labelled text as raw text", "tag names.trellis test.txt"),
    Mistake("--by without --uncertain", "tag names.trellis raw.txt --by margin"),
    Mistake("Data of another task", "compare names.trellis recipes.trellis names.conll"),
    Mistake("A label that does not exist", "inspect recipes.trellis --label B-foood"),
    Mistake("A format that cannot be written", "convert names.conll names.xml"),
    Mistake("A format that can only be read", "convert names.conll names.conllu"),
    Mistake("A check that does not exist", "check names.conll --skip overlaps"),
    Mistake("A text that is too short for word vectors", "embed raw.txt"),
    Mistake("Texts without labels", "embed raw.txt --supervised"),
    Mistake("Text instead of word vectors", "neighbors names.conll Ann"),
    Mistake(
        "A row with too few numbers",
        "neighbors a.vec salt",
        {"a.vec": "salt 0.1 0.2\npepper 0.3\n"},
    ),
    Mistake("A tagger instead of word vectors", "neighbors recipes.trellis salt"),
    Mistake("A tagger instead of a classifier", "classify recipes.trellis raw.txt"),
    Mistake("No dimensions", "embed raw.txt --dim 0"),
    Mistake("A file instead of a folder", "demo -o names.conll"),
    Mistake("Probabilities instead of their logarithms", "ctc decode p.npy -l letters.txt"),
    Mistake("Labels without a blank", "ctc decode p.npy -l a.txt", {"a.txt": "a\nb\nc\n"}),
    Mistake(
        "Labels with wrong indices",
        "ctc decode p.npy -l a.json",
        {"a.json": '{"a": 1, "b": 2, "_": 5}'},
    ),
    Mistake("A blank that no label has", "ctc decode p.npy -l letters.txt --blank 7"),
    Mistake("Alignment without a text", "ctc align p.npy -l letters.txt"),
    Mistake("Text as a language model", "ctc decode p.npy -l letters.txt --lm raw.txt"),
]

SETUP = """\
import numpy as np
import trellis
from trellis import CRF, CTCDecoder, LogisticRegression, metrics
from trellis.data import conll
from trellis.inference import chain, ctc

X = [["Ann", "lives", "in", "Rome"], ["Bob", "left"]]
y = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "O"]]
crf = CRF().fit(X, y)
unary, stay = np.log([[0.9, 0.1], [0.4, 0.6]]), np.log([[0.8, 0.2], [0.2, 0.8]])
p = np.full((4, 3), 1 / 3)
"""
CODE = [
    Mistake("Labels of one sequence are missing", "CRF().fit(X, y[:1])"),
    Mistake("Labels of one token are missing", "CRF().fit(X, [y[0], y[1][:1]])"),
    Mistake("One sequence instead of a list", "CRF().fit(X[0], y[0])"),
    Mistake("Texts instead of token lists", 'CRF().fit(["Ann lives in Rome", "Bob left"], y)'),
    Mistake("A text of labels", 'CRF().fit(X, "B-PER O O B-LOC")'),
    Mistake("Prediction before fit", "CRF().predict(X)"),
    Mistake("A token that is None", 'CRF().fit([["Ann", None, "in", "Rome"], X[1]], y)'),
    Mistake("A parameter of another library", "CRF(c2=0.1)"),
    Mistake("A typing error in a parameter", 'CRF(constraint="BIO")'),
    Mistake("A name of a feature set", 'CRF(features="words").fit(X, y)'),
    Mistake("A word instead of a number", 'CRF(l2="high").fit(X, y)'),
    Mistake("A solver of another library", 'CRF(solver="adam").fit(X, y)'),
    Mistake("Labels as constraints", 'CRF(constraints=["B-PER", "O"]).fit(X, y)'),
    Mistake("Text as weights", 'CRF().fit(X, y, sample_weight="balanced")'),
    Mistake("Early stopping without a development set", "CRF(early_stopping=3).fit(X, y)"),
    Mistake(
        "A field that does not exist",
        'from trellis.features import named\n\nCRF(features=named(["word[0]"])).fit(X, y)',
    ),
    Mistake(
        "A function that returns features of one token",
        'CRF(features=lambda x: [["a"]]).fit(X, y)',
    ),
    Mistake("A development set without labels", "CRF().fit(X, y, dev=X)"),
    Mistake("NaN in features", 'CRF().fit([[{"length": np.nan}]], [["O"]])'),
    Mistake("None in features", 'CRF().fit([[{"word": None}]], [["O"]])'),
    Mistake("Features, but the model was trained on words", 'crf.predict([[{"word": "Bob"}]])'),
    Mistake("Arrays of different widths", "CRF().fit([np.ones((4, 2)), np.ones((2, 3))], y)"),
    Mistake("All sequences instead of one", "crf.explain(X)"),
    Mistake(
        "A label that the model does not know",
        'crf.predict(X, known=[["B-DATE", None, None, None], [None, None]])',
    ),
    Mistake("Labels that are not tags", 'metrics.span_f1([["NN"]], [["VB"]])'),
    Mistake("Another number of sequences", "metrics.span_f1(y, crf.predict(X[:1]))"),
    Mistake("A data file as a model", 'trellis.load("names.conll")'),
    Mistake("A text instead of a path", 'conll.read("Ann B-PER\\nleft O")'),
    Mistake("One sequence written to a file", 'conll.write("new.conll", X[0], y[0])'),
    Mistake("Words for a regression", "LogisticRegression().fit(X, y)"),
    Mistake(
        "Three classes for a logistic regression",
        "LogisticRegression().fit([[1.0], [2.0], [3.0]], [0, 1, 2])",
    ),
    Mistake(
        "A label image of another size",
        "trellis.GridCRF().fit([np.zeros((4, 4, 2))], [np.zeros((3, 4), int)])",
    ),
    Mistake("A parameter of hmmlearn", "trellis.HMM(n_components=3)"),
    Mistake("A class in lower case", "trellis.crf"),
    Mistake("Texts for word vectors", 'trellis.Word2Vec().fit(["the cat sat", "a dog"])'),
    Mistake("A vector instead of a matrix", "chain.viterbi(unary, stay[0])"),
    Mistake("Scores of three labels and of two", "chain.viterbi(unary, np.zeros((3, 3)))"),
    Mistake("A mask as scores", "chain.viterbi(unary > -2, stay)"),
    Mistake("Rows of different lengths", "chain.viterbi([[1, 2], [3]], stay)"),
    Mistake("NaN as a score", "chain.viterbi(np.where(unary < -2, np.nan, unary), stay)"),
    Mistake("k without its name", "chain.kbest(unary, stay, 2)"),
    Mistake("Labels without their name", "chain.score(unary, stay, [0, 1])"),
    Mistake("Scores that forbid every path", "chain.viterbi(np.full((3, 2), -np.inf), stay)"),
    Mistake("Probabilities given to a CTC function", "ctc.loss(p, [1, 2])"),
    Mistake("The blank in a target", "ctc.loss(np.log(p), [1, 0])"),
    Mistake("A target that no label has", "ctc.loss(np.log(p), [3])"),
    Mistake("Letters as a target", 'ctc.loss(np.log(p), "ab")'),
    Mistake("Probabilities given to the decoder", 'CTCDecoder(["", "a", "b"]).decode(p)'),
    Mistake(
        "Another name for the language model", 'CTCDecoder(["", "a"], language_model="3.arpa")'
    ),
    Mistake(
        "A mask of floats",
        "import torch\nfrom trellis.nn import CRF\n\n"
        "CRF(3, batch_first=True).decode(torch.zeros(2, 4, 3), torch.ones(2, 4))",
        needs="torch",
    ),
    Mistake(
        "Lengths as a mask",
        "import torch\nfrom trellis.nn import CRF\n\n"
        "CRF(3, batch_first=True).decode(torch.zeros(2, 4, 3), torch.tensor([4, 2]))",
        needs="torch",
    ),
    Mistake(
        "The extra torch is not installed",
        'import sys\n\nsys.modules["torch"] = None\nfrom trellis import NeuralTagger',
        alone=True,
    ),
]


def make_folder(folder: Path) -> None:
    """Write the files that all mistakes share."""
    (folder / "train.txt").write_text(RECIPES * 3)
    (folder / "test.txt").write_text(RECIPES)
    (folder / "names.conll").write_text(NAMES)
    (folder / "raw.txt").write_text("Ann lives in Rome\nBob left\n")
    (folder / "letters.txt").write_text("a\nb\n<blank>\n")
    np.save(folder / "p.npy", np.full((4, 3), 1 / 3))
    for data, model in [("train.txt", "recipes"), ("names.conll", "names")]:
        assert (
            run_command(["train", f"{folder / data}", "-q", "-o", f"{folder / model}.trellis"]) == 0
        )


def is_possible(mistake: Mistake) -> bool:
    """Return whether the module that a mistake needs is installed."""
    return not mistake.needs or importlib.util.find_spec(mistake.needs) is not None


def run_mistake(mistake: Mistake, folder: Path) -> tuple[int, str]:
    """Return the exit code and the message of a command."""
    for name, content in mistake.files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    errors = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stderr(errors),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
    ):
        code = run_command(shlex.split(mistake.text))
    for name in mistake.files:
        (folder / name).unlink()
    lines = [
        line
        for line in errors.getvalue().splitlines()
        if line and not line.startswith(("Usage:", "Try "))
    ]
    if code == 0:
        lines = [line for line in lines if line.startswith("trellis:")]
    return code, "\n".join(lines)


def run_code(mistake: Mistake, folder: Path) -> str:
    """Return the last line of the traceback of code; raise AssertionError if it has no error."""
    if mistake.alone:
        command = [sys.executable, "-c", mistake.text]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return ran.stderr.splitlines()[-1]
    names: dict[str, Any] = {}
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(SETUP, names)
        try:
            exec(compile(ast.parse(mistake.text), "<mistake>", "exec"), names)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    raise AssertionError(f"{mistake.text}: no error")


def render_one(mistake: Mistake, folder: Path) -> str:
    """Return the section of a mistake."""
    if mistake in COMMANDS:
        code, message = run_mistake(mistake, folder)
        body = f"```console\n$ trellis {mistake.text}\n{message}\n[{code}]\n```"
    else:
        message = run_code(mistake, folder)
        body = f"```python\n{mistake.text}\n```\n\n```text\n{message}\n```"
    return f"**{mistake.title}**\n\n{body}\n"


def render() -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder)
        commands = "\n".join(render_one(mistake, folder) for mistake in COMMANDS)
        code = "\n".join(render_one(mistake, folder) for mistake in CODE)
    setup = textwrap.dedent(SETUP)
    begin = f"The code below follows these lines:\n\n```python\n{setup}```\n"
    return f"{HEAD}\n## Commands\n{commands}\n## Python\n{begin}\n{code}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
