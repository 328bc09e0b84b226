"""Feature extraction as its definition reads: the oracle of the native extractor."""

from itertools import groupby

from trellis.features.spec import Field, Gazetteer, Part, Spec, Template, ascii_lower

Token = str | tuple[str, ...]


def extract(spec: Spec, sequence: list[Token]) -> list[list[str]]:
    """Names of the attributes of each position, in the order of the templates."""
    templates = [t for t in spec.templates if not t.edge]
    return [names_at(spec, templates, sequence, i) for i in range(len(sequence))]


def extract_edges(spec: Spec, sequence: list[Token]) -> list[list[str]]:
    """Names of the attributes of the transition into each position; none into the first."""
    templates = [t for t in spec.templates if t.edge]
    return [names_at(spec, templates, sequence, i) if i else [] for i in range(len(sequence))]


def names_at(spec: Spec, templates: list[Template], sequence: list[Token], i: int) -> list[str]:
    names = []
    for template in templates:
        values = [part_value(spec, part, sequence, i) for part in template.parts]
        if None not in values:
            pairs = zip(values, template.literals[1:], strict=True)
            names.append(template.literals[0] + "".join(v + text for v, text in pairs))
    return names


def part_value(spec: Spec, part: Part, sequence: list[Token], i: int) -> str | None:
    length = len(sequence)
    field = spec.fields[part.field]
    at = part.offset + {"here": i, "first": 0, "last": length - 1}[part.origin]
    if 0 <= at < length:
        if field.kind == "first":
            return "" if at == 0 else None
        if field.kind == "last":
            return "" if at == length - 1 else None
        if field.kind == "gazetteer":
            gazetteer = next(g for g in spec.gazetteers if g.name == field.pattern)
            return gazetteer_marks(gazetteer, [column(t, field) for t in sequence])[at]
        return looked_up(spec, field, column(sequence[at], field))
    if spec.outside is None or field.kind in ("first", "last", "gazetteer"):
        return None
    before, after = spec.outside
    side, distance = (before, -at) if at < 0 else (after, at - length + 1)
    return looked_up(spec, field, side[min(distance, len(side)) - 1])


def column(token: Token, field: Field) -> str:
    return token if isinstance(token, str) else token[field.column]


def looked_up(spec: Spec, field: Field, value: str) -> str | None:
    if field.kind not in ("cluster", "cluster_prefix"):
        return derived(field, value)
    clusters = next(table for table in spec.clusters if table.name == field.pattern)
    for word in (value, value.lower()):
        if word in clusters.words:
            cluster = clusters.clusters[clusters.words.index(word)]
            return cluster if field.kind == "cluster" else cluster[: field.size]
    return None


def gazetteer_marks(gazetteer: Gazetteer, values: list[str]) -> list[str | None]:
    def fold(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(w.lower() for w in words) if gazetteer.lower else words

    phrases = {fold(phrase) for phrase in gazetteer.phrases}
    words = fold(tuple(values))
    marks: list[str | None] = []
    while len(marks) < len(words):
        start = len(marks)
        sizes = [n for n in range(1, len(words) - start + 1) if words[start : start + n] in phrases]
        marks += ["B"] + ["I"] * (max(sizes) - 1) if sizes else [None]
    return marks


def derived(field: Field, value: str) -> str | None:
    """f(value) for the kinds that depend only on the value."""
    kind, size = field.kind, field.size
    if kind.startswith("lower_"):
        kind, value = kind.removeprefix("lower_"), value.lower()
    match kind:
        case "value":
            return value
        case "lower":
            return value.lower()
        case "ascii_lower":
            return ascii_lower(value)
        case "shape":
            return "".join(map(shape, value))
        case "short_shape":
            return "".join(c for c, _ in groupby(map(shape, value)))
        case "prefix":
            return value[:size] if len(value) >= size else None
        case "suffix":
            return value[-size:] if len(value) >= size else None
        case "digits":
            digits = [c.isdecimal() for c in value]
            return ("all" if all(digits) else "some") if any(digits) else None
        case "case":
            return case(value)
        case "alnum":
            return alnum(value)
        case "length":
            return str(min(len(value), size))
        case "test" | "match" | "ascii_lower_match":
            return field.match(value)
    raise AssertionError(kind)


def shape(c: str) -> str:
    return "X" if c.isupper() else "x" if c.islower() else "d" if c.isdecimal() else c


def case(value: str) -> str | None:
    upper = [c.isupper() for c in value if c.isupper() or c.islower()]
    if not upper:
        return None
    if all(upper):
        return "upper"
    if not any(upper):
        return "lower"
    return "title" if upper[0] and not any(upper[1:]) else "mixed"


def alnum(value: str) -> str | None:
    kinds = {"alpha" if c.isalpha() else "digit" if c.isdecimal() else "punct" for c in value}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else None
    return "alnum" if kinds == {"alpha", "digit"} else "other"
