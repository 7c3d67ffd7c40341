"""Buttons, faults, parameter fields and texts of a web page.

viser calls callbacks in its own threads. A callback only stores the user's command. The thread that
updates the page also sends the commands. If the time bar moves several times, only its last
position is sent.

Names in texts are escaped, because a recording may come from an untrusted person.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import viser

from rtsim.core.tag import NS_PER_S
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.web.source import About, Look
from rtsim.timing.frames import NO_SAMPLE

# State of the run and its latest messages, as HTML.

MOST_TOPICS = 40
_MOST_VALUES = 4
_PADDED = "padding:0 0.6em 0.6em 0.6em"
_NOTE = "margin:0.4em 0;padding:0.4em 0.6em;border-left:0.25em solid #d9480f;background:#d9480f1a"
_STYLE = "font-size:0.8em;font-variant-numeric:tabular-nums;border-spacing:0.5em 0;text-align:right"


def state_html(
    state: StateTable, measured: float | None, title: str, said: str, note: str = ""
) -> str:
    """Return the state as a table.

    ``measured`` is the measured rate, and ``said`` is the answer to the last command. The text
    ``note`` appears above the table.
    """
    pace = "paused" if state.standing else f"rate {state.rate:g}" if state.rate else "rate max"
    if measured is not None and not state.standing:
        pace += f" ({measured:.2f} measured)"
    rows = [
        ("simulated time", f"{state.ns / NS_PER_S:.3f} s"),
        ("pace", pace),
        ("overruns", _overruns(state)),
        ("late answers, missed requests", f"{state.late}, {state.missed}"),
    ]
    if state.rate and state.margin_ns != NO_SAMPLE:
        rows.append(("margin of the last frame", f"{state.margin_ns / 1e6:.3f} ms"))
    if state.lateness_ns >= 0:
        rows.append(("lateness of the last wake", f"{state.lateness_ns / 1e6:.3f} ms"))
    if state.leg > 1:
        rows.append(("segment of the run", str(state.leg)))
    cells = "".join(
        f"<tr><td style='text-align:left'>{escape(a)}</td><td>{escape(b)}</td></tr>"
        for a, b in rows
    )
    last = f"<div style='font-size:0.8em'>{escape(said)}</div>" if said else ""
    table = f"<table style='{_STYLE};width:100%'>{cells}</table>"
    above = f"<div style='{_NOTE}'>{escape(note)}</div>" if note else ""
    return f"<div style='{_PADDED}'><b>{escape(title)}</b>{above}{table}{last}</div>"


def _overruns(state: StateTable) -> str:
    if not state.overruns:
        return "0"
    causes = f" (compute {state.overruns_compute}, wake {state.overruns_wake})"
    return f"{state.overruns}{causes if state.frames else ''}"


def messages_html(about: About, look: Look) -> str:
    """Return the latest message of each topic with its three time stamps."""
    head = ("topic", "initiated", "completed", "arrival [s]", "values")
    rows = []
    for topic, stamps in list(look.stamps.items())[:MOST_TOPICS]:
        times = [f"{ns / NS_PER_S:.6f}" for ns in stamps]
        rows.append((topic, *times, _values(about, look, topic)))
    left = len(look.stamps) - len(rows)
    more = f"<div>{left} more topics are not shown</div>" if left > 0 else ""
    return _table(head, rows) + more


def _values(about: About, look: Look, topic: str) -> str:
    columns = about.topics.get(topic, ())
    known = [look.values.get(f"{topic}.{c}", math.nan) for c in columns[:_MOST_VALUES]]
    dots = ", ..." if len(columns) > _MOST_VALUES else ""
    return ", ".join(f"{v:.6g}" for v in known) + dots


def values_html(about: About, values: Mapping[str, float]) -> str:
    rows = [(n, f"{v:.6g}", about.signals.get(n, "")) for n, v in values.items()]
    return _table(("signal", "value", "unit"), rows)


MOST_REQUIREMENTS = 100
_VERDICTS = {"failed": "violated", "passed": "holds"}


def requirements_html(about: About, look: Look) -> str:
    """Return each requirement with its verdict and its robustness as HTML.

    The rows of violated requirements are red. A tooltip shows the formula and the text of each
    requirement.
    """
    watched = {str(one["name"]): one for one in look.watched}
    rows = []
    for one in about.requirements[:MOST_REQUIREMENTS]:
        name = str(one["name"])
        found = watched.get(name, {"robustness": (None, None), "outcome": ""})
        verdict = _VERDICTS.get(str(found["outcome"]), "open")
        at = found.get("at_ns") if verdict == "violated" else None
        cells = (name, verdict, _margin(*found["robustness"]), _seconds(at))
        colour = {"violated": " style='color:#c92a2a;font-weight:bold'",
                  "holds": " style='color:#2b8a3e'"}.get(verdict, "")  # fmt: skip
        about_it = escape("\n".join(filter(None, (one.get("text"), one["formula"]))), quote=True)
        rows.append(
            f"<tr{colour} title='{about_it}'>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        )  # fmt: skip
    left = len(about.requirements) - len(rows)
    more = f"<div>{left} more requirements are not shown</div>" if left > 0 else ""
    head = _table(("requirement", "so far", "robustness", "at [s]"), ()).removesuffix("</table>")
    return f"<div style='{_PADDED}'>{head}{''.join(rows)}</table>{more}</div>"


def _margin(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if low == high:
        return f"{low:.4g}"
    if low is None:
        return f"<= {high:.4g}"
    return f">= {low:.4g}" if high is None else f"{low:.4g} to {high:.4g}"


def _seconds(ns: int | None) -> str:
    return "" if ns is None else f"{ns / NS_PER_S:.3f}"


def note_html(text: str) -> str:
    return f"<div style='font-size:0.8em;{_PADDED}'>{escape(text)}</div>"


def small_html(text: str, marked: bool) -> str:
    """Return a small line below an input; with ``marked``, the line is emphasised."""
    colour = "color:#d9480f" if marked else "opacity:0.65"
    style = f"font-size:0.75em;margin:-0.7em 0.9em 0.3em;text-align:right;{colour}"
    return f"<div style='{style}'>{escape(text)}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table style='{_STYLE}'><tr>{top}</tr>{body}</table>"


MOST_PARAMETERS = 40
"""Limit of the parameters with fields on the page. A filter selects them."""
MOST_ELEMENTS = 8
"""An array with more elements than this has no fields."""
_MOST_FAULTS = 40
_MOST_WAITING = 100
_MOST_UNDONE = 50
_FASTEST, _SLOWEST = 1024.0, 1 / 64
Command = tuple[str, dict[str, Any]]


class Commands:
    """Commands that wait for the thread that sends commands. Any thread may add commands."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, Command] = {}
        self._numbers = 0
        self.dropped = 0

    def add(self, kind: str, once: str = "", **arguments: Any) -> None:
        with self._lock:
            self._numbers += 1
            key = once or f"#{self._numbers}"
            if key not in self._waiting and len(self._waiting) >= _MOST_WAITING:
                self.dropped += 1
                return
            self._waiting[key] = (kind, arguments)

    def take(self) -> list[Command]:
        with self._lock:
            found, self._waiting = list(self._waiting.values()), {}
        return found


