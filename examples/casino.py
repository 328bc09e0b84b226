"""The occasionally dishonest casino: find the rolls of the loaded die.

A croupier rolls a fair die, and sometimes a loaded one that shows six half of the time. We see the
rolls, but not the die. It is the smallest problem that needs a trellis: one six is weak evidence
for the loaded die, but a run of sixes is strong evidence. The example compares three answers: each
roll by itself, the best path (Viterbi), and the most probable die at each roll (posterior
marginals).

    python examples/casino.py
"""

import numpy as np

from trellis.inference import chain

FAIR, LOADED = 0, 1
STAY = np.array([[0.95, 0.05], [0.10, 0.90]])
FACES = np.array([[1 / 6] * 6, [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]])
BARS = " ▁▂▃▄▅▆▇█"


def play(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the dice and the faces of n rolls."""
    dice = np.empty(n, dtype=int)
    dice[0] = FAIR
    for t in range(1, n):
        dice[t] = rng.choice(2, p=STAY[dice[t - 1]])
    faces = np.array([rng.choice(6, p=FACES[die]) for die in dice])
    return dice, faces


def main() -> None:
    """Play the game, find the dice in three ways, and print the results."""
    rng = np.random.default_rng(7)
    truth, faces = play(10_000, rng)

    # Scores are log probabilities here; in a CRF they would be w·φ(x, i, y', y).
    unary = np.log(FACES[:, faces].T)
    transition = np.log(STAY)
    start = np.array(
        [0.0, -np.inf]
    )  # the game starts with the fair die: -inf forbids the loaded one

    single = unary.argmax(axis=1)
    best = chain.viterbi(unary, transition, start)
    posterior = chain.marginals(unary, transition, start)
    most_probable = posterior.unary.argmax(axis=1)

    show(truth, faces, best.labels, posterior.unary[:, LOADED])
    print(f"Correct dice in {len(truth):,} rolls:")
    for name, dice in (
        ("each roll by itself", single),
        ("Viterbi (best path)", best.labels),
        ("posterior marginals", most_probable),
    ):
        print(f"  {name:22}{np.mean(dice == truth):7.1%}")
    bits = chain.entropy(unary, transition, start) / len(truth) / np.log(2)
    print(
        f"log p(rolls) = {posterior.log_partition:.2f};  remaining doubt: {bits:.3f} bits per roll"
    )


def show(truth: np.ndarray, faces: np.ndarray, path: np.ndarray, loaded: np.ndarray) -> None:
    """Print the first 210 rolls, 70 per block."""
    print("The occasionally dishonest casino: F fair die, L loaded die\n")
    for begin in range(0, 210, 70):
        block = slice(begin, begin + 70)
        print("rolls      ", "".join(str(face + 1) for face in faces[block]))
        print("truth      ", "".join("FL"[die] for die in truth[block]))
        print("Viterbi    ", "".join("FL"[die] for die in path[block]))
        print("p(loaded)  ", "".join(BARS[round(p * 8)] for p in loaded[block]), "\n")


if __name__ == "__main__":
    main()
