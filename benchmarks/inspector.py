"""Time from a key to the painted page of the inspector, in Chromium.

    python benchmarks/inspector.py
    python benchmarks/inspector.py --keys 100

A key's time runs from the time stamp of its event to the first task after the next frame is
painted. "Without waiting" leaves out the time until that frame begins: 8 ms on average at 60 frames
per second. Typing asks the server for scores; a pin decodes in the page. Scrolling is the time
between frames while a large trellis moves, which is 16.7 ms at 60 frames per second. The models
are CRFs of random words with 20 and 60 labels.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from timing import Table, describe_machine

from trellis import CRF

TESTS = Path(__file__).parent.parent / "tests" / "app" / "web"
sys.path.insert(0, str(TESTS))

from chromium import Chromium  # noqa: E402

SIZES = ((30, 20), (200, 60))  # tokens, labels
WORDS = 400
MEASURED = ("typing", "… without waiting", "pin", "… without waiting", "scrolling")

# Collects the ms from a key's time stamp to the first task after the frame with the new view.
WATCH = """
window.times = [];
window.work = [];
let stamp = null;
addEventListener("keydown", (event) => { stamp = event.timeStamp; }, true);
const mark = performance.mark.bind(performance);
performance.mark = (name) => {
  mark(name);
  if (name !== "trellis-shown" || stamp === null) return;
  const start = stamp;
  stamp = null;
  const ready = performance.now();
  requestAnimationFrame((frame) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      const end = performance.now();
      times.push(end - start);
      work.push(ready - start + (end - Math.max(ready, frame)));
    };
    channel.port2.postMessage(null);
  });
};
"""
SCROLL = """
const [done, scroller, times] = [arguments[0], document.querySelector(".lattice-scroll"), []];
let last = null;
function step(now) {
  if (last !== null) times.push(now - last);
  last = now;
  scroller.scrollLeft += 40;
  if (times.length < 120) requestAnimationFrame(step);
  else done(times);
}
requestAnimationFrame(step);
"""


def train(labels: int, path: Path) -> list[str]:
    """Save a CRF of random words with this number of labels; return the words."""
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(WORDS)]
    X = [[words[n] for n in rng.integers(WORDS, size=12)] for _ in range(600)]
    noise = [rng.integers(3, size=12) for _ in X]
    y = [
        [
            f"L{(int(word[4:]) + int(change)) % labels:02}"
            for word, change in zip(x, row, strict=True)
        ]
        for x, row in zip(X, noise, strict=True)
    ]
    CRF(max_iter=20).fit(X, y).save(path)
    return words


def measure(browser: Chromium, url: str, words: list[str], tokens: int, keys: int) -> list[Any]:
    """Return the times of `MEASURED` in ms."""
    browser.open(url)
    browser.find("#words .labelled")
    browser.run("document.querySelector('.tour')?.close()")
    text = " ".join(words[n % WORDS] for n in range(tokens - 1))
    browser.run("location.hash = arguments[0]", f"view=sentence&text={text.replace(' ', '+')}+word")
    browser.wait("document.querySelectorAll('#words .labelled').length === arguments[0]", tokens)
    browser.run(WATCH)
    times = []
    for selector, pressed in (("#text", "1"), (".lattice-scroll", "p")):
        element = browser.find(selector)
        for _ in range(keys):
            seen = browser.run("return times.length")
            element.send_keys(pressed)
            browser.wait("times.length > arguments[0]", seen)
            if pressed == "p":
                element.send_keys("\ue014")  # right: the next position
        times += [browser.run("return times.splice(0)"), browser.run("return work.splice(0)")]
    times.append(browser.driver.execute_async_script(SCROLL))
    return times


def main(keys: int) -> None:
    """Print the tables."""
    columns = ("what", "median", "95 %", "longest")
    print("\n".join(f"{name}: {value}" for name, value in describe_machine(["numpy"]).items()))
    with tempfile.TemporaryDirectory() as name:
        browser = Chromium(Path(name) / "chromium")
        print(f"chromium: {browser.driver.capabilities['browserVersion']}")
        for tokens, labels in SIZES:
            path = Path(name) / f"labels{labels}.trellis"
            words = train(labels, path)
            command = [sys.executable, "-m", "trellis", "serve", str(path), "--no-browser"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                times = measure(browser, server.stdout.readline().strip(), words, tokens, keys)
                server.terminate()
            rows = [
                (what, *(f"{np.percentile(values, q):.1f}" for q in (50, 95, 100)))
                for what, values in zip(MEASURED, times, strict=True)
            ]
            table = Table(f"{tokens} tokens, {labels} labels, ms", columns)
            for row in rows:
                table.add(*row)
            print(table.text(False), flush=True)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=50, help="keys of each kind")
    main(parser.parse_args().keys)
