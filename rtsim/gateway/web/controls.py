"""The controls of a page: buttons, faults, and fields for parameters.

The callbacks of viser run in threads of its own.  They only note what the user wants; the thread of
the page gives the commands.  A slider that is dragged notes many values, of which only the last is
given.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import viser

from rtsim.core.tag import NS_PER_S
from rtsim.gateway.web.source import About, PageState

MOST_PARAMETERS = 40
"""Fields of parameters on the page at a time; a filter chooses them."""
MOST_ELEMENTS = 8
"""An array with more elements has no fields."""
_MOST_FAULTS = 40
_MOST_WAITING = 100
_STEPS = 200
"""Number of steps of a slider from its lower to its upper limit."""
_FASTEST, _SLOWEST = 1024.0, 1 / 64
Command = tuple[str, dict[str, Any]]


class Commands:
    """The commands that users asked for and that were not given yet; any thread may add some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, Command] = {}
        self._numbers = 0
        self.dropped = 0

    def add(self, kind: str, once: str = "", **arguments: Any) -> None:
        """Add a command; it replaces a waiting one with the same text ``once``."""
        with self._lock:
            self._numbers += 1
            key = once or f"#{self._numbers}"
            if key not in self._waiting and len(self._waiting) >= _MOST_WAITING:
                self.dropped += 1
                return
            self._waiting[key] = (kind, arguments)

    def take(self) -> list[Command]:
        """Return the waiting commands, in order, and forget them."""
        with self._lock:
            found, self._waiting = list(self._waiting.values()), {}
        return found


class RunControls:
    """The buttons of a run in progress or of a recording."""

    def __init__(self, gui: viser.GuiApi, about: About, commands: Commands) -> None:
        self._commands, self._state = commands, PageState(0, 1.0, False)
        self._bar: Any = None
        self._shown_ns = -1
        tell = commands.add
        self._button(gui, "Pause or resume", self._toggle)
        self._button(gui, "Step", lambda: tell("step"))
        rates: Any = gui.add_button_group("Rate", ("slower", "real time", "faster"))
        rates.on_click(lambda event: self._rate(event.target.value))
        if about.ends is None:
            self._button(gui, "Back to the last checkpoint", lambda: tell("restore"))
            self._button(gui, "Save a checkpoint", lambda: tell("checkpoint"))
            self._faults(gui, about)
        else:
            begin, end = (ns / NS_PER_S for ns in about.ends)
            step = max((end - begin) / 2000, 1e-9)
            end = max(end, begin + step)
            self._bar = gui.add_slider("Time [s]", begin, end, step, begin)
            self._bar.on_update(self._moved)

    def show(self, state: PageState) -> None:
        """Show the present time on the time bar; a user's hand on the bar goes first."""
        self._state = state
        if self._bar is not None and state.ns != self._shown_ns:
            self._shown_ns = state.ns
            self._bar.value = min(max(state.ns / NS_PER_S, self._bar.min), self._bar.max)

    def _button(self, gui: viser.GuiApi, text: str, then: Callable[[], None]) -> None:
        button: Any = gui.add_button(text)
        button.on_click(lambda _: then())

    def _moved(self, event: Any) -> None:
        if event.client_id is not None and math.isfinite(float(event.target.value)):
            self._commands.add("seek", once="seek", ns=round(event.target.value * NS_PER_S))

    def _toggle(self) -> None:
        self._commands.add("resume" if self._state.standing else "pause")

    def _rate(self, word: str) -> None:
        rate = self._state.rate or 1.0
        factor = {"slower": 0.5, "faster": 2.0}.get(word)
        wanted = 1.0 if factor is None else min(max(rate * factor, _SLOWEST), _FASTEST)
        self._commands.add("rate", once="rate", rate=wanted)

    def _faults(self, gui: viser.GuiApi, about: About) -> None:
        names = list(about.faults)[:_MOST_FAULTS]
        if not names:
            return
        chosen: Any = gui.add_dropdown("Fault", tuple(names), initial_value=names[0])
        for word in ("start", "clear"):
            then = partial(self._fault, chosen, word)
            self._button(gui, f"Fault: {word}", then)

    def _fault(self, chosen: Any, word: str) -> None:
        self._commands.add("fault", name=str(chosen.value), do=word)


