"""The result of `Tagger.info`, and the text of `Tagger.dump`."""

from collections.abc import Iterator

from trellis.formats.crfsuite import Model

__all__ = ["ParsedDump", "dump_lines", "parse_model"]


class ParsedDump:
    """Names and weights of a model; weights are rounded to six digits, as in a dump."""

    def __init__(self) -> None:
        self.header: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        """The number of each label, as a str."""
        self.attributes: dict[str, str] = {}
        self.transitions: dict[tuple[str, str], float] = {}
        """The weight of each (label, next label)."""
        self.state_features: dict[tuple[str, str], float] = {}
        """The weight of each (attribute, label)."""


def parse_model(model: Model) -> ParsedDump:
    """Return the names and weights of a model."""
    dump = ParsedDump()
    dump.header = dict(_header_fields(model))
    attributes = model.attributes.decoded("attribute")
    dump.labels = {name: str(n) for n, name in enumerate(model.labels)}
    dump.attributes = {name: str(n) for n, name in enumerate(attributes)}
    for before, after, weight in _transition_weights(model):
        dump.transitions[before, after] = float(weight)
    for attribute, label, weight in _state_weights(model, attributes):
        dump.state_features[attribute, label] = float(weight)
    return dump


def dump_lines(model: Model) -> Iterator[str]:
    """Yield the lines of CRFsuite's dump of a model."""
    attributes = model.attributes.decoded("attribute")
    sections = {
        "FILEHEADER": (f"  {key}: {value}" for key, value in _header_fields(model)),
        "LABELS": (f"  {index:5d}: {name}" for index, name in enumerate(model.labels)),
        "ATTRIBUTES": (f"  {index:5d}: {name}" for index, name in enumerate(attributes)),
        "TRANSITIONS": (
            f"  (1) {source} --> {target}: {weight}"
            for source, target, weight in _transition_weights(model)
        ),
        "STATE_FEATURES": (
            f"  (0) {source} --> {target}: {weight}"
            for source, target, weight in _state_weights(model, attributes)
        ),
    }
    for name, lines in sections.items():
        yield f"{name} = {{\n"
        for line in lines:
            yield line + "\n"
        yield "}\n\n"


def _header_fields(model: Model) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the fields in the file header."""
    yield "magic", "lCRF"
    for key, value in model.header.items():
        # CRFsuite prints the type before the version; model.header has no type.
        if key == "version":
            yield "type", "FOMC"
        yield key, f"0x{value:X}" if key.startswith("off_") else str(value)


def _transition_weights(model: Model) -> Iterator[tuple[str, str, str]]:
    """Yield (label, next label, weight) of each transition."""
    for before, after, weight in zip(model.before, model.after, model.bigram_weight, strict=True):
        yield model.labels[before], model.labels[after], f"{weight:f}"


def _state_weights(model: Model, attributes: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (attribute, label, weight) of each state feature."""
    columns = (model.state_attribute, model.state_label, model.state_weight)
    for attribute, label, weight in zip(*(column.tolist() for column in columns), strict=True):
        yield attributes[attribute], model.labels[label], f"{weight:f}"
