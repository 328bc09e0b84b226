"""Debian's Chromium, driven by selenium: actions of a user, and what the page did."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
_POLL = 0.05
_PATIENCE = 20.0  # seconds until a condition of the page must be true; generous on a busy machine


def require_chromium() -> tuple[Any, Any, str, str]:
    """Return selenium's modules and the paths of the browser and its driver, or skip the test."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("chromium and chromium-driver are not installed")
    return webdriver, service, binary, driver


class Chromium:
    """A browser with an empty profile. ``dark`` asks pages for their dark colours."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1280, 1000)) -> None:
        webdriver, service, binary, driver = require_chromium()
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"):
            options.add_argument(flag)
        options.add_experimental_option(
            "prefs", {"download.default_directory": str(self.downloads)}
        )
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=service.Service(driver))
        self.urls: list[str] = []

    def close(self) -> None:
        self.driver.quit()

    def open(self, url: str) -> None:
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the value of a script, such as ``return document.title``."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, expression: str, *arguments: Any) -> Any:
        """Return the value of a JavaScript expression as soon as it is true."""
        end = time.monotonic() + _PATIENCE
        while not (value := self.run(f"return {expression}", *arguments)):
            assert time.monotonic() < end, f"{expression} is {value!r}: {self.text('main')[:500]}"
            time.sleep(_POLL)
        return value

    def find(self, selector: str) -> Any:
        """Return the first element of a CSS selector, once there is one."""
        return self.wait("document.querySelector(arguments[0])", selector)

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText", selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a selector; those of SVG have no innerText."""
        script = "return [...document.querySelectorAll(arguments[0])]"
        script += ".map((e) => e.innerText ?? e.textContent)"
        return [str(text) for text in self.run(script, selector)]

    def click(self, selector: str) -> None:
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a <select> by its value."""
        select = self.find(selector)
        script = "arguments[0].value = arguments[1];"
        script += "arguments[0].dispatchEvent(new Event('change', {bubbles: true}))"
        self.run(script, select, value)

    def type(self, selector: str, keys: str) -> None:
        self.find(selector).send_keys(keys)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, key by key."""
        element = self.find(selector)
        element.clear()
        element.send_keys(text)

    def press(self, keys: str) -> None:
        """Press keys in the element that has the focus."""
        self.driver.switch_to.active_element.send_keys(keys)

    def point(self, selector: str, n: int = 0, *, click: bool = False) -> None:
        """Move the mouse to the middle of the n-th element, and click there."""
        from selenium.webdriver.common.action_chains import ActionChains

        script = "const e = document.querySelectorAll(arguments[0])[arguments[1]];"
        script += "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
        script += "return [b.x + b.width / 2, b.y + b.height / 2]"
        x, y = self.run(script, selector, n)
        chain = ActionChains(self.driver, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        (chain.click() if click else chain).perform()

    def screenshot(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))

    def messages(self) -> list[str]:
        """Return what the console has shown since the last call: errors, warnings, exceptions."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the URLs of all requests so far, those of the tabs and of the workers."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.urls.append(message["params"]["request"]["url"])
        return self.urls

    def emulate(self, *, width: int = 0, height: int = 0, dark: bool = False) -> None:
        """Set the size of the page, and light or dark colours."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        if width:
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        else:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
