"""From the surveys of some files to findings: what is wrong, how often, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from trellis.app.checking.characters import COMPOSED, DAMAGED, DECOMPOSED, EMPTY, INVISIBLE
from trellis.app.checking.schemes import Violations, choose_scheme
from trellis.app.checking.spelling import count_names, find_misspellings, get_name
from trellis.app.checking.survey import MAX_LABELS, Pair, Places, Survey

__all__ = ["CHECKS", "Corpus", "Example", "Finding", "find_all"]

CHECKS = (
    *("rows", "characters", "normalization", "labels", "scheme", "spelling", "unseen", "overlap"),
    *("length", "duplicates", "contradictions", "rare"),
)
"""The names of the checks."""

_LONG = 5  # tokens: a copy of a shorter sequence, such as "Yes .", may be chance


class Example(NamedTuple):
    """A place where a finding occurs."""

    file: str
    line: int
    text: str


class Finding(NamedTuple):
    """One kind of mistake."""

    check: str
    is_problem: bool
    """False for a note: something unusual that may be right."""
    total: int
    """The number of occurrences."""
    message: str
    examples: list[Example]


class Corpus:
    """The surveys of all files, their common scheme, and the limits of the checks."""

    def __init__(
        self,
        surveys: Sequence[Survey],
        scheme: str | None = None,
        max_tokens: int = 250,
        min_count: int = 5,
    ) -> None:
        self.surveys = surveys
        self.max_tokens, self.min_count = max_tokens, min_count
        self.limit = surveys[0].limit
        self.labels: Counter[str] = Counter()
        self.pairs: Counter[Pair] = Counter()
        for survey in surveys:
            self.labels.update({label: places.count for label, places in survey.labels.items()})
            self.pairs.update({pair: places.count for pair, places in survey.pairs.items()})
        self.scheme = scheme or choose_scheme(self.labels, self.pairs)


def find_all(corpus: Corpus, skipped: Sequence[str] = ()) -> list[Finding]:
    """Return the findings of all checks except the skipped ones: first problems, then notes."""
    findings = [finding for find in _FUNCTIONS for finding in find(corpus)]
    reported = [finding for finding in findings if finding.check not in skipped]
    return sorted(reported, key=lambda finding: not finding.is_problem)


def _check_rows(corpus: Corpus) -> Iterator[Finding]:
    for survey in corpus.surveys:
        if survey.wrong_lines.count:
            yield _make_finding(
                "rows", True, survey, survey.wrong_lines, "lines that cannot be read"
            )
        if not survey.lines and not survey.empty_sequences.count:
            yield Finding("rows", True, 1, f"{survey.name}: the file contains no sequence", [])


def _check_widths(corpus: Corpus) -> Iterator[Finding]:
    """Find tokens whose number of columns is not the usual one of the first file."""
    usual_width = corpus.surveys[0].usual_width
    for survey in corpus.surveys:
        for width, places in survey.widths.items():
            if usual_width is not None and width != usual_width:
                message = f"sequences whose tokens have {width} columns, expected {usual_width}"
                yield _make_finding("rows", True, survey, places, message)


def _check_characters(corpus: Corpus) -> Iterator[Finding]:
    messages = {
        DAMAGED: "tokens with bytes that are not UTF-8, or with U+FFFD, which replaced such bytes",
        EMPTY: "tokens that are empty or white space",
        INVISIBLE: "tokens with invisible characters",
    }
    for survey in corpus.surveys:
        for trait, message in messages.items():
            if places := survey.traits.get(trait):
                yield _make_finding("characters", True, survey, places, message)


def _check_normal_forms(corpus: Corpus) -> Iterator[Finding]:
    """If the corpus has composed and decomposed accents, find the files with the rarer form."""
    counts = {
        trait: sum(s.traits[trait].count for s in corpus.surveys if trait in s.traits)
        for trait in (COMPOSED, DECOMPOSED)
    }
    if not all(counts.values()):
        return
    rare_trait = min(counts, key=lambda trait: counts[trait])
    rare_form, usual_form = ("NFC", "not") if rare_trait == COMPOSED else ("not NFC", "NFC")
    for survey in corpus.surveys:
        if places := survey.traits.get(rare_trait):
            usual_count = counts[_other_form(rare_trait)]
            message = f"tokens are {rare_form}, but {usual_count:,} tokens are {usual_form}"
            yield _make_finding("normalization", True, survey, places, message)


def _other_form(trait: str) -> str:
    return COMPOSED if trait == DECOMPOSED else DECOMPOSED


def _check_scheme(corpus: Corpus) -> Iterator[Finding]:
    for survey in corpus.surveys:
        labels = {label: places.count for label, places in survey.labels.items()}
        pairs = {pair: places.count for pair, places in survey.pairs.items()}
        violations = Violations(corpus.scheme, labels, pairs)
        if not violations.count:
            continue
        places = [
            (line, f"{label!r} is not a tag of scheme {corpus.scheme}")
            for label in violations.invalid
            for line, _ in survey.labels[label].first
        ]
        places += [
            (line, _describe_pair(*pair))
            for pair in violations.forbidden
            for line, _ in survey.pairs[pair].first
        ]
        examples = [Example(survey.name, *place) for place in sorted(places)[: corpus.limit]]
        message = f"{survey.name}: tags that break the scheme {corpus.scheme}"
        yield Finding("scheme", True, violations.count, message, examples)


def _describe_pair(previous_tag: str | None, next_tag: str | None) -> str:
    if previous_tag is None:
        return f"{next_tag!r} cannot be the first tag of a sequence"
    if next_tag is None:
        return f"{previous_tag!r} cannot be the last tag of a sequence"
    return f"{next_tag!r} cannot follow {previous_tag!r}"


def _check_spelling(corpus: Corpus) -> Iterator[Finding]:
    for label, _, reason in find_misspellings(corpus.labels, corpus.scheme):
        examples = _locate_label(corpus, label)
        message = f"label {label!r} may be misspelt: {reason}"
        yield Finding("spelling", True, corpus.labels[label], message, examples)


def _check_many_labels(corpus: Corpus) -> Iterator[Finding]:
    for survey in corpus.surveys:
        if survey.has_more_labels:
            first = ", ".join(map(repr, islice(survey.labels, 3)))
            message = (
                f"{survey.name}: more than {MAX_LABELS:,} labels, such as {first}: "
                "check that --label selects the right column"
            )
            yield Finding("labels", True, len(survey.labels), message, [])


def _check_unseen(corpus: Corpus) -> Iterator[Finding]:
    first_survey, *later_surveys = corpus.surveys
    if first_survey.has_more_labels or not first_survey.labels:
        return
    for survey in later_surveys:
        new_labels = [label for label in survey.labels if label not in first_survey.labels]
        if not new_labels:
            continue
        examples = [
            Example(survey.name, survey.labels[label].first[0][0], repr(label))
            for label in new_labels[: corpus.limit]
        ]
        message = f"{survey.name}: labels that do not occur in {first_survey.name}"
        yield Finding("unseen", True, len(new_labels), message, examples)


def _check_overlap(corpus: Corpus) -> Iterator[Finding]:
    earlier: list[Survey] = []
    for survey in corpus.surveys:
        hashes = np.asarray(survey.word_hashes)
        hits = np.zeros(len(hashes), dtype=np.bool_)
        for previous in earlier:
            hits |= np.isin(hashes, np.asarray(previous.word_hashes))
        earlier.append(survey)
        if not hits.any():
            continue
        lengths = np.asarray(survey.lengths)
        # The longest sequences come first: they are the least likely to be equal by chance.
        numbers = np.flatnonzero(hits)[np.argsort(-lengths[hits], kind="stable")]
        count, n_long = len(numbers), int(np.sum(lengths[hits] >= _LONG))
        message = (
            f"{survey.name}: {100 * count / len(hashes):.1f} % of the sequences are also in an "
            f"earlier file; {n_long:,} of them have {_LONG} tokens or more"
        )
        examples = [_locate_copy(survey, int(n), earlier) for n in numbers[: corpus.limit]]
        # Short sequences such as "Yes ." occur in many texts, so a copy of them is no sign that
        # test data have been used for training.
        yield Finding("overlap", n_long > 0, count, message, examples)


def _locate_copy(survey: Survey, number: int, earlier: list[Survey]) -> Example:
    for previous in earlier:
        matches = np.flatnonzero(np.asarray(previous.word_hashes) == survey.word_hashes[number])
        if len(matches):
            place = f"also in {previous.name}:{previous.lines[int(matches[0])]}"
            break
    return Example(survey.name, survey.lines[number], place)


def _check_duplicates(corpus: Corpus) -> Iterator[Finding]:
    """Find repeated sequences within a file, with the same or with other labels."""
    for survey in corpus.surveys:
        words, labels = np.asarray(survey.word_hashes), np.asarray(survey.label_hashes)
        _, first_indices, group = np.unique(words, return_index=True, return_inverse=True)
        originals = first_indices[group]
        numbers = np.flatnonzero(originals != np.arange(len(words)))
        has_other_labels = labels[numbers] != labels[originals[numbers]]
        kinds = (
            ("duplicates", ~has_other_labels, "sequences that occur before with the same labels"),
            ("contradictions", has_other_labels, "sequences that occur before with other labels"),
        )
        for check, is_reported, message in kinds:
            repeated = numbers[is_reported].tolist()
            examples = [
                Example(survey.name, survey.lines[n], f"as in line {survey.lines[originals[n]]}")
                for n in repeated[: corpus.limit]
            ]
            if repeated:
                yield Finding(check, False, len(repeated), f"{survey.name}: {message}", examples)


def _check_lengths(corpus: Corpus) -> Iterator[Finding]:
    for survey in corpus.surveys:
        if survey.empty_sequences.count:
            yield _make_finding("length", True, survey, survey.empty_sequences, "empty sequences")
        lengths = np.asarray(survey.lengths)
        numbers = np.flatnonzero(lengths > corpus.max_tokens)
        if len(numbers):
            examples = [
                Example(survey.name, survey.lines[n], f"{survey.lengths[n]:,} tokens")
                for n in numbers[: corpus.limit].tolist()
            ]
            message = f"{survey.name}: sequences with more than {corpus.max_tokens} tokens"
            yield Finding("length", False, len(numbers), message, examples)


def _check_rare(corpus: Corpus) -> Iterator[Finding]:
    names = count_names(corpus.labels, corpus.scheme)
    rare_names = [name for name, count in names.items() if count < corpus.min_count]
    if rare_names:
        examples = []
        for name in rare_names[: corpus.limit]:
            label = next(x for x in corpus.labels if get_name(x, corpus.scheme) == name)
            place = _locate_label(corpus, label)[0]
            examples.append(place._replace(text=f"{name!r} occurs {names[name]} times"))
        message = f"labels with fewer than {corpus.min_count} tokens"
        yield Finding("rare", False, len(rare_names), message, examples)


def _locate_label(corpus: Corpus, label: str) -> list[Example]:
    """Return the first places of a label."""
    examples = (
        Example(survey.name, line, repr(label))
        for survey in corpus.surveys
        if label in survey.labels
        for line, _ in survey.labels[label].first
    )
    return list(islice(examples, corpus.limit))


def _make_finding(
    check: str, is_problem: bool, survey: Survey, places: Places, message: str
) -> Finding:
    examples = [Example(survey.name, *place) for place in places.first]
    return Finding(check, is_problem, places.count, f"{survey.name}: {message}", examples)


_FUNCTIONS: tuple[Callable[[Corpus], Iterator[Finding]], ...] = (
    _check_rows,
    _check_widths,
    _check_characters,
    _check_normal_forms,
    _check_many_labels,
    _check_scheme,
    _check_spelling,
    _check_unseen,
    _check_overlap,
    _check_lengths,
    _check_duplicates,
    _check_rare,
)
