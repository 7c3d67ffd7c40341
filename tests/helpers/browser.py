"""A headless Chromium that opens a page: its errors, what it drew, and a picture of it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
"""The installed browser; None without one."""
_PATIENCE_S = 60.0
_READY = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
    setTimeout(() => done(true), 300))))"""


class Browser:
    """One page of a headless Chromium; ``errors`` are those of its console."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._count = socket, 0
        self.errors: list[str] = []
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        found = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    _session = ""

    def tell(self, method: str, **arguments: object) -> dict[str, Any]:
        """Give one command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=_PATIENCE_S))
            self._hear(answer)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path, width: int, height: int = 1200, *, dark: bool = False) -> None:
        """Open ``page`` at ``width`` pixels and wait until its charts in view are drawn."""
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        self.tell("Page.navigate", url=page.as_uri())
        self.run(
            "new Promise(done => document.readyState === 'complete' ? done() "
            ": addEventListener('load', () => done()))"
        )
        self.run(_READY)

    def run(self, script: str) -> Any:
        """Return the value of a script, or of the promise that it gives."""
        found = self.tell(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save a picture of what the window shows, or of the whole page."""
        found = self.tell("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _hear(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(said["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(said["entry"]["text"])
        if event.get("method") == "Runtime.consoleAPICalled" and said["type"] == "error":
            self.errors.append(json.dumps(said["args"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a headless Chromium with a profile of its own, and end it afterwards."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            with connect(_address(process), max_size=None, compression=None) as socket:
                yield Browser(socket)
        finally:
            process.kill()
            process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    """Return the address that Chromium prints."""
    assert process.stderr is not None
    kill = threading.Timer(_PATIENCE_S, process.kill)
    kill.start()
    try:
        for line in process.stderr:
            if "listening on" in line:
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return line.rpartition(" ")[2].strip()
    finally:
        kill.cancel()
    raise AssertionError("Chromium gave no address")
