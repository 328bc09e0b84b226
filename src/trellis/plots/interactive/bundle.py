"""Join modules of JavaScript to one script, so that a page works from a file.

The modules follow three rules, which make this possible without a build tool: an import is a
single line ``import { a, b } from "./x.js";``, an export is a declaration with ``export`` before
it, and no two modules have the same name at the top level.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trellis.errors import InputError

__all__ = ["as_script_data", "find_file", "inline_page", "join_modules"]

HERE = Path(__file__).parent
STATE_MARK = "<!--state-->"
"""Where a saved page has its data; see `inline_page`."""

_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"\./([\w.-]+\.js)";[ \t]*$', re.MULTILINE)
_ANY_IMPORT = re.compile(r"^\s*import\b(?!\()", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function\b|class\b|const\b|let\b)", re.MULTILINE)
_ANY_EXPORT = re.compile(r"^export\b", re.MULTILINE)
_STYLE = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="(?:[^"]*/)?([\w.-]+)"[^>]*>')
_SCRIPT = re.compile(r'<script\b[^>]*\bsrc="(?:[^"]*/)?([\w.-]+\.js)"[^>]*>\s*</script>')


def find_file(name: str, folders: Sequence[Path]) -> Path:
    """Return the file with this name in the first folder that has it."""
    for folder in folders:
        if (path := folder / name).is_file():
            return path
    raise InputError(f"{name}: no such file of the page")


def join_modules(entry: str, folders: Sequence[Path] | None = None) -> str:
    """Return one script with a module and all modules that it imports, each before its users."""
    texts: dict[str, str] = {}
    _collect(entry, folders or (HERE,), texts, ())
    return "".join(texts.values())


def _collect(
    name: str, folders: Sequence[Path], texts: dict[str, str], users: tuple[str, ...]
) -> None:
    """Add the text of a module to ``texts``, after those of the modules that it imports."""
    if name in texts:
        return
    if name in users:
        raise InputError(f"{name}: the module imports itself, by way of {', '.join(users)}")
    source = find_file(name, folders).read_text(encoding="utf-8")
    for names, imported in _IMPORT.findall(source):
        if " as " in names:
            raise InputError(f"{name}: an import with `as` cannot be joined: {names.strip()}")
        _collect(imported, folders, texts, (*users, name))
    source = _EXPORT.sub("", _IMPORT.sub("", source))
    if wrong := _ANY_IMPORT.search(source) or _ANY_EXPORT.search(source):
        line = source[wrong.start() :].lstrip().partition("\n")[0]
        raise InputError(f"{name}: the line cannot be joined: {line}")
    texts[name] = source.strip() + "\n"


def inline_page(name: str, folders: Sequence[Path]) -> str:
    """Return a page with its styles and scripts inside, and `STATE_MARK` before the end of <body>.

    A saved page has its data in the place of the mark: ``<script type="application/json"
    id="trellis-state">…</script>``.
    """
    page = find_file(name, folders).read_text(encoding="utf-8")
    page = _STYLE.sub(
        lambda m: f"<style>{find_file(m[1], folders).read_text(encoding='utf-8')}</style>", page
    )
    page = _SCRIPT.sub(lambda m: make_script(join_modules(m[1], folders)), page)
    return page.replace("</body>", f"{STATE_MARK}\n</body>", 1)


def make_script(source: str) -> str:
    """Return an inline module. A ``</script`` in the source must not end the element."""
    escaped = re.sub(r"</(?=script)", r"<\\/", source, flags=re.IGNORECASE)
    return f'<script type="module">\n{escaped.replace("<!--", chr(92) + "x3c!--")}</script>'


def as_script_data(value: Any) -> str:
    r"""Return JSON that can stand in a script element: no text in it can end the element.

    >>> as_script_data({"label": "</script>"})
    '{"label":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
