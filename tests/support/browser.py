"""A headless Chromium, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REQUIRED = "BLOOMPARQUET_TEST_BROWSER"
"""If this variable is set, tests fail without a browser; otherwise they are skipped."""

_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]

# The colours of a picture, in a page of its own: that of the report loads nothing, not even this picture.
_COUNT_COLOURS = """
new Promise(done => {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement('canvas');
    canvas.width = image.width; canvas.height = image.height;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const counts = {}, pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    for (const pixel of pixels) counts[pixel] = (counts[pixel] || 0) + 1;
    done(JSON.stringify(counts));
  };
  image.src = 'data:image/png;base64,%s';
})
"""


@dataclass(frozen=True)
class Shown:
    """The contents of a page: its text, its elements as HTML, its picture (PNG), messages of the console and errors,
    and the addresses that it asked for."""

    text: str
    html: str
    png: bytes
    messages: list[str]
    requests: list[str]


class Browser:
    def __init__(self, process: subprocess.Popen[bytes], to_browser: int, from_browser: int) -> None:
        self._process, self._to, self._from = process, to_browser, os.fdopen(from_browser, "rb")
        self._number, self._left = 0, b""
        self._target: str | None = None
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []

    def show(self, document: str | Path, *, dark: bool = False) -> Shown:
        """Open a file."""
        self._open_page()
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self._call("Emulation.setDeviceMetricsOverride", width=900, height=600, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self._call("Page.navigate", url=Path(document).resolve().as_uri())
        self._wait("Page.loadEventFired")
        picture = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        page = self.evaluate("document.body.innerText"), self.evaluate("document.documentElement.outerHTML")
        messages = [json.dumps(event) for event in self._events if event["method"] in _MESSAGES]
        requests = [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return Shown(*page, base64.b64decode(picture["data"]), messages, requests)

    def evaluate(self, script: str) -> Any:
        """The value of a script in the page that is open."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def colours(self, png: bytes) -> dict[tuple[int, int, int], int]:
        """The number of pixels of each colour in a picture."""
        self._open_page()
        counts = json.loads(self.evaluate(_COUNT_COLOURS % base64.b64encode(png).decode()))
        return {(int(n) & 255, int(n) >> 8 & 255, int(n) >> 16 & 255): count for n, count in counts.items()}

    def _open_page(self) -> None:
        self._session = None
        if self._target is not None:
            self._call("Target.closeTarget", targetId=self._target)
        self._target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _wait(self, method: str) -> None:
        while all(event["method"] != method for event in self._events):
            self._read()

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = self._from.read1(1 << 20)
            assert more, f"the browser ended with code {self._process.poll()}"
            self._left += more
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message


_MESSAGES = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def start_browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium; skip the test if there is none, unless the environment requires one."""
    program = find_browser()
    if program is None:
        message = f"needs Chromium on the PATH, such as Debian's package chromium; {REQUIRED} makes this an error"
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)(message)
    read_here, write_there = os.pipe()
    read_there, write_here = os.pipe()
    # The browser reads from descriptor 3 and writes to descriptor 4. Other shells know only descriptors up to 9.
    script = f'exec "$0" "$@" 3<&{read_there} 4>&{write_there}'
    command = ["bash", "-c", script, program, *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        command, pass_fds=(read_there, write_there), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(read_there)
    os.close(write_there)
    browser = Browser(process, write_here, read_here)
    try:
        yield browser
    finally:
        os.close(write_here)
        process.terminate()
        process.wait()
        browser._from.close()
