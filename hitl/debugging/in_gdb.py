"""Commands of gdb that move between the recorded steps of a controller.

gdb runs this file in its own Python, in which neither rtsim nor numpy is installed. ``rtsim-open``
reads a session that ``session.py`` wrote. ``debug.c`` is the program that gdb controls.
"""

from __future__ import annotations

import bisect
import json
import math
import mmap
import operator
import os
import re
from collections.abc import Callable
from typing import Any, Literal

import gdb

_CONDITION = re.compile(r"\s*(\S+?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*\Z")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
_HEAD = 6
_AT, _AFTER, _LEAVE = "rtsim_at_step", "rtsim_after_step", "rtsim_leave_step"
_FEW = 6
"""Largest number of inputs that each stop shows."""


class _Words:
    """A file of 64-bit numbers, of which only the pages that are read are in memory."""

    def __init__(self, path: str) -> None:
        self._empty = os.path.getsize(path) == 0
        if not self._empty:
            with open(path, "rb") as file:
                self._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def part(self, first: int, count: int, type: Literal["d", "q"] = "d") -> Any:
        return self._bytes[8 * first : 8 * (first + count)].cast(type) if count else ()


class Session:
    """The recorded steps, and the process that repeats them."""

    def __init__(self, folder: str, editor: bool) -> None:
        self.folder = folder
        self.editor = editor
        """True if an editor shows the stops, and gdb must therefore report them."""
        with open(os.path.join(folder, "session.json"), encoding="utf-8") as file:
            self.about: dict[str, Any] = json.load(file)
        self._steps = _Words(os.path.join(folder, "steps"))
        self._recorded = _Words(os.path.join(folder, "recorded"))
        self._signals = _Words(os.path.join(folder, "signals"))
        _, self.n, self.m, self.o, self.k, self.done = self._steps.part(0, _HEAD, "q")
        self._times = _HEAD + self.k
        self._inputs = self._times + self.n
        self._answers = self._inputs + self.n * self.m
        self.moving = False
        """True while a command moves the process, whose stops are then not the user's."""
        self._after_stop: Callable[[], object] | None = None
        """What follows the next stop of a start."""

    # -- the recording

    def time_ns(self, step: int) -> int:
        return int(self._steps.part(self._times + step, 1, "q")[0])

    def inputs(self, step: int) -> list[float]:
        return list(self._steps.part(self._inputs + step * self.m, self.m))

    def computed(self, step: int) -> list[float] | None:
        if step >= self.done:
            return None
        return list(self._steps.part(self._answers + step * self.o, self.o))

    def recorded(self, step: int) -> list[float] | None:
        if not self.about["answered"][step]:
            return None
        return list(self._recorded.part(step * self.o, self.o))

    def signal(self, name: str, first: int, count: int) -> Any:
        names = self.about["signals"]
        if name not in names:
            raise gdb.GdbError(f"there is no signal {name}; the signals are {', '.join(names)}")
        return self._signals.part(names.index(name) * self.n + first, count)

    def step_where(self, condition: str, steps: range) -> int | None:
        """Return the first step of ``steps`` at which a condition such as ``x < 2`` holds."""
        found = _CONDITION.match(condition)
        if found is None:
            raise gdb.GdbError(f"{condition!r} is no condition; write SIGNAL < VALUE, such as x<2")
        name, compared = found[1], _COMPARED[found[2]]
        try:
            value = float(found[3])
        except ValueError:
            raise gdb.GdbError(f"{found[3]} is no number; write SIGNAL < VALUE") from None
        values = self.signal(name, 0, self.n) if len(steps) else []
        return next((k for k in steps if compared(values[k], value)), None)

    def step_at(self, text: str) -> int:
        try:
            ns = round(float(text) * 1e9)
        except (ValueError, OverflowError):
            raise gdb.GdbError(f"{text!r} is no time; write step-at 1.5 (s)") from None
        times = self._steps.part(self._times, self.n, "q")
        step = bisect.bisect_right(times, ns) - 1
        if step < 0 or ns > times[-1] + (times[-1] - times[-2] if self.n > 1 else 0):
            span = f"{times[0] / 1e9:g} to {times[-1] / 1e9:g} s"
            raise gdb.GdbError(f"the steps are from {span}; there is none at {text} s")
        return step

    # -- the process

    @property
    def alive(self) -> bool:
        """True if the process runs, and has loaded the controller."""
        return bool(gdb.selected_inferior().pid and int(gdb.parse_and_eval("rtsim_runner")))

    def field(self, name: str) -> int:
        return int(gdb.parse_and_eval(f"rtsim_runner->{name}"))

    def set(self, name: str, value: int) -> None:
        gdb.execute(f"set var rtsim_runner->{name} = {value}")

    @property
    def step(self) -> int:
        """The step in which the process is."""
        if not self.alive:
            raise gdb.GdbError("the process is not at a step; type step-at TIME or rtsim-start")
        return self.field("step")

    def open(self) -> None:
        about = self.about
        for setting in ("confirm off", "breakpoint pending on", "print inferior-events off",
                        "print thread-events off", "debuginfod enabled off"):  # fmt: skip
            try:
                gdb.execute(f"set {setting}", to_string=True)
            except gdb.error:
                continue  # an older gdb
        gdb.execute(f"file {about['runner']}", to_string=True)
        gdb.execute(f"set environment RTSIM_DEBUG_LIBRARY {about['library']}")
        gdb.execute(f"set environment RTSIM_DEBUG_STEPS {os.path.join(self.folder, 'steps')}")
        _stop_in(_AT)
        gdb.events.stop.connect(self._stopped)

    def _stopped(self, event: gdb.StopEvent) -> None:  # noqa: ARG002
        """Continue a start by ``run`` or by an editor, whose commands end before the next stop."""
        if self.moving:
            return
        after, self._after_stop = self._after_stop, None
        if after is None and _function() == _AT:
            after = self._started
        if after is not None:
            gdb.post_event(lambda: _told(after))

    def _started(self) -> None:
        off = _Without()

        def arrived() -> None:
            off.end()
            self._check_arrival(target)
            stops = self._stops()
            self._after_stop = lambda: self._entered(step, stops)
            gdb.execute("continue")

        step = target = self.about["target"]
        if not target:
            return arrived()
        self.set("target", target)
        self.set("repeats", 1)
        self._after_stop = arrived
        gdb.execute("continue")
        return None

    def go_to(self, target: int, whole: bool = True) -> None:
        """Restore the memory before the step ``target``, and stop in its function."""
        if not 0 <= target < self.n:
            raise gdb.GdbError(f"the steps are 0 to {self.n - 1}; there is no step {target}")
        off, self.moving = _Without(), True
        try:
            if self.alive:
                self.set("target", target)
                self.set("jump", 1)
                if _function() == _AT:
                    gdb.execute("continue", to_string=True)
                else:
                    self._leave()
            if not self.alive or (_function() == _AT and self.field("lost")):
                gdb.execute("run", to_string=True)
                if target and self.alive and _function() == _AT:
                    self.set("target", target)
                    self.set("repeats", 1)
                    gdb.execute("continue", to_string=True)
            self._check_arrival(target)
        finally:
            self.moving = False
            off.end()
        self._enter(whole)

    def _leave(self) -> None:
        """Abandon the present step, also if it does not end or has crashed."""
        frame = gdb.newest_frame()
        frame.select()
        below = 8 if "x86" in frame.architecture().name() else 0  # as a call leaves the pointer
        gdb.execute(f"set var $sp = (rtsim_runner->stack & -16) - {below}")
        gdb.execute(f"jump *{_LEAVE}", to_string=True)

    def _check_arrival(self, target: int) -> None:
        if not self.alive:
            raise gdb.GdbError("the process ended before the step; the C code called exit()?")
        if _function() != _AT:
            gdb.execute("frame")
            raise gdb.GdbError(f"step {self.step} stopped here, before step {target} was reached")
        if self.field("differs") >= 0:
            gdb.write(
                f"warning: step {self.field('differs')} gave another answer than before: the C "
                "code depends on more than its inputs, such as uninitialised memory\n"
            )
            self.set("differs", -1)

    def run_to(self, target: int) -> None:
        """Run with the present memory until the step ``target``; the user's stops have priority."""
        if target >= self.n:
            raise gdb.GdbError(f"step {self.n - 1} is the last step of the recording")
        before = self.step
        self.set("target", target)
        self.moving = True
        try:
            said = gdb.execute("continue", to_string=True)
        finally:
            self.moving = False
        if not self.alive:
            gdb.write(said)
            raise gdb.GdbError(f"the process ended in step {before} or later")
        if _function() != _AT:
            gdb.write(said)
            gdb.write(f"stopped in step {self.step}\n")
            return
        self._say_changed(target - 1)
        self._enter()

    def _say_changed(self, step: int) -> None:
        """Say that the answer differs from the first computation: the user changed the memory."""
        answer = [float(gdb.parse_and_eval(f"rtsim_runner->answer[{j}]")) for j in range(self.o)]
        before = self.computed(step)
        if before is not None and not _same(answer, before):
            gdb.write(
                f"the answer of step {step} is now {_listed(self.about['outputs'], answer)}\n"
            )

    def _enter(self, whole: bool = True) -> None:
        """Continue from the runner into the function of the step.

        If not ``whole``, the process stops where the generated code sets the inputs.
        """
        step, stops = self.step, self._stops(whole)
        self.moving = True
        try:
            gdb.execute("continue", to_string=True)
        finally:
            self.moving = False
        if self._entered(step, stops) and whole:
            self.go_to(step, whole=False)

    def _stops(self, whole: bool = True) -> list[gdb.Breakpoint]:
        names = [name for name in self.about["functions"] if whole and _known(name)]
        out = [_stop_in(name) for name in (*(names or ["rtsim_step"]), _AFTER)]
        for one in out:
            one.silent = not self.editor
        return out

    def _entered(self, step: int, stops: list[gdb.Breakpoint]) -> bool:
        """Show where the process stopped; return True if the step called none of its functions."""
        for one in stops:
            one.delete()
        if self.alive and _function() == _AFTER:
            names = ", ".join(self.about["functions"]) or "no function"
            gdb.write(f"step {step} does not call {names}\n")
            return True
        self._note()
        gdb.write(self.brief() + "\n")
        gdb.execute("frame")
        return False

    def _note(self) -> None:
        frame = gdb.newest_frame()
        place = frame.find_sal()
        about = {
            "step": self.step,
            "function": frame.name(),
            "file": place.symtab.fullname() if place.symtab else None,
            "line": place.line,
        }
        with open(os.path.join(self.folder, "stopped.json"), "w", encoding="utf-8") as file:
            json.dump(about, file)

    # -- text

    def brief(self) -> str:
        step = self.step
        inputs = f"{self.m} inputs (rtsim-info shows them)"
        if self.m <= _FEW:
            inputs = _listed(self.about["inputs"], self.inputs(step))
        return f"step {step} at {_seconds(self.time_ns(step))}: {inputs}; {self.verdict(step)}"

    def verdict(self, step: int) -> str:
        names, recorded, computed = (
            self.about["outputs"], self.recorded(step), self.computed(step)
        )  # fmt: skip
        refused = self.about["refused"].get(str(step))
        if refused or recorded is None or computed is None:
            said = refused or (_listed(names, computed) if computed else self.about["stopped"])
            given = f"recorded answer {_listed(names, recorded)}" if recorded else "none recorded"
            return f"{given}; computed: {said or 'nothing'}"
        if _same(recorded, computed):
            return f"answer {_listed(names, recorded)}, as recorded"
        return f"answer {_listed(names, computed)}, but recorded {_listed(names, recorded)}"

    def info(self) -> str:
        step, about = self.step, self.about
        units = {name: "" if unit == "1" else unit for name, unit in about["units"].items()}
        lines = [f"step {step} of {self.n} of {about['controller']}",
                 f"time {_seconds(self.time_ns(step))}"]  # fmt: skip
        for name, value in zip(about["inputs"], self.inputs(step)):  # noqa: B905
            lines.append(f"input {name} = {_number(value)} {units[name]}".rstrip())
        for what, values in (("recorded", self.recorded(step)), ("computed", self.computed(step))):
            if values is None:
                lines.append(f"{what}: none")
            for name, value in zip(about["outputs"], values or ()):  # noqa: B905
                lines.append(f"{what} {name} = {_number(value)} {units[name]}".rstrip())
        recorded, computed = self.recorded(step), self.computed(step)
        if recorded is not None and computed is not None:
            equal = _same(recorded, computed)
            lines.append("equal bit for bit" if equal else "the computed answer differs")
        return "\n".join(lines)


