"""Progress of a run or a study, in a notebook or on a terminal.

The progress bar in a notebook needs neither widgets nor a network. Nothing is displayed in the
first second.
"""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.runs.request import Progress

FIRST_NS, EVERY_NS = 1_000_000_000, 200_000_000
"""Wall-clock time until the first text and between texts, ns."""


class Display(Protocol):
    """Interface of a display that shows one text at a time."""

    def write(self, text: str, share: float) -> None:
        """Replace the last text by ``text``.

        ``share`` is the completed fraction of the work, 0 to 1.
        """

    def keep(self, text: str) -> None:
        """Show ``text`` permanently."""

    def close(self) -> None:
        """Remove the text."""


class TerminalLine:
    """One line on stderr, which shows one text at a time."""

    _written = False

    def write(self, text: str, share: float) -> None:  # noqa: ARG002
        self._written = True
        shown = text[: _columns() - 1]  # a line that wraps could not be written again
        with suppress(OSError):  # a terminal that is gone
            sys.stderr.write(f"\r{shown}\x1b[K")
            sys.stderr.flush()

    def keep(self, text: str) -> None:
        self.write("", 0.0)
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        if self._written:
            self.write("", 1.0)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class _Markup:
    def __init__(self, text: str, share: float) -> None:
        self._text, self._share = text, share

    def _repr_html_(self) -> str:
        if not self._text:
            return ""
        bar = f"<progress value='{self._share:.4f}' max='1'></progress>"
        return f"{bar} <code>{html.escape(self._text)}</code>"

    def __repr__(self) -> str:
        return self._text


class NotebookBar:
    """A progress bar in the output of a notebook cell."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def write(self, text: str, share: float) -> None:
        markup = _Markup(text, share)
        if self._handle is None:
            self._handle = self._display(markup, display_id=True)
        else:
            self._handle.update(markup)

    def keep(self, text: str) -> None:
        self._display(_Markup(text, 0.0))

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update(_Markup("", 1.0))


def display_of(wanted: bool | None) -> Display | None:
    """Return a display for the progress, or ``None`` for no display.

    With ``wanted=None``, the progress is shown in a notebook or on a terminal. With
    ``wanted=True``, the progress is always shown, outside a notebook on stderr.
    """
    if wanted is False:
        return None
    display = notebook_display()
    if display is not None:
        return NotebookBar(display)
    return TerminalLine() if wanted or sys.stderr.isatty() else None


def notebook_display() -> Callable[..., Any] | None:
    """Return ``IPython.display.display`` in a notebook, and ``None`` elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display


class Pulse:
    """Timer for progress texts; ``first_ns`` is the time until the first text."""

    def __init__(self, first_ns: int = FIRST_NS, every_ns: int = EVERY_NS) -> None:
        self._next = stopwatch() + first_ns
        self._every = every_ns

    def due(self) -> int:
        """Return the wall-clock time (ns) if a text is due, or 0."""
        now = stopwatch()
        if now < self._next:
            return 0
        self._next = now + self._every
        return now


class RunText:
    """The progress of a run as text: times, rate and slack time."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._shown: tuple[int, int] | None = None
        """Wall-clock and simulated time of the last text, ns, for computing the rate."""

    def due(self, progress: Progress) -> str:
        if self._shown is None:
            self._shown = (stopwatch(), progress.ns)
        now = self._pulse.due()
        if not now:
            return ""
        pacer = progress.pacer
        then, ns = self._shown
        self._shown = (now, progress.ns)
        rate = (progress.ns - ns) / (now - then) if now > then else 0.0
        text = f"{progress.ns / NS_PER_S:9.2f} / {progress.until_ns / NS_PER_S:g} s  x{rate:<8.4g}"
        if pacer.clock.paced:
            text += (
                f" slack {pacer.margin_ns / 1e6:7.3f} ms  overruns {sum(pacer.overruns.values())}"
            )
        return text


Observe = Callable[[Progress], None]


@contextmanager
def progress_shown(wanted: bool | None, observe: Observe | None) -> Iterator[Observe | None]:
    """Context manager that yields an observer, which shows the progress of a run.

    The observer also calls ``observe``. With ``observe``, the progress is shown only if ``wanted``
    is True.
    """
    if observe is not None and not wanted:
        yield observe
        return
    display = display_of(wanted)
    if display is None:
        yield observe
        return
    texts = RunText(Pulse())

    def show(progress: Progress) -> None:
        if text := texts.due(progress):
            display.write(text, progress.ns / progress.until_ns)
        if observe is not None:
            observe(progress)

    try:
        yield show
    finally:
        display.close()


class ProgressLine:
    """Line on the terminal with the progress of a run, updated up to five times per second.

    The class needs little time, because it runs in the thread of the simulation.
    """

    def __init__(self, name: str, enabled: bool, noted: bool = False) -> None:
        """Create the progress line for a run; with ``enabled=False``, it stays empty.

        With ``noted=True``, the first compilation is reported even then.
        """
        self.begun = False
        """True if at least one frame has been computed."""
        self._name = name
        self._enabled, self._noted = enabled, noted and not enabled
        self._texts, self._pulse = RunText(Pulse(first_ns=0)), Pulse(first_ns=0)
        self._line = TerminalLine()

    def compiling(self, what: str) -> None:
        """Report the compilation of ``what``, which takes seconds."""
        if self._enabled:
            self._write(f"compiling {self._name} (only the first time; some seconds): {what} …")
        elif self._noted:
            self._noted = False
            sys.stderr.write(f"compiling {self._name} (only the first time; some seconds)\n")
            sys.stderr.flush()

    def show(self, progress: Progress) -> None:
        self.begun = True
        if self._enabled and (text := self._texts.due(progress)):
            self._write(text)

    def say(self, text: str) -> None:
        """Show ``text`` in place of the progress."""
        if self._enabled:
            self._write(text)

    def count(self, what: str, done: int, of: int) -> None:
        """Show the number of completed parts of the work."""
        if self._enabled and self._pulse.due():
            self._write(f"{what} {done} / {of}")

    def tell(self, text: str) -> None:
        if self._enabled:
            self._write("")
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    @property
    def when_interrupted(self) -> str:
        """Return the message for an interrupt outside the run itself."""
        if self.begun:
            return "interrupted while the recording was being completed; it may be cut off"
        return "interrupted before the run began"

    def close(self) -> None:
        if self._enabled:
            self._write("")

    def _write(self, text: str) -> None:
        self._line.write(text, 0.0)
