"""A program in a real terminal, and what stands on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence

from rtsim.core.clock import stopwatch

_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()=>][0B]?|\x1b\][^\x07]*\x07")


class Terminal:
    """``command`` on a pseudo terminal of ``size`` (columns, lines)."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (100, 30)
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(*size)
        self._theirs = os.dup(theirs)
        self.before = termios.tcgetattr(theirs)
        self.raw = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")
        known = {k: v for k, v in env.items() if k not in ("COLUMNS", "LINES")}
        known["TERM"] = "xterm-256color"
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=known
        )
        os.close(theirs)

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> None:
        """What comes within that time."""
        over = stopwatch() + round(seconds * 1e9)
        while (rest := over - stopwatch()) > 0:
            if not select.select([self._ours], [], [], rest / 1e9)[0]:
                return
            try:
                self.raw += self._decoder.decode(os.read(self._ours, 65536))
            except OSError:
                return

    def until(self, wanted: str, seconds: float = 60.0) -> str:
        """The screen, once ``wanted`` (a pattern) is on it."""
        over = stopwatch() + round(seconds * 1e9)
        while stopwatch() < over:
            self.read(0.2)
            if re.search(wanted, self.screen()):
                return self.screen()
        raise AssertionError(f"no {wanted!r} within {seconds:g} s on\n{self.screen()}")

    def screen(self) -> str:
        """What stands there: cursor movement and clearing are followed, colours are not."""
        cells = [[" "] * self.columns for _ in range(self.lines)]
        row = column = at = 0
        text = self.raw
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found is not None:
                at = found.end()
                numbers, what = found[1] or "", found[2]
                if what == "H":
                    given = [int(n or 1) for n in numbers.split(";")] if numbers else [1, 1]
                    row, column = given[0] - 1, given[1] - 1
                elif what == "J" or (what in ("h", "l") and "1049" in numbers):
                    cells = [[" "] * self.columns for _ in range(self.lines)]
                    if what == "l":
                        row = column = 0
                elif what == "K" and row < self.lines:
                    cells[row][column:] = [" "] * (self.columns - column)
                continue
            char = text[at]
            at += 1
            if char == "\n":
                row += 1
                if row >= self.lines:
                    cells.append([" "] * self.columns)
                    del cells[0]
                    row = self.lines - 1
            elif char == "\r":
                column = 0
            elif row < self.lines and column < self.columns and char.isprintable():
                cells[row][column] = char
                column += 1
        return "\n".join("".join(line).rstrip() for line in cells)

    @property
    def as_it_was(self) -> bool:
        """Its modes are those of before, the alternate screen is left, the cursor is seen."""
        now = termios.tcgetattr(self._theirs)
        left = self.raw.rfind("\x1b[?1049l") > self.raw.rfind("\x1b[?1049h")
        seen = self.raw.rfind("\x1b[?25h") > self.raw.rfind("\x1b[?25l")
        return now == self.before and left and seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)