class _Without:
    """The user's breakpoints, which are disabled until ``end``."""

    def __init__(self) -> None:
        self._enabled = [one for one in gdb.breakpoints() if one.enabled and one.number > 0]
        for one in self._enabled:
            one.enabled = False

    def end(self) -> None:
        for one in self._enabled:
            if one.is_valid():
                one.enabled = True


def _function() -> str | None:
    try:
        name: str | None = gdb.newest_frame().name()
    except gdb.error:
        return None
    return name


class _StopInSource(gdb.Breakpoint):  # type: ignore[misc]
    """An invisible breakpoint, which the jump tables of the linker do not trigger."""

    def stop(self) -> bool:
        return gdb.newest_frame().find_sal().symtab is not None


def _stop_in(function: str) -> gdb.Breakpoint:
    out = _StopInSource(function=function, internal=True)
    out.silent = True
    return out


def _known(name: str) -> bool:
    try:
        gdb.decode_line(name)
    except gdb.error:
        return False
    return True


def _same(a: list[float], b: list[float]) -> bool:
    return [_bits(x) for x in a] == [_bits(x) for x in b]


def _bits(value: float) -> tuple[float | str, float]:
    return ("nan" if math.isnan(value) else value, math.copysign(1, value))


def _number(value: float) -> str:
    short = value.is_integer() and abs(value) < 1e15 and (value or math.copysign(1, value) > 0)
    return repr(int(value)) if short else repr(value)


