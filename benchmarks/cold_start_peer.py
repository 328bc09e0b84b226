"""Train a model with sklearn-crfsuite: the script that a user writes instead of `trellis train`.

    python benchmarks/cold_start_peer.py train.conll model.pickle 50

It reads words and labels from columns, builds the attributes of `trellis.features.Window()` as
dicts, trains with at most 50 iterations and saves the model. It prints the loss and the number of
attributes. cold_start.py runs it; it imports nothing of trellis.
"""

import pickle
import sys

import sklearn_crfsuite


def read(path):
    """Return the sentences and their labels: the first and the last column."""
    sentences, labels, rows = [], [], []
    with open(path, encoding="utf-8") as file:
        for line in [*file, ""]:
            columns = line.rstrip("\n").split("\t")
            if len(columns) > 1:
                rows.append(columns)
            elif rows and not columns[0]:
                sentences.append([row[0] for row in rows])
                labels.append([row[-1] for row in rows])
                rows = []
    return sentences, labels


def shape(word):
    """Return Xxxxx for Paris."""
    return "".join(
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdecimal() else c for c in word
    )


def case(word):
    """Return the case of the letters of a word, or None if it has no letters with case."""
    upper = [c.isupper() for c in word if c.isupper() or c.islower()]
    if not upper:
        return None
    if all(upper):
        return "upper"
    if not any(upper):
        return "lower"
    return "title" if upper[0] and sum(upper) == 1 else "mixed"


def digits(word):
    """Return whether all or some characters are digits, or None."""
    count = sum(map(str.isdecimal, word))
    return None if not count else "all" if count == len(word) else "some"


def attributes(words):
    """Return the attributes of each word of a sentence."""
    shapes, cases = [shape(word) for word in words], [case(word) for word in words]
    rows = []
    for i, word in enumerate(words):
        row = {"bias": "", "lower": word.lower()}
        for offset in range(-2, 3):
            if 0 <= i + offset < len(words):
                row[f"w[{offset}]"] = words[i + offset]
        for offset in range(-1, 2):
            if 0 <= i + offset < len(words):
                row[f"shape[{offset}]"] = shapes[i + offset]
                if cases[i + offset]:
                    row[f"case[{offset}]"] = cases[i + offset]
        for size in range(1, 5):
            if len(word) >= size:
                row[f"prefix{size}"], row[f"suffix{size}"] = word[:size], word[-size:]
        if digits(word):
            row["digits"] = digits(word)
        if i:
            row["w[-1]|w[0]"] = f"{words[i - 1]}|{word}"
        else:
            row["first"] = ""
        if i + 1 < len(words):
            row["w[0]|w[1]"] = f"{word}|{words[i + 1]}"
        else:
            row["last"] = ""
        rows.append(row)
    return rows


def main():
    """Read, train, save and print the result."""
    source, target, iterations = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sentences, labels = read(source)
    crf = sklearn_crfsuite.CRF(
        algorithm="lbfgs", c2=0.5, all_possible_transitions=True, max_iterations=iterations
    )
    crf.fit([attributes(words) for words in sentences], labels)
    with open(target, "wb") as file:
        pickle.dump(crf, file)
    print(crf.training_log_.last_iteration["loss"], len(crf.attributes_))


main()
