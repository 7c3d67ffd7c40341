"""A client of the Debug Adapter Protocol, as an editor has one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class DapClient:
    """Starts a server, and speaks to it over its standard input and output."""

    def __init__(self, command: Sequence[str | Path], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._sequence = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> DapClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, command: str, **arguments: Any) -> int:
        self._sequence += 1
        message = {"seq": self._sequence, "type": "request", "command": command}
        data = json.dumps({**message, "arguments": arguments}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._process.stdin.flush()
        return self._sequence

    def _received(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            size = int(line.partition(b":")[2]) if line.startswith(b"Content-Length") else size
        assert size, "the server has ended"
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        if message["type"] == "event":
            self.events.append(message)
        return message

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and return the body of its response."""
        return self.answer(self.send(command, **arguments), command)

    def answer(self, sequence: int, command: str = "") -> dict[str, Any]:
        message = self._response(sequence)
        assert message["success"], (command, message)
        return message.get("body") or {}

    def _response(self, sequence: int) -> dict[str, Any]:
        while True:
            message = self._received()
            if message["type"] == "response" and message["request_seq"] == sequence:
                return message

    def stopped(self, function: str) -> dict[str, Any]:
        """Wait until the top frame of a stop is that of ``function``; return the frame."""
        while True:
            message = self._received()
            if message["type"] == "event" and message["event"] == "stopped":
                asked = self.send("stackTrace", threadId=message["body"].get("threadId", 1))
                frames = self._response(asked).get("body", {}).get("stackFrames")
                if frames and frames[0]["name"] == function:  # none if the process runs again
                    return frames[0]  # type: ignore[no-any-return]