def _listed(names: list[str], values: list[float]) -> str:
    return ", ".join(f"{n}={_number(v)}" for n, v in zip(names, values))  # noqa: B905


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.9f}".rstrip("0").rstrip(".") + " s"


def _told(action: Callable[[], object]) -> None:
    try:
        action()
    except gdb.error as error:
        gdb.write(f"{error}\n", gdb.STDERR)


_session: Session | None = None


def _current() -> Session:
    if _session is None:
        raise gdb.GdbError("no session is open; start gdb with: rtsim debug RUN --at TIME")
    return _session


class _Command(gdb.Command):  # type: ignore[misc]
    def __init__(self, name: str, does: Callable[[str], None]) -> None:
        self.__doc__ = does.__doc__
        super().__init__(name, gdb.COMMAND_RUNNING)
        self._does = does

    def invoke(self, argument: str, from_tty: bool) -> None:  # noqa: ARG002
        try:
            self._does(argument)
        except gdb.error as error:
            raise gdb.GdbError(str(error)) from None


def _open(text: str) -> None:
    """Open the session in a folder: rtsim-open terminal|editor FOLDER."""
    global _session
    shown, _, folder = text.partition(" ")
    _session = Session(folder, editor=shown == "editor")
    _session.open()


def _start(_: str) -> None:
    """Start the process, and stop at the step with which the session was opened."""
    session = _current()
    session.go_to(session.about["target"])