class RunControls:
    """The buttons for a run in progress or a recording."""

    def __init__(self, gui: viser.GuiApi, about: About, commands: Commands) -> None:
        self._commands, self._state = commands, StateTable(rate=1.0)
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

    def show(self, state: StateTable) -> None:
        """Move the time bar to the present time."""
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
    """Fields for parameters, with their units, ranges and present values.

    A typed value takes effect after Enter or a click on Apply. Undo restores the values before the
    last change with these fields. ``ask`` executes a function in the thread that updates the page.

    The fields have several lines, because viser then sends Enter as part of the text.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        rows: Sequence[Mapping[str, Any]],
        commands: Commands | None,
        ask: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._gui, self._commands, self._ask = gui, commands, ask
        self._rows = {str(row["name"]): row for row in rows}
        self._fields: dict[str, list[Any]] = {}
        self._notes: dict[str, Any] = {}
        self._more: list[Any] = []
        """All parts that are created again with each filter."""
        self._known: dict[str, list[float]] = {}
        """Values of the run that the fields show or showed last."""
        self._edited: set[str] = set()
        self._undo: list[dict[str, list[float]]] = []
        self.wrong = ""
        """Why the last texts were not applied; empty if they were applied."""
        self._at_fault = ""

    def open(self, folder: Any, pattern: str = "") -> None:
        """Show fields for the parameters whose names contain ``pattern``.

        Pending texts are lost.
        """
        for one in self._more:
            one.remove()
        self._fields, self._notes, self._more = {}, {}, []
        self._edited, self._known, self.wrong = set(), {}, ""
        found = [row for name, row in self._rows.items() if pattern.lower() in name.lower()]
        with folder:
            if self._commands is not None and found:
                for text, then in (
                    ("Apply", self.apply), ("Discard", self.discard), ("Undo", self.undo)
                ):  # fmt: skip
                    self._button(text, then)
            for row in found[:MOST_PARAMETERS]:
                self._fields[str(row["name"])] = self._field(row)
            if len(found) > MOST_PARAMETERS:
                left = f"{len(found) - MOST_PARAMETERS} more: type a part of the name"
                self._more.append(self._gui.add_markdown(left))

    @property
    def names(self) -> list[str]:
        """The signals whose values the fields show."""
        return [n for name, fields in self._fields.items() for n in _elements(name, len(fields))]

    def show(self, values: Mapping[str, float]) -> None:
        """Show the present values, except in fields with typed text."""
        for name, fields in self._fields.items():
            now = [values.get(n, math.nan) for n in _elements(name, len(fields))]
            if self._known.get(name) != now and all(map(math.isfinite, now)):
                self._known[name] = now
                if name not in self._edited:
                    self._fill(name)
            if fields:
                self._note(name)

    def _button(self, text: str, then: Callable[[], None]) -> None:
        button: Any = self._gui.add_button(text)
        button.on_click(lambda _: self._ask(text, then))
        self._more.append(button)

    def _fill(self, name: str) -> None:
        for field, value in zip(self._fields[name], self._known[name], strict=True):
            field.value = repr(value)

    def _note(self, name: str) -> None:
        row = self._rows[name]
        said = _allowed(row)
        if name in self._edited and name in self._known:
            now = ", ".join(f"{v:.6g}" for v in self._known[name])
            said = f"pending, now {now}{_unit(row)}; {said}"
            if self.wrong and name == self._at_fault:
                said = f"not set: type {_allowed(row)}, then Enter"
        text = small_html(said, marked=name in self._edited)
        if self._notes[name].content != text:
            self._notes[name].content = text

    def _field(self, row: Mapping[str, Any]) -> list[Any]:
        name, values = str(row["name"]), [float(v) for v in row["value"]]
        if not 0 < len(values) <= MOST_ELEMENTS or not all(map(math.isfinite, values)):
            return []
        how: dict[str, Any] = {"hint": row["description"] or None}
        made = [
            self._gui.add_text(
                label, repr(value), multiline=True, disabled=self._commands is None, **how
            )
            for label, value in zip(_elements(name, len(values)), values, strict=True)
        ]
        self._notes[name] = self._gui.add_html("")
        self._more += [*made, self._notes[name]]
        for one in made:
            if self._commands is not None:
                one.on_update(lambda event: self._typed(event, name))
        return made

    def _typed(self, event: Any, name: str) -> None:
        if event.client_id is None:
            return  # this process wrote the value
        self._edited.add(name)
        if "\n" in str(event.target.value):
            self._ask(f"set {name}", lambda: self.apply(name))

    # -- Enter, Apply, Discard and Undo

    def apply(self, only: str = "") -> None:
        """Set all edited parameters, or only ``only``. If one text is wrong, set none."""
        edited = sorted(name for name in self._edited.copy() if only in ("", name))
        texts: dict[str, list[str]] = {}
        for name in edited:
            for field in self._fields[name]:
                if "\n" in field.value:
                    field.value = field.value.replace("\n", "")
            texts[name] = [str(field.value) for field in self._fields[name]]
        try:
            wanted = {name: self._read(name, text) for name, text in texts.items()}
        except ValueError as error:
            self.wrong = f"nothing was set: {error}"
            return
        self.wrong = self._at_fault = ""
        self._edited -= wanted.keys()
        before = {n: self._known[n] for n, v in wanted.items() if n in self._known}
        if before and before != wanted:
            self._undo = [*self._undo, before][-_MOST_UNDONE:]
        self._set(wanted)

    def discard(self) -> None:
        """Replace pending texts by the run's values."""
        edited, self._edited = self._edited, set()
        self.wrong = ""
        for name in edited & self._known.keys():
            self._fill(name)

    def undo(self) -> None:
        """Restore the values before the last change."""
        if self._undo:
            self._set(self._undo.pop())
        else:
            self.wrong = "there is no change to undo"

    def refused(self, name: str) -> None:
        if self._undo:
            self._undo[-1].pop(name, None)
            self._undo = [one for one in self._undo if one]
        if name in self._known and name in self._fields:
            self._fill(name)

    def _set(self, wanted: Mapping[str, list[float]]) -> None:
        if self._commands is None:
            return
        for name, value in wanted.items():
            self._commands.add(
                "set", once=f"set {name}", target=name, value=value[0] if len(value) == 1 else value
            )

    def _read(self, name: str, texts: Sequence[str]) -> list[float]:
        row = self._rows[name]
        low, high = row["low"], row["high"]
        found: list[float] = []
        for text in texts:
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            inside = (low is None or value >= low) and (high is None or value <= high)
            if not math.isfinite(value) or not inside:
                self._at_fault = name
                raise ValueError(f"{name} cannot be {text[:40]!r}; type {_allowed(row)}")
            found.append(value)
        return found


def _elements(name: str, size: int) -> list[str]:
    return [name] if size == 1 else [f"{name}_{k}" for k in range(size)]


def _unit(row: Mapping[str, Any]) -> str:
    return "" if row["unit"] in ("", "1") else f" {row['unit']}"


def _allowed(row: Mapping[str, Any]) -> str:
    low, high, unit = row["low"], row["high"], _unit(row)
    if low is not None and high is not None:
        return f"{low:g} to {high:g}{unit}"
    if low is not None or high is not None:
        return f"at least {low:g}{unit}" if high is None else f"at most {high:g}{unit}"
    return f"any number,{unit}" if unit else "any number"
