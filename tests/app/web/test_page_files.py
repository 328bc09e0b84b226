"""The files of the page: small, without inline code, and joinable into one script."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from node import MODULES, PACKAGE

from trellis.plots.interactive.bundle import inline_page, join_modules

STATIC = PACKAGE / "app" / "web" / "static"
FOLDERS = [STATIC, PACKAGE / "plots" / "interactive"]
FILES = [path for folder in FOLDERS for path in folder.iterdir() if path.suffix != ".py"]
MAX_SIZE = 150_000
TOP_LEVEL = re.compile(
    r"^(?:export )?(?:(?:async )?function|class|const|let) (\w+)|^  (\w+) = .*[,;]$", re.MULTILINE
)
# Ways in which a string could become code or markup.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    r"|DOMParser|createContextualFragment|setAttribute\(\"(?:style|on)|javascript:"
)


class _Elements(HTMLParser):
    """Collects elements with their attributes, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.code = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style"):
            self.code += data.strip()


def test_files_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FILES if path.is_file()}
    assert len(sizes) > 15
    assert sum(sizes.values()) <= MAX_SIZE, sizes


def test_page_has_no_inline_code() -> None:
    page = _Elements()
    page.feed((STATIC / "index.html").read_text(encoding="utf-8"))
    assert page.code == ""
    assert len(page.elements) > 10
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        for name in ("src", "href"):
            address = attributes.get(name)
            assert address is None or address.startswith(("/static/", "#")), (tag, address)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_modules_never_parse_markup(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    assert not UNSAFE.findall(source)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", source)


def test_names_at_the_top_level_are_unique() -> None:
    names: Counter[str] = Counter()
    for module in MODULES:
        source = module.read_text(encoding="utf-8")
        names.update({first or second for first, second in TOP_LEVEL.findall(source)})
    assert len(names) > 80
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("entry", ["main.js", "embed.js"])
def test_modules_can_be_joined(entry: str) -> None:
    script = join_modules(entry, FOLDERS)
    assert "\nimport " not in script
    assert "\nexport " not in script


def test_saved_page_needs_no_other_file() -> None:
    page = inline_page("index.html", FOLDERS)
    assert page.count("<!--state-->") == 1
    assert 'src="' not in page
    assert 'rel="stylesheet"' not in page
