"""Names of attributes, cut back into values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import InputError
from trellis.features import templates
from trellis.features.names import cut, from_names

TEXT = st.text("ab/", max_size=5)


@given(st.lists(TEXT, min_size=1, max_size=3), st.lists(st.sampled_from(["", "/", "//", "a"])))
def test_every_cut_gives_the_name_and_the_true_one_is_among_them(
    values: list[str], between: list[str]
) -> None:
    literals = ("U:", *(between * 3 + ["/"] * 3)[: len(values) - 1], "")
    name = literals[0] + "".join(v + t for v, t in zip(values, literals[1:], strict=True))
    ways = cut(name, literals)
    assert tuple(values) in ways
    assert len(set(ways)) == len(ways)
    for parts in ways:
        assert literals[0] + "".join(map(str.__add__, parts, literals[1:])) == name


def test_ambiguous_names_match_once() -> None:
    spec = templates.parse("U1:%x[0,0]/%x[1,0]\nU2:%x[0,0]")
    features, source, _ = from_names(spec, ["U1:a/b/c", "U2:a"], [])
    assert source.tolist() == [0, 0, 1]
    for x, names in (
        (["a", "b/c"], [0, 1]),
        (["a/b", "c"], [0]),
        (["a", "b"], [1]),
    ):
        rows = features.find([x]).rows
        assert sorted(source[rows.id].tolist()) == names


def test_a_name_that_matches_no_template() -> None:
    with pytest.raises(InputError, match="'U9:x' fits none"):
        from_names(templates.parse("U1:%x[0,0]"), ["U9:x"], [])


def test_too_many_ways() -> None:
    with pytest.raises(InputError, match="more than 256 ways"):
        cut("U:" + "/" * 60, ("U:", "/", "/", ""))


VALUES = st.text("ab/né", max_size=4)


@given(
    st.lists(st.sampled_from(["", "/", "//", "a", "é"]), min_size=1, max_size=3),
    st.lists(VALUES, min_size=1, max_size=6),
)
def test_the_core_splits_like_the_definition(between: list[str], texts: list[str]) -> None:
    parts = "".join(f"{text}%x[{i},0]" for i, text in enumerate(["", *between[:-1]]))
    spec = templates.parse(f"U1:{parts}{between[-1]}")
    (literals,) = {t.literals for t in spec.templates}
    names = [name for name in dict.fromkeys("U1:" + text for text in texts) if cut(name, literals)]
    features, source, _ = from_names(spec, names, [])
    due = [(i, key) for i, name in enumerate(names) for key in cut(name, literals)]
    assert source.tolist() == [i for i, _ in due]
    values, size = features.values, features.key_size
    keys = features.to_parts()[1]["keys"].reshape(-1, size)[:, 1:]
    actual = [tuple(values[v] for v in key if v != 0xFFFFFFFF) for key in keys.tolist()]
    assert actual == [key for _, key in due]


@pytest.mark.parametrize(
    ("names", "what"),
    [(["U1:" + "/" * 300], "more than 256 ways"), (["U1:a/b", "U1:a/b"], "two features")],
)
def test_names_that_the_core_refuses(names: list[str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        from_names(templates.parse("U1:%x[0,0]/%x[1,0]"), names, [])
