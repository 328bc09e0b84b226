"""SECURITY.md: the tests that it names exist, and the limits in its table are those of the code."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))
LIMITS = re.findall(
    r"^\| .* \| (\S+)(?: (GiB|MiB))?(?: \(`.*`\))? \| `trellis\.(\S+)` \|$", PAGE, re.M
)
UNITS = {"": 1, "MiB": 1 << 20, "GiB": 1 << 30}


def test_the_page_was_parsed() -> None:
    assert len(TESTS) >= 20
    assert len(LIMITS) == PAGE.count("| `trellis.") >= 10


@pytest.mark.parametrize("name", TESTS)
def test_named_tests_exist(name: str) -> None:
    path, _, function = name.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    assert f"def {function}(" in source if function else "def test_" in source


@pytest.mark.parametrize(("number", "unit", "constant"), LIMITS)
def test_limits_are_those_of_the_code(number: str, unit: str, constant: str) -> None:
    module, _, name = constant.rpartition(".")
    base, _, exponent = number.replace(",", "").partition("**")
    stated = float(base) ** int(exponent or 1) * UNITS[unit]
    assert getattr(import_module(f"trellis.{module}"), name) == stated
