"""Objects whose methods change the containers that the native code reads, or raise."""

import pytest

from trellis import _core
from trellis.errors import InputError


class Clearing:
    """A number that clears a container when it is read."""

    def __init__(self, container):
        self.container = container

    def __float__(self):
        self.container.clear()
        return 1.0

    def __index__(self):
        self.container.clear()
        return 1


class Growing:
    """A number that adds a key to a dict when it is read."""

    def __init__(self, features):
        self.features = features

    def __float__(self):
        self.features[f"new{len(self.features)}"] = self
        return 1.0


class Swapping:
    """A number that replaces one key of a dict, so that its size stays the same."""

    def __init__(self, features):
        self.features = features
        self.reads = 0

    def __float__(self):
        self.reads += 1
        self.features.pop(next(iter(self.features)))
        self.features[f"new{self.reads}"] = self
        return 1.0


class Raising:
    """A number that raises an exception when it is read."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error


def hostile(kind, depth):
    """Return a dict whose value changes it; with `depth` 1 it is inside another dict."""
    features = {}
    features["a"] = kind(features)
    for k in range(50):
        features[f"b{k}"] = kind(features)
    return {"outer": features, "rest": 1.0} if depth else features


@pytest.mark.parametrize("kind", [Clearing, Growing])
@pytest.mark.parametrize("depth", [0, 1])
def test_dict_that_changes_its_size_is_an_error(kind, depth):
    """The dict and its values are freed or moved while the native code reads them."""
    for read in (_core.ItemSequence, lambda x: _core.Vocabulary().learn([x])):
        with pytest.raises((InputError, ValueError), match="position 0: the dict has changed"):
            read([hostile(kind, depth)])


def test_nested_value_that_clears_the_outer_dict_is_an_error():
    """The inner dict is freed while it is read."""
    outer = {}
    outer["x"] = {"a": Clearing(outer), "b": "text", "c": [str(k) for k in range(99)]}
    outer["y"] = {"a": 1.0}
    with pytest.raises(ValueError, match="the dict has changed"):
        _core.ItemSequence([outer])


def test_dict_that_swaps_its_keys_is_read_to_an_end():
    """At most as many items are read as the dict had at the start."""
    features = {}
    swapping = Swapping(features)
    features.update({f"k{k}": swapping for k in range(20)})
    _core.ItemSequence([features])
    assert 1 <= swapping.reads <= 20


def test_set_whose_iterator_clears_the_dict():
    """A set under a name is iterated by Python code."""

    class Set(set):
        def __iter__(self):
            features.clear()
            return iter(["a", "b"])

    features = {"x": Set(), "y": "z"}
    with pytest.raises(ValueError, match="the dict has changed"):
        _core.ItemSequence([features])


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError, SystemExit])
def test_exceptions_of_values_are_not_swallowed(error):
    """Only errors that say that the object is no number become an InputError."""
    with pytest.raises(error):
        _core.ItemSequence([{"a": Raising(error())}])
    with pytest.raises(error):
        _core.Vocabulary().learn([[{"a": Raising(error())}]])

    def tokens():
        yield "a"
        raise error()

    with pytest.raises(error):
        _core.ItemSequence([tokens()])


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_values_that_are_no_numbers_are_input_errors(error):
    """The message names the feature."""
    with pytest.raises(ValueError, match="the value of a must be a str or a number, not Raising"):
        _core.ItemSequence([{"a": Raising(error())}])


def test_list_that_is_cleared_by_its_first_item():
    """Lists of numbers are converted item by item, and __index__ can run for each."""
    numbers = []
    numbers.extend(Clearing(numbers) for _ in range(1000))
    piece = ("a", False, False)
    options = (0.0, 0.0, 0.0, 0.0, -5.0, -10.0, 4, 0, -1)
    words = _core.CtcWords([piece], options, None, None, None, [], False)
    with pytest.raises((ValueError, TypeError)):
        words.allow(["a", "b"], [numbers])  # the wrong number of spellings
    assert numbers == []


def test_list_subclass_whose_iterator_changes_it():
    """The native code reads what the iterator gives, and keeps it alive."""

    class Tokens(list):
        def __iter__(self):
            for k in range(1000):
                self.clear()
                yield {f"name{k}": 1.0}

    begin, _, _ = _core.Vocabulary().learn([Tokens([{"a": 1.0}])])
    assert len(begin) == 1001