class Parameters:
    """Fields for parameters, with their units and ranges."""

    def __init__(
        self, gui: viser.GuiApi, rows: Sequence[Mapping[str, Any]], commands: Commands | None
    ) -> None:
        self._gui, self._rows, self._commands = gui, list(rows), commands
        self._fields: dict[str, list[Any]] = {}
        self._known: dict[str, list[float]] = {}
        self._note: Any = None

    def open(self, folder: Any, pattern: str = "") -> None:
        """Make fields for the parameters whose names contain ``pattern``; remove the others."""
        for one in [field for fields in self._fields.values() for field in fields]:
            one.remove()
        if self._note is not None:
            self._note.remove()
        self._fields, self._note = {}, None
        found = [r for r in self._rows if pattern.lower() in str(r["name"]).lower()]
        with folder:
            for row in found[:MOST_PARAMETERS]:
                self._fields[str(row["name"])] = self._field(row)
            if len(found) > MOST_PARAMETERS:
                left = f"{len(found) - MOST_PARAMETERS} more: type a part of the name"
                self._note = self._gui.add_markdown(left)

    @property
    def names(self) -> list[str]:
        """The signals that have the values of the fields."""
        return [n for name, fields in self._fields.items() for n in _elements(name, len(fields))]

    def show(self, values: Mapping[str, float]) -> None:
        """Show the present values, which another client may have set."""
        for name, fields in self._fields.items():
            now = [values.get(n, math.nan) for n in _elements(name, len(fields))]
            if self._known.get(name) == now or not all(map(math.isfinite, now)):
                continue
            self._known[name] = now
            for field, value in zip(fields, now, strict=True):
                field.value = value

    def _field(self, row: Mapping[str, Any]) -> list[Any]:
        name, values = str(row["name"]), [float(v) for v in row["value"]]
        if not 0 < len(values) <= MOST_ELEMENTS or not all(map(math.isfinite, values)):
            return []
        unit = "" if row["unit"] in ("", "1") else f" [{row['unit']}]"
        made: list[Any] = []
        for k, value in enumerate(values):
            label = name if len(values) == 1 else f"{name}_{k}"
            made.append(self._input(f"{label}{unit}", value, row))
        for one in made:
            if self._commands is not None:
                one.on_update(lambda event: self._changed(event, name, made))
        return made

    def _input(self, label: str, value: float, row: Mapping[str, Any]) -> Any:
        low, high = row["low"], row["high"]
        hint = f"{row['description']} range {_limit(low, '-inf')} to {_limit(high, 'inf')}".strip()
        how: dict[str, Any] = {"hint": hint, "disabled": self._commands is None}
        bounded = low is not None and high is not None and high > low
        if bounded and low <= value <= high:
            step = (high - low) / _STEPS
            return self._gui.add_slider(label, float(low), float(high), step, value, **how)
        return self._gui.add_number(label, value, step=_step(value), **how)

    def _changed(self, event: Any, name: str, fields: Sequence[Any]) -> None:
        if event.client_id is None or self._commands is None:
            return  # this process showed the value
        value = [float(field.value) for field in fields]
        if not all(map(math.isfinite, value)):
            return
        self._commands.add(
            "set", once=f"set {name}", target=name, value=value[0] if len(value) == 1 else value
        )


def _elements(name: str, size: int) -> list[str]:
    return [name] if size == 1 else [f"{name}_{k}" for k in range(size)]


def _limit(value: float | None, text: str) -> str:
    return text if value is None else f"{value:g}"


def _step(value: float) -> float:
    """Return a step of a number field: three digits below the first digit of ``value``."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - 3) if value else 0.001
