"""Take the pictures of inspector.md in Chromium: ``python docs/screenshots.py``.

It needs what tests/app/web/test_inspector.py needs: chromium, chromium-driver, selenium and the
extra trellis[web].
"""

import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "tests" / "app" / "web"))

from chromium import Chromium  # noqa: E402
from inspected import serve, write_files  # noqa: E402

SENTENCE = "Move our table from seven to half past eight."
COLOURS = 200  # of the palette: flat pictures look the same and are a third of the size
# Name, height, dark, view, parameters of the URL, and what must be there before the picture.
PICTURES = (
    (
        "sentence",
        1130,
        False,
        "sentence",
        {"text": SENTENCE, "selected": '[4,"B-party_size"]'},
        "document.querySelectorAll('.features tbody tr').length > 5",
    ),
    ("errors", 760, False, "errors", {}, "document.querySelectorAll('.row').length > 20"),
    (
        "correct",
        760,
        True,
        "correct",
        {"text": "the train to Bern at noon", "pins": ""},
        "document.querySelectorAll('#label-menu li').length === 10",
    ),
    ("ctc", 900, False, "ctc", {"frame": 30}, "document.querySelector('#ctc-lattice .t-best')"),
)


def main() -> None:
    """Write the pictures, and print their sizes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        with serve(folder) as url:
            browser = Chromium(folder / "chromium")
            browser.open(url)
            browser.find("#tour-skip").click()
            for picture, height, dark, view, parameters, ready in PICTURES:
                browser.emulate(width=1200, height=height, dark=dark)
                address = urlencode({"view": view, **parameters, "picture": picture})
                browser.run("location.hash = arguments[0]", address)
                browser.wait("document.getElementById('main').dataset.ready === arguments[0]", view)
                browser.wait(ready)
                path = FOLDER / f"inspector_{picture}.png"
                browser.screenshot(path)
                Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
                print(json.dumps({path.name: path.stat().st_size}))
            browser.close()


if __name__ == "__main__":
    main()
