"""Every example in the documentation runs and prints the output of the page; links have targets."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
COMMANDS = [DOCS / "tutorial.md", DOCS / "recipe.md"]
LINKED = [*sorted(ROOT.glob("*.md")), *PAGES[1:]]
SCRIPTS = Path(sys.executable).parent

FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)\s]*)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FILE = re.compile(r"`([\w.]+)`:\n\n```text\n((?:.*\n)*?)```$", re.MULTILINE)
"""A file that the reader creates: its name in backticks, then a block with its text."""


def name_of(page: Path) -> str:
    """Return the path of a page, such as ``docs/seeds/logistic.md``, so that -k can select it."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", text_of(page))


def links(page: Path) -> list[tuple[str, str]]:
    """Return (path, anchor) of the links inside the repository."""
    targets = (link.partition("#") for link in LINK.findall(CODE.sub("", prose(page))))
    return [(path, anchor) for path, _, anchor in targets if not re.match(r"\w+:", path)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST create them."""
    headings = [LINK.sub("]", heading).lower() for heading in HEADING.findall(prose(page))]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def toctree(page: Path) -> list[str]:
    """Return the pages in the toctrees of a page."""
    blocks = [body for info, body in FENCE.findall(text_of(page)) if info == "{toctree}"]
    lines = [line.strip() for body in blocks for line in body.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with the files that the page shows."""
    for name, text in FILE.findall(text_of(request.getfixturevalue("page"))):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_pages() -> None:
    assert len(PAGES) > 20


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0
    if page.name == "chain.md":
        assert result.attempted > 25


@pytest.mark.slow
@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.name)
def test_commands(page: Path, folder: Path) -> None:
    """Commands succeed in order, and print the output that the page shows."""
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    bash = shutil.which("bash")
    if not bash or not shutil.which("trellis", path=str(SCRIPTS)):
        pytest.skip("the command is not installed, or there is no bash")
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "80"}
    commands = 0
    for info, body in FENCE.findall(text_of(page)):
        for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:] if info == "console" else []:
            command, _, expected = block.partition("\n")
            run = subprocess.run(
                [bash, "-c", command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            commands += 1
            assert run.returncode == 0, f"$ {command}\n{run.stderr}"
            matches = doctest.OutputChecker().check_output(expected, run.stdout, doctest.ELLIPSIS)
            assert matches or not expected.strip(), f"$ {command}\n{run.stdout}"
    assert commands > 5


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_have_targets(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        assert target == ROOT or ROOT in target.parents, f"{page.name}: {path} is not ours"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {path}#{anchor}"


def test_every_page_is_in_a_toctree() -> None:
    reached, ahead = set(), ["index"]
    while ahead:
        name = ahead.pop()
        page = DOCS / f"{name}.md"
        assert page.exists(), f"a toctree lists {name}, which does not exist"
        assert name not in reached, f"{name} is listed twice"
        reached.add(name)
        ahead += toctree(page)
    pages = DOCS.rglob("*.md")
    assert reached == {page.relative_to(DOCS).with_suffix("").as_posix() for page in pages}


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The `.trellis` file\n## L = 22: how, [why](x.md)?\n```python\n# no\n```\n")
    assert anchors(page) == {"the-trellis-file", "l--22-how-why"}
    page.write_text(
        "[a](b.md#c) ![d](e.svg) `[f](g)` [h](https://i)\n```text\n[l](m)\n```\n[j](#k)"
    )
    assert links(page) == [("b.md", "c"), ("e.svg", ""), ("", "k")]
