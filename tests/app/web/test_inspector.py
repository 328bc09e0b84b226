"""A real browser does the twelve things of the inspector on the demo's model.

The tests share a browser and a server; each starts from an address of the page. After each of
them the console must be empty, and at the end every request must have gone to the server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from chromium import Chromium, require_chromium
from inspected import SPOKEN, serve, write_files

from trellis import CRF
from trellis.data import conll, jsonl, samples

pytestmark = pytest.mark.slow

SENTENCE = "put lunch with Tomás on Thursday at half past twelve"
LABELS = ["O", "B-event", "O", "B-person", "O", "B-date", "O", "B-time", "I-time", "I-time"]
WORD_LABELS = "#words .labelled small"
VISITS = count()
OtherServer = Callable[[str], AbstractContextManager[None]]
BEST_NODE = "#lattice .t-bestNode"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_chromium()  # before a model is trained
    folder = tmp_path_factory.mktemp("inspected")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with serve(folder) as url:
        yield url


@pytest.fixture(scope="module")
def browser(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    chromium.open(server)
    chromium.find("#tour-skip").click()
    yield chromium
    chromium.close()


@pytest.fixture
def visit(browser: Chromium) -> Iterator[Callable[..., None]]:
    """Open a view with parameters of the URL; afterwards the console must be empty."""

    def open_view(view: str, **parameters: object) -> None:
        fields = {"view": view, **parameters, "visit": next(VISITS)}  # an equal hash is no event
        address = "&".join(f"{name}={quote(str(value))}" for name, value in fields.items())
        browser.run("delete document.getElementById('main').dataset.ready")
        browser.run("location.hash = arguments[0]", address)
        browser.wait("document.getElementById('main').dataset.ready === arguments[0]", view)

    browser.messages()
    yield open_view
    assert browser.messages() == []


@pytest.fixture
def other_server(browser: Chromium, folder: Path, server: str) -> OtherServer:
    """Visit a server with other arguments for a while."""

    @contextmanager
    def visit_other(arguments: str) -> Iterator[None]:
        with serve(folder, arguments) as url:
            browser.open(url)
            browser.find("#tour-skip").click()
            yield
        browser.open(server)
        browser.find("#words .labelled")

    return visit_other


def test_labels_change_while_typing(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("sentence", text="put")
    browser.wait("document.querySelectorAll('#words .labelled').length === 1")
    browser.type("#text", SENTENCE.removeprefix("put"))
    browser.wait("document.querySelectorAll('#words .labelled').length === 10")
    browser.wait("document.querySelector('#words').innerText.includes('I-time')")
    assert browser.texts(WORD_LABELS) == LABELS


def test_edges_have_the_width_of_their_probability(
    browser: Chromium, visit: Callable[..., None]
) -> None:
    visit("sentence", text=SENTENCE)
    lines = "[...document.querySelectorAll('#lattice .t-edge, #lattice .t-best')]"
    widths = browser.run(f"return {lines}.map((line) => +line.getAttribute('stroke-width'))")
    assert max(widths) > 5
    assert min(widths) < 2
    browser.point(BEST_NODE, 1)
    tip = browser.wait("document.querySelector('.lattice-tip:not([hidden])')?.innerText")
    assert "lunch · B-event" in tip
    assert "p = 0.9" in tip
    browser.point("#lattice .t-best", 0)
    browser.wait("document.querySelector('.lattice-tip').innerText.includes('O → B-event')")


def test_features_behind_a_node_and_an_edge(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("sentence", text=SENTENCE)
    browser.point(BEST_NODE, 1, click=True)
    browser.wait("document.querySelectorAll('.features tbody tr').length > 5")
    assert browser.texts(".features th")[:3] == ["feature", "B-event", "O"]
    assert "lower[1]=with" in browser.text(".features")
    chosen, runner_up = map(_number, browser.texts(".features tr:last-child b")[1:3])
    assert chosen > runner_up
    browser.choose(".details select[aria-label='Runner-up']", "0")
    browser.wait("document.querySelectorAll('.features th')[2].innerText !== 'O'")
    browser.point("#lattice .t-best", 0, click=True)
    browser.wait("document.querySelector('.details h2').innerText === 'put → lunch'")
    browser.wait("document.querySelector('.features').innerText.includes('transition')")


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_pins_decode_again_without_the_server(
    browser: Chromium, visit: Callable[..., None]
) -> None:
    visit("sentence", text=SENTENCE)
    browser.point(BEST_NODE, 1, click=True)
    browser.wait("document.querySelectorAll('.features tbody tr').length > 5")
    scored = [url for url in browser.requests() if url.endswith("/page/scores")]
    browser.find(".lattice-scroll").send_keys("x")  # forbids the selected label
    browser.wait("document.querySelectorAll('#words small')[1].innerText === 'O'")
    assert browser.texts("#lattice .t-cross") != []
    browser.click("#clear")
    browser.wait("document.querySelectorAll('#words small')[1].innerText === 'B-event'")
    browser.choose(".details select[aria-label='Pin another label']", _index(browser, "B-person"))
    browser.wait("document.querySelectorAll('#words small')[1].innerText === 'B-person'")
    assert "the pins have probability" in browser.text("#status")
    assert [url for url in browser.requests() if url.endswith("/page/scores")] == scored


def _index(browser: Chromium, label: str) -> str:
    script = "return [...document.querySelector(arguments[0]).options]"
    script += ".find((option) => option.text === arguments[1]).value"
    return str(browser.run(script, ".details select[aria-label='Pin another label']", label))


def test_best_paths_and_what_differs(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("sentence", text=SENTENCE, k=10)
    browser.wait("document.querySelectorAll('#paths tbody tr').length === 10")
    rows = browser.texts("#paths tbody tr")
    assert "the best path" in rows[0]
    assert "lunch: B-event → O" in rows[1]
    assert "Tomás: " in rows[2]
    browser.click("#paths tbody tr:nth-child(3) button")
    browser.wait("document.querySelector('#paths tr:nth-child(3) [aria-pressed=true]')")
    assert browser.run("return document.querySelectorAll('#lattice .t-second').length") > 0


def test_two_models_and_their_disagreements(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("compare", text=SENTENCE, model=0, other=1)
    browser.wait("document.querySelectorAll('#disagreements tbody tr').length > 0")
    words = [text.split()[0] for text in browser.texts("#disagreements tbody tr")]
    assert "Tomás" in words
    a, b = (browser.texts(f"[data-side={side}] .labelled small") for side in "AB")
    differing = [word for word, one, two in zip(SENTENCE.split(), a, b, strict=True) if one != two]
    assert words == differing
    browser.wait("document.querySelectorAll('#disagreeing tbody tr').length === 20")
    browser.click("#disagreeing tbody tr button")
    browser.wait("location.hash.includes('index=')")


def test_error_browser(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("errors")
    browser.wait("document.querySelectorAll('#browse-rows .row').length === 25")
    everything = int(browser.text("#browse-status").split()[0])
    browser.click("#confusions button")
    browser.wait("document.querySelector('#browse-status').innerText.includes('→')")
    filtered = int(browser.text("#browse-status").split()[0])
    assert 0 < filtered < everything
    confusion = browser.run(
        "const d = document.querySelector('#confusions [aria-pressed=true]').dataset;"
        "return `${d.gold} → ${d.predicted}`"
    )
    for row in browser.texts("#browse-rows .row"):
        assert confusion in row
    browser.click("#confusions [aria-pressed=true]")
    browser.choose("#filter-label", "B-person")
    browser.wait("location.hash.includes('label=B-person')")
    browser.fill("#filter-min_length", "12")
    browser.fill("#filter-max_probability", "60")
    browser.wait("location.hash.includes('max_probability=60')")
    browser.wait("document.querySelectorAll('#browse-rows .row').length < 25")
    for row in range(len(browser.texts("#browse-rows .row"))):
        words = browser.texts(f"#browse-rows .row:nth-child({row + 1}) .word")
        assert len(words) >= 12
    for facts in browser.texts("#browse-rows .facts"):
        assert float(facts.split()[1]) <= 60
    browser.click("#browse-rows .row button")
    browser.wait("document.getElementById('main').dataset.ready === 'sentence'")
    assert "labels agree with the file" in browser.text("#status")


def test_slices_with_intervals(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("slices")
    browser.wait("document.querySelectorAll('#slice-rows tbody tr').length === 4")
    for kind, value in (("word", "the"), ("label", "person")):
        browser.choose("#slice-kind", kind)
        browser.fill("#slice-value", value)
        browser.click("#slice-add")
        browser.wait(f"document.querySelector('#slice-rows').innerText.includes('“{value}”')")
    browser.wait("!document.querySelector('#slice-rows').innerText.includes('so far')")
    for row in browser.texts("#slice-rows tbody tr"):
        cells = row.split("\t")
        low, _, high = cells[5].split()
        assert 0 <= float(low) <= float(cells[4]) <= float(high) <= 100
    assert browser.run("return document.querySelectorAll('#slice-rows svg').length") == 6


def test_emissions_alignment_and_playback(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("ctc")
    assert browser.run("return document.querySelector('#ctc-text').value") == SPOKEN
    best = float(browser.text("#ctc-status").split()[3].replace("−", "-"))
    browser.fill("#ctc-text", "the trellis is over")
    browser.wait("location.hash.includes('over')")
    assert float(browser.text("#ctc-status").split()[3].replace("−", "-")) < best
    browser.wait("!document.querySelector('#play').disabled")
    browser.point("#heat", click=True)  # plays from there
    browser.wait("document.querySelector('#play').innerText === 'Stop'")
    assert "Frame" in browser.text("#ctc-readout")
    before = browser.run("return document.querySelector('#playhead').style.left")
    browser.wait("document.querySelector('#playhead').style.left !== arguments[0]", before)
    browser.click("#play")
    browser.wait("document.querySelector('#play').innerText === 'Play'")
    frame = int(browser.text("#ctc-readout").split()[1])
    assert str(frame) in browser.texts("#ctc-lattice .t-token")
    assert browser.run("return document.querySelectorAll('#ctc-lattice .t-best').length") > 5


def test_map_of_a_word(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("sentence", text="any trains tomorrow evening")
    browser.click("#words .labelled:nth-child(4)")
    browser.click("[data-action=neighbours]")
    browser.wait("document.querySelectorAll('#map [data-word]').length > 10")
    assert "word=evening" in browser.run("return location.hash")
    assert len(browser.texts("#neighbours tbody tr")) == 20
    nearest = browser.texts("#neighbours tbody button")[0]
    browser.click("#neighbours tbody button")
    browser.wait("document.querySelector('#word').value === arguments[0]", nearest)
    browser.wait(
        "document.querySelector('#map svg').getAttribute('aria-label').endsWith(arguments[0])",
        nearest,
    )


def test_correct_by_keyboard_and_train_again(
    browser: Chromium, visit: Callable[..., None], folder: Path
) -> None:
    visit("correct")
    browser.wait("document.querySelectorAll('#label-menu li').length === 10")
    first = browser.text("#correct-title")
    browser.find("#correct-words").send_keys("2")
    browser.wait("document.querySelector('#correct-status').innerText.includes('1 corrected')")
    browser.press("\ue014")  # right
    browser.press("u")
    browser.wait("document.querySelector('#correct-status').innerText.includes('1 unknown')")
    labels = browser.texts("#correct-words small")
    assert "?" in labels
    browser.press("\ue007")  # Enter: save and next
    browser.wait("document.querySelector('#correct-title').innerText !== arguments[0]", first)
    _, y = conll.read(folder / "saved" / "corrections.conll")
    assert y == [labels]
    second = browser.text("#correct-title")
    browser.choose("#measure", "margin")
    browser.wait("document.querySelector('#correct-title').innerText !== arguments[0]", second)
    browser.choose("#format", "jsonl")
    browser.click("#save-next")
    _wait_for(lambda: (folder / "saved" / "corrections.jsonl").exists())
    assert len(jsonl.read(folder / "saved" / "corrections.jsonl")[0]) == 2
    browser.click("#train")
    browser.wait("document.querySelector('#training').dataset.state === 'done'")
    rows = browser.texts("#training tbody tr")
    assert [row.split()[0] for row in rows] == ["F1", "accuracy"]
    for row in rows:
        before, after, change = (float(text.replace("−", "-")) for text in row.split()[1:])
        assert 50 < before < 100
        assert abs(after - before - change) < 0.011


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_state_in_the_url_and_page_as_one_file(
    browser: Chromium, visit: Callable[..., None], server: str
) -> None:
    touched = {"pins": json.dumps([[1, "O"]]), "selected": json.dumps([3, "B-person"])}
    visit("sentence", text=SENTENCE, k=3, **touched)
    browser.run("location.reload()")
    browser.wait("document.querySelectorAll('#words small')[1]?.innerText === 'O'")
    browser.wait("document.querySelector('.details h2').innerText === 'Tomás'")
    browser.wait("document.querySelectorAll('#paths tbody tr').length === 3")
    _walk(browser, "errors", "ctc", "sentence")  # views that were open are saved, too
    browser.click("#save-page")
    page = browser.downloads / "trellis-inspector.html"
    _wait_for(page.exists)
    shown = browser.texts(WORD_LABELS)
    before = len(browser.requests())
    browser.open(page.as_uri())
    browser.wait("document.querySelector('#facts')?.innerText.includes('saved page')")
    browser.wait("document.querySelectorAll('#words small').length === 10")
    assert browser.texts(WORD_LABELS) == shown
    browser.find(".lattice-scroll").send_keys("x")
    browser.wait("!document.querySelector('#clear').hidden")
    browser.click("#clear")
    browser.wait("document.querySelectorAll('#words small')[1].innerText === 'B-event'")
    browser.click("#words .labelled:nth-child(2)")
    browser.wait("document.querySelectorAll('.features tbody tr').length > 5")
    _walk(browser, "compare", "slices", "correct", "vectors", "ctc", "errors")
    assert len(browser.texts("#browse-rows .row")) == 25
    assert {urlsplit(url).scheme for url in browser.requests()[before:]} == {"file"}
    browser.open(server.partition("?")[0])
    browser.find("#words .labelled")


def _walk(browser: Chromium, *views: str) -> None:
    """Open views by their links."""
    for view in views:
        browser.click(f"#views [data-view={view}]")
        browser.wait("document.getElementById('main').dataset.ready === arguments[0]", view)


def test_text_never_becomes_markup(browser: Chromium, visit: Callable[..., None]) -> None:
    attack = "<img src=x onerror=document.title='owned'> <script>document.title='owned'</script>"
    visit("sentence", text=attack)
    assert "".join(browser.texts("#words .word")) == attack.replace(" ", "")
    browser.click("#words .labelled")
    browser.wait("document.querySelectorAll('.features tbody tr').length > 3")
    browser.find("#lattice .lattice-scroll").send_keys("\ue014\ue012")  # right, left: read aloud
    browser.wait("document.querySelector('#lattice .lattice-live').textContent.startsWith('<')")
    visit("compare", text=attack)
    visit("correct", text=attack)
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert "owned" not in browser.run("return document.title")


def test_one_model_without_data(
    browser: Chromium, other_server: OtherServer, visit: Callable[..., None]
) -> None:
    with other_server("model.trellis"):
        browser.find("#words .labelled")
        visit("compare")
        assert "second model" in browser.text("main")
        for view in ("errors", "slices"):
            visit(view)
            assert "labelled file" in browser.text("main")
        assert browser.texts("#views a") == ["Sentence", "Compare", "Errors", "Slices", "Correct"]
        visit("correct", text="a train to Bern")
        browser.find("#correct-words").send_keys("u\ue007")  # unknown, then Enter
        browser.click("#download")
        file = browser.downloads / "corrections.conll"
        _wait_for(file.exists)
        X, y = conll.read(file)
        assert X == [["a", "train", "to", "Bern"]]
        assert y[0].count("?") == 1


def test_download_of_words_with_line_breaks(
    browser: Chromium, folder: Path, other_server: OtherServer, visit: Callable[..., None]
) -> None:
    """A column file with such a word would have other rows and labels."""
    jsonl.write(folder / "odd.jsonl", [["a\nb", "to", "Bern"]], [["O", "O", "O"]])
    with other_server("model.trellis --data odd.jsonl"):
        visit("correct", index=0)
        browser.find("#correct-words").send_keys("\ue007")  # Enter
        browser.click("#download")
        browser.wait("document.querySelector('#messages').textContent.includes('line break')")


def test_columns_and_ready_features(
    browser: Chromium, folder: Path, other_server: OtherServer, visit: Callable[..., None]
) -> None:
    X, y = (part[:40] for part in samples.load("train", "calendar"))
    columns = [[(word, word[-2:]) for word in x] for x in X]
    CRF(max_iter=10).fit(columns, y).save(folder / "columns.trellis")
    features = [[[f"w={word}", f"s={word[-2:]}"] for word in x] for x in X]
    CRF(max_iter=10).fit(features, y).save(folder / "features.trellis")
    with other_server("columns.trellis features.trellis"):
        browser.wait("document.querySelector('#status')?.innerText.includes('columns')")
        visit("sentence", model=0, text="lunch ch\nwith th\nAnn nn")
        assert browser.texts("#words .word") == ["lunch", "with", "Ann"]
        visit("sentence", model=1, text="w=lunch s=ch\nw=with s=th\nw=Ann s=nn")
        assert len(browser.texts("#words .word")) == 3
        browser.click("#words .labelled")
        browser.wait("document.querySelector('.features').innerText.includes('w=lunch')")


def test_tour_of_three_steps(browser: Chromium, visit: Callable[..., None]) -> None:
    visit("sentence", text=SENTENCE)
    assert not browser.run("return document.querySelector('.tour')")  # only at the first visit
    browser.click("#tour-button")
    for step in ("1 of 3", "2 of 3", "3 of 3"):
        assert step in browser.text(".tour")
        browser.press("\ue007")
    browser.wait("!document.querySelector('.tour')")


def test_large_trellises_are_drawn_on_a_canvas(
    browser: Chromium, visit: Callable[..., None]
) -> None:
    visit("sentence", text=f"{SENTENCE} and " * 4, minimum=0)
    box = browser.run("return {...document.querySelector('#lattice .lattice-box').dataset}")
    assert box["painter"] == "canvas"
    assert int(box["edges"]) > 5000
    canvas = "document.querySelector('#lattice canvas')"
    script = f"return new Set({canvas}.getContext('2d').getImageData(0, 0, 600, 300).data).size"
    assert browser.run(script) > 20  # not blank
    browser.point("#lattice canvas")
    browser.find("#lattice .lattice-scroll").send_keys("p")
    browser.wait("!document.querySelector('#clear').hidden")


def test_report_has_the_same_trellises(browser: Chromium, folder: Path, server: str) -> None:
    browser.open((folder / "report.html").as_uri())
    browser.wait("document.querySelectorAll('.lattice-box').length > 1")
    browser.find(".lattice-scroll").send_keys("x")
    browser.wait("document.querySelector('[role=status]').innerText.includes('pins have')")
    assert browser.messages() == []
    browser.open(server)
    browser.find("#words .labelled")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280, 3840])
def test_every_view_fits_the_window(
    browser: Chromium, visit: Callable[..., None], width: int, dark: bool, folder: Path
) -> None:
    browser.emulate(width=width, height=1000, dark=dark)
    try:
        for view in ("sentence", "compare", "errors", "slices", "correct", "ctc", "vectors"):
            visit(view, text=SENTENCE, word="evening", selected=json.dumps([1, "B-event"]))
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.run(f"return {overflow}") == 0, view
            browser.screenshot(folder / f"{view}-{width}-{'dark' if dark else 'light'}.png")
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert colour == ("rgb(15, 19, 24)" if dark else "rgb(243, 245, 248)")
    finally:
        browser.emulate()


def test_no_request_went_elsewhere(browser: Chromium, server: str) -> None:
    urls = [urlsplit(url) for url in browser.requests()]
    assert len(urls) > 100
    # A new browser opens chrome://new-tab-page, and saved pages are files: no network is used.
    others = {url.scheme for url in urls} - {"http", "chrome", "chrome-untrusted"}
    assert others <= {"blob", "data", "file"}
    hosts = {url.hostname for url in urls if url.scheme == "http"}
    assert hosts == {urlsplit(server).hostname} == {"127.0.0.1"}
