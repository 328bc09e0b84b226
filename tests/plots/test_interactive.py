"""The interactive lattice outside the server: joined modules, notebooks, pages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context

from trellis import CRF, HMM
from trellis.errors import InputError
from trellis.plots.interactive import (
    STATE_MARK,
    as_script_data,
    inline_page,
    join_modules,
    modules_once,
)

X, Y = [["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]]


def write(folder: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return [folder]


def test_modules_are_joined_before_their_users(tmp_path: Path) -> None:
    folders = write(
        tmp_path,
        a_js='import { b } from "./b.js";\nimport { c, d } from "./c.js";\nb(c, d);\n',
        b_js='import { c } from "./c.js";\nexport function b() {}\n',
        c_js="export const c = 1;\nexport class d {}\nexport async function e() {}\n",
    )
    assert join_modules("a.js", folders) == (
        "const c = 1;\nclass d {}\nasync function e() {}\nfunction b() {}\nb(c, d);\n"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('import { b as c } from "./b.js";', "cannot be joined: b as c"),
        ('import b from "./b.js";', 'cannot be joined: import b from "./b.js";'),
        ('import { b }\n  from "./b.js";', "cannot be joined: import { b }"),
        ("export default 1;", "cannot be joined: export default 1;"),
        ('import { x } from "./a.js";', "imports itself"),
        ('import { x } from "./missing.js";', "missing.js: no such file"),
    ],
)
def test_modules_that_cannot_be_joined(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        join_modules("a.js", write(tmp_path, a_js=text, b_js="export const b = 1;"))


def test_page_with_its_files_inside(tmp_path: Path) -> None:
    folders = write(
        tmp_path,
        page_html='<html><head><link rel="stylesheet" href="static/s.css">'
        '<script type="module" src="static/a.js"></script></head><body>x</body></html>',
        s_css="p { color: red }",
        a_js='import { end } from "./b.js";\nend("</script><!--");\n',
        b_js="export function end() {}",
    )
    page = inline_page("page.html", folders)
    assert "<style>p { color: red }</style>" in page
    assert page.count("</script>") == 1
    assert "<!--" not in page.replace(STATE_MARK, "")
    assert page.endswith(f"<body>x{STATE_MARK}\n</body></html>")


def test_inspect_has_the_scores() -> None:
    crf = CRF().fit(X, Y)
    lattice = crf.inspect(["a", "b"], gold=["A", "B"], title="<b>")
    html = lattice._repr_html_()
    assert html.count("<svg") == 1  # without JavaScript, it is a picture
    assert modules_once() in html
    data = re.search(r'<script type="application/json" id="([^"]+)">([^<]+)</script>', html)
    assert data is not None
    assert f'data-source="{data[1]}"' in html
    payload = json.loads(data[2])
    assert payload == lattice.payload
    assert payload["labels"] == ["A", "B"]
    assert payload["gold"] == ["A", "B"]
    assert payload["unary"]["shape"] == [2, 2]
    assert lattice.html() != html  # two cells of a notebook have different names


def test_lattice_as_a_page(tmp_path: Path) -> None:
    CRF().fit(X, Y).inspect(["<b>", "b"]).save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>&lt;b&gt; b</title>" in page


def test_models_in_a_notebook() -> None:
    crf = CRF()
    assert "trellis-lattice" not in crf._repr_mimebundle_()["text/html"]
    bundle = crf.fit(X, Y)._repr_mimebundle_()
    assert bundle["text/plain"] == repr(crf)
    assert bundle["text/html"].count('data-source="trellis-') == 1
    assert "trellis-lattice" in HMM().fit(X, Y)._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert "text/html" not in crf._repr_mimebundle_()


def test_text_in_data_cannot_end_a_script() -> None:
    text = as_script_data({"a": "</script><!--\u2028"})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"a": "</script><!--\u2028"}
    with pytest.raises(ValueError, match="JSON"):
        as_script_data(float(np.inf))


def test_columns_of_a_model_of_second_order() -> None:
    """The page gets the states of the chain, and no true labels, which are no columns."""
    crf = CRF(order=2, max_iter=5).fit([["a", "b", "a"]], [["A", "B", "A"]])
    payload = crf.inspect(["a", "b", "a"], ["A", "B", "A"]).payload
    states = [" → ".join(state) for state in crf.label_states_]
    assert payload["labels"] == states
    assert len(states) > len(crf.classes_)
    assert payload["unary"]["shape"] == [3, len(states)]
    assert payload["gold"] is None