def _next(_: str) -> None:
    """Run to the next step with the present memory. Breakpoints and watchpoints stop earlier."""
    session = _current()
    session.run_to(session.step + 1)


def _previous(_: str) -> None:
    """Go back to the previous step, with the memory of the recorded run."""
    session = _current()
    session.go_to(session.step - 1 if session.alive else session.about["target"])


def _at(time: str) -> None:
    """Go to the latest step at or before TIME (s), with the memory of the recorded run."""
    session = _current()
    session.go_to(session.step_at(time))


def _until(condition: str) -> None:
    """Run to the next step at which SIGNAL < VALUE. Breakpoints and watchpoints stop earlier."""
    session = _current()
    found = session.step_where(condition, range(session.step + 1, session.n))
    if found is None:
        raise gdb.GdbError(f"{condition} holds at no later step of the recording")
    session.run_to(found)


def _back(condition: str) -> None:
    """Go back to the latest earlier step at which SIGNAL < VALUE."""
    session = _current()
    found = session.step_where(condition, range(session.step - 1, -1, -1))
    if found is None:
        raise gdb.GdbError(f"{condition} holds at no earlier step of the recording")
    session.go_to(found)


def _info(names: str) -> None:
    """Print time, step, inputs, recorded and computed answer, or the values of given signals."""
    session = _current()
    for name in names.split():
        gdb.write(f"{name} = {_number(session.signal(name, session.step, 1)[0])}\n")
    if not names:
        gdb.write(session.info() + "\n")


for _name, _does in (
    ("rtsim-open", _open), ("rtsim-start", _start), ("rtsim-info", _info), ("next-step", _next),
    ("previous-step", _previous), ("step-at", _at), ("continue-until", _until),
    ("back-until", _back),
):  # fmt: skip
    _Command(_name, _does)
