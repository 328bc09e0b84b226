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
    found = cut(name, literals)
    assert tuple(values) in found
    assert len(set(found)) == len(found)
    for parts in found:
        assert literals[0] + "".join(map(str.__add__, parts, literals[1:])) == name


def test_names_that_are_ambiguous_fire_once() -> None:
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


def test_a_name_of_no_template() -> None:
    with pytest.raises(InputError, match="'U9:x' is of none"):
        from_names(templates.parse("U1:%x[0,0]"), ["U9:x"], [])


def test_too_many_ways() -> None:
    with pytest.raises(InputError, match="more than 256 ways"):
        cut("U:" + "/" * 60, ("U:", "/", "/", ""))
