"""docs/notes/seeds_audit.md: each item has a row, the tests exist, and pages have their words."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/notes/seeds_audit.md"
ROW = re.compile(r"^\| ((?:[STBCN]|bug |page )\d+) \| .+ \| (.+) \| (\w+) \|$", re.MULTILINE)
ROWS = {key: (tests, status) for key, tests, status in ROW.findall(PAGE.read_text("utf-8"))}
NAMES = sorted(set(re.findall(r"`(tests/[^`]+)`", " ".join(tests for tests, _ in ROWS.values()))))
PARTLY = (
    "S02 S03 S06 S13 S14 S19 T06 T13 B12 C04 C15 C16 C29 "
    "N10 N19 N25 N31 N43 N51 N54 N55 N59 N60 N65"
)
MISSING = "S20 T12 B14 C06 N08 N30 N34 N39 N44 N49 N64"
OPEN = {"T12"}
WORDS = [
    ("README.md", "linear chains of torch-struct"),
    ("README.md", "docs/from_hmmlearn.md"),
    ("docs/api.md", "automodule:: trellis.plots"),
    ("docs/characters.md", "## Charagram"),
    ("docs/crf.md", "maximum entropy"),
    ("docs/crf.md", "Gaussian prior"),
    ("docs/embeddings.md", '`"cbow"`'),
    ("docs/embeddings.md", '`"softmax"`'),
    ("docs/embeddings.md", '`"hierarchical"`'),
    ("docs/embeddings.md", '`"dictionary"`'),
    ("docs/embeddings.md", "count^exponent"),
    ("docs/from_wapiti.md", "`--post`"),
    ("docs/index.md", "find the call for an equation"),
    ("docs/logistic.md", "maximum entropy"),
    ("docs/neural.md", "`char_highway=True`"),
    ("docs/neural.md", '`char_cell="gru"`'),
    ("docs/neural.md", '`"charagram"`'),
    ("docs/plots.md", "`plot(x)`"),
    ("docs/seeds/deep_sequences.md", "**CRF beside CTC.**"),
    ("docs/seeds/log_linear.md", "MAP estimate"),
    ("docs/training.md", "need a model of sequences (`optim.Learner`) instead of a loss"),
]


@cache
def collect_names(path: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_item_has_one_row() -> None:
    bugs = [f"bug {n}" for n in range(1, 14)]
    pages = [f"page {n}" for n in range(1, 11)]
    assert list(ROWS) == [*PARTLY.split(), *MISSING.split(), *bugs, *pages]
    assert len(PARTLY.split()) == 24
    assert len(MISSING.split()) == 11
    assert PAGE.read_text("utf-8").count(" |\n") == len(ROWS) + 4  # and four headings


def test_done_items_have_tests() -> None:
    assert {status for _, status in ROWS.values()} == {"done", "open"}
    assert {key for key, (_, status) in ROWS.items() if status == "open"} == OPEN
    assert {key for key, (tests, _) in ROWS.items() if tests == "–"} == OPEN


@pytest.mark.parametrize("name", NAMES)
def test_named_tests_exist(name: str) -> None:
    path, _, function = name.partition("::")
    assert function in collect_names(path)


@pytest.mark.parametrize(("page", "words"), WORDS)
def test_pages_have_the_words(page: str, words: str) -> None:
    assert words in (ROOT / page).read_text(encoding="utf-8")
