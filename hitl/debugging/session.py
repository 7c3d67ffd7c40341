"""Prepare the debugger of a controller in C: build, steps, check of the answers, start of gdb."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hitl.building import store
from hitl.building.build import DEBUG, PLAIN, Build, build
from hitl.building.toolchain import captured, find_toolchain
from hitl.building.unit import SUPPORT
from hitl.controllers.c_controller import GivenParameters
from hitl.controllers.restore import check_c_of_now
from hitl.debugging.recorded import (
    RecordedSteps,
    StepsFile,
    parameters_of,
    same_bits,
    signals_at_steps,
)
from hitl.interface import Interface, load_interface
from hitl.worker.ending import refusal
from rtsim.core.errors import RtsimError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import NS_PER_S
from rtsim.record.reading import Recording
from rtsim.record.verdict import short

KINDS = (DEBUG, PLAIN)
"""Builds that the debugger can use."""
TERMINAL, EDITOR = "terminal", "editor"
"""Where the stops are shown."""
_RUNNER, _COMMANDS = "debug", Path(__file__).with_name("in_gdb.py")
_SILENCE_S = 10.0
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_DAP = 14
"""First version of gdb with a server of the Debug Adapter Protocol."""
INSTALL_GDB = (
    "install gdb: sudo apt install gdb   (or: sudo dnf install gdb; lldb is not supported); or "
    "name one: --gdb /path/to/gdb"
)


class DebugError(RtsimError):
    """The debugger cannot be used for this run or on this machine."""


@dataclass(frozen=True)
class Gdb:
    """An installed gdb with Python."""

    program: str
    version: str
    """First line of ``gdb --version``."""

    @property
    def major(self) -> int:
        found = re.search(r"(\d+)\.\d+[^ ]*$", self.version)
        return int(found[1]) if found else 0

    @property
    def has_dap(self) -> bool:
        return self.major >= _DAP


def find_gdb(program: str = "gdb") -> Gdb:
    """Return the debugger ``program``.

    Raises :class:`DebugError` if this system is not supported, if gdb is missing, or if gdb has no
    Python.
    """
    if not sys.platform.startswith("linux"):
        raise DebugError(
            f"rtsim debug needs Linux and gdb for C code, and this system is {sys.platform}; "
            "copy the recording and the C code to a machine, a virtual machine or a container with "
            "Linux (lldb is not supported)"
        )
    path = shutil.which(program)
    if path is None:
        raise DebugError(f"there is no debugger {program} on this machine; {INSTALL_GDB}")
    try:
        version = captured([path, "--version"], 30).stdout.partition("\n")[0].strip()
        asked = captured([path, "-nx", "-batch", "-ex", "python print(6 * 7)"], 30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DebugError(f"{path} cannot be run ({error}); {INSTALL_GDB}") from None
    if asked.stdout.strip() != "42":
        raise DebugError(
            f"{path} ({version}) has no Python, which the commands of rtsim need; the packages "
            f"gdb-minimal and some cross compilers bring such a gdb; {INSTALL_GDB}"
        )
    return Gdb(path, version)


def runner() -> Path:
    """Return the program that repeats recorded steps, compiled at the first use."""
    source, toolchain = SUPPORT / f"{_RUNNER}.c", find_toolchain()
    key = store.Snapshot.of([source]).folder(f"own-debug-{toolchain.family}").name

    def make(work: Path, made: Path) -> store.Snapshot:  # noqa: ARG001
        toolchain.run(
            ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", source, "-o", made / _RUNNER, "-ldl"],
            SUPPORT,
        )
        return store.Snapshot.of([source])

    return store.kept(key, (_RUNNER,), make) / _RUNNER


@dataclass(frozen=True)
class Answers(Judged):
    """The comparison of the recomputed answers with the recording, bit for bit."""

    steps: int
    compared: int
    """Number of steps that were computed, and whose answer is in the recording."""
    first: int | None
    """First step whose answer differs from the recorded one."""
    stopped: str = ""
    """Why the C code did not finish a step; "" if it finished all."""
    done: int = 0
    """Number of steps that the C code has finished."""
    build: str = DEBUG

    def _judge(self) -> Outcome:
        if self.first is not None:
            return Outcome.FAILED
        return Outcome.PASSED if self.compared else Outcome.UNDECIDED

    @property
    def in_words(self) -> str:
        ended = f"; step {self.done} did not end: {self.stopped}" if self.stopped else ""
        if self.first is not None:
            other = PLAIN if self.build == DEBUG else DEBUG
            return (
                f"the {self.build} build gives another answer than the recording, first at step "
                f"{self.first}; the C code has changed, or depends on the build, as uninitialised "
                f"memory does: try --build {other}{ended}"
            )
        if not self.compared:
            return f"no recorded answer could be compared{ended}"
        return f"{self.compared} recomputed answers equal the recording bit for bit{ended}"

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps, "compared": self.compared, "first_difference": self.first,
            "finished": self.done, "stopped": self.stopped, "build": self.build,
        }  # fmt: skip


@dataclass(frozen=True)
class DebugSession:
    """A prepared session: all files that gdb needs are in ``folder``."""

    steps: RecordedSteps
    build: Build
    folder: Path
    target: int
    """Step at which the debugger opens."""
    gdb: Gdb
    answers: Answers
    notes: tuple[str, ...] = ()

    def script(self, shown: str) -> Path:
        """Return the script with which gdb opens the session, for a terminal or an editor."""
        return self.folder / f"{shown}.gdb"

    def command(self, *more: str | Path, shown: str = TERMINAL) -> list[str | Path]:
        """Return the command line of gdb; ``more`` are further arguments."""
        return [self.gdb.program, "-q", "-x", self.script(shown), *more]

    def stopped(self) -> dict[str, Any] | None:
        """Return where gdb stopped last at a step: step, function, file and line."""
        path = self.folder / "stopped.json"
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

    def at(self, step: int) -> dict[str, Any]:
        """Return inputs, recorded and computed answer of a step."""
        steps, (computed, _) = self.steps, StepsFile(self.folder / "steps", self.steps).computed()
        names, outputs = steps.inputs.columns, steps.outputs.columns
        recorded = steps.recorded[step].tolist() if steps.answered[step] else None
        answer = computed[step].tolist() if step < self.answers.done else None
        return {
            "step": step,
            "time_s": steps.tag(step).ns / NS_PER_S,
            "inputs": dict(zip(names, steps.given[step].tolist(), strict=True)),
            "recorded": recorded and dict(zip(outputs, recorded, strict=True)),
            "computed": answer and dict(zip(outputs, answer, strict=True)),
        }


def prepare(
    recording: Recording,
    steps: RecordedSteps,
    target: int,
    folder: Path,
    gdb: Gdb,
    kind: str = DEBUG,
    say: Callable[[str], None] = lambda _: None,
) -> DebugSession:
    """Build the C code, compute all recorded steps again, and write the files of a session.

    Args:
        recording: The recorded run.
        steps: The steps of the controller.
        target: The step at which the debugger opens.
        folder: Folder for the files.
        gdb: The debugger.
        kind: Kind of build: ``"debug"`` (without optimisation) or ``"plain"`` (as in the run).
        say: Function that shows the progress.

    Raises:
        DebugError: The controller is not in C, or the C code no longer has the recorded signals.
        TrustError: The C code must not be compiled.
        BuildError: The C code cannot be compiled.
    """
    reference = _reference(steps)
    check_c_of_now(reference, steps.source)
    interface = load_interface(reference)
    for what, then, now in (
        ("inputs", steps.inputs, interface.inputs), ("outputs", steps.outputs, interface.outputs)
    ):  # fmt: skip
        if then.columns != now.columns:
            raise DebugError(
                f"{reference} now has the {what} {', '.join(now.columns)}, but {steps.source} has "
                f"{', '.join(then.columns)}; record the run again"
            )
    say(f"building {reference} ({kind}) …")
    made = build(interface, kind)
    known = {n: v for n, v in parameters_of(steps).items() if n in interface.parameters}
    file = StepsFile(folder / "steps", steps)
    file.write(GivenParameters(interface, known).sent)
    say(f"computing {len(steps)} steps …")
    answers = replace(_checked(file, steps, made), build=kind)
    signals = signals_at_steps(recording, steps)
    columns = {**_own_signals(steps), **signals}
    with (folder / "signals").open("wb") as out:
        for values in columns.values():
            out.write(np.ascontiguousarray(values, np.float64).tobytes())
    notes = [] if steps.about.get("sha256") in (None, interface.sha256) else [_CHANGED]
    if not signals:
        notes.append(f"conditions can use the signals of {steps.name} only")
    session = DebugSession(steps, made, folder, target, gdb, answers, tuple(notes))
    about = {
        "controller": steps.name,
        "runner": str(runner()),
        "library": str(made.library),
        "target": target,
        "inputs": steps.inputs.columns,
        "outputs": steps.outputs.columns,
        "units": {c: s.unit for of in (steps.inputs, steps.outputs) for s in of for c in s.columns},
        "signals": list(columns),
        "functions": list(dict.fromkeys(n for s in interface.steps for n in _CALL.findall(s.call))),
        "stopped": answers.stopped,
        "refused": _refused(steps, file, interface),
        "answered": steps.answered.astype(int).tolist(),
    }
    (folder / "session.json").write_text(json.dumps(about), encoding="utf-8")
    np.ascontiguousarray(steps.recorded).tofile(folder / "recorded")
    (folder / "stopped.json").unlink(missing_ok=True)
    for shown in (TERMINAL, EDITOR):
        text = f"source {_COMMANDS}\nrtsim-open {shown} {folder}\n"
        session.script(shown).write_text(text, encoding="utf-8")
    return session


def _refused(steps: RecordedSteps, file: StepsFile, interface: Interface) -> dict[str, str]:
    """Return why the C code gave no answer, by step; at most for 1000 steps."""
    _, statuses = file.computed()
    return {
        str(step): refusal(
            interface.name, int(statuses[step]), steps.inputs, steps.given[step], steps.outputs
        )
        for step in np.flatnonzero(statuses)[:1000].tolist()
    }


_CHANGED = "the C code or its interface file has changed since the run"


def _reference(steps: RecordedSteps) -> str:
    about = steps.about
    if "interface" not in about or "endpoint" in about:
        where = "on another machine" if "endpoint" in about else "not in C"
        raise DebugError(f"{steps.name} of {steps.source} ran {where}, so gdb cannot open it")
    variant = about.get("variant")
    return f"{about['interface']}:{variant}" if variant else str(about["interface"])


def _own_signals(steps: RecordedSteps) -> dict[str, np.ndarray[Any, Any]]:
    tables = ((steps.inputs, steps.given), (steps.outputs, steps.recorded))
    out = {c: rows[:, k] for of, rows in tables for k, c in enumerate(of.columns)}
    return {**out, **{f"{steps.name}.{name}": values for name, values in out.items()}}


def _checked(file: StepsFile, steps: RecordedSteps, made: Build) -> Answers:
    variables = {"LIBRARY": str(made.library), "STEPS": str(file.path), "CHECK": "1"}
    own = {f"RTSIM_DEBUG_{name}": value for name, value in variables.items()}
    process = subprocess.Popen(
        [runner()],
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    stopped, done = "", -1
    while True:
        try:
            said = process.communicate(timeout=_SILENCE_S)[1]
        except subprocess.TimeoutExpired:
            before, done = done, file.done
            if done > before:
                continue
            stopped = f"it took more than {_SILENCE_S:g} s"
            process.kill()
            process.communicate()
        break
    done = file.done
    if not stopped and process.returncode > 0:
        raise DebugError(f"the steps of {steps.name} cannot be repeated: {said.strip()}")
    if not stopped and process.returncode < 0:
        stopped = f"it was ended by {signal.Signals(-process.returncode).name}"
    computed, statuses = file.computed()
    compared = steps.answered[:done]
    equal = same_bits(computed[:done], steps.recorded[:done]) & (statuses[:done] == 0)
    different = np.flatnonzero(compared & ~equal)
    first = int(different[0]) if len(different) else None
    return Answers(len(steps), int(compared.sum()), first, stopped, done)


# -- gdb in the terminal, from a script, and in VS Code


def launch_entry(session: DebugSession) -> Mapping[str, Any]:
    """Return the entry of ``.vscode/launch.json`` for the debugger of the C/C++ extension."""
    return {
        "name": f"rtsim: {session.steps.name} at {short(session.steps.tag(session.target))}",
        "type": "cppdbg",
        "request": "launch",
        "program": str(runner()),
        "cwd": str(session.build.interface.path.parent),
        "MIMode": "gdb",
        "miDebuggerPath": session.gdb.program,
        "setupCommands": [
            {"text": f"source {session.script(EDITOR)}", "description": "recorded steps"}
        ],
    }  # fmt: skip


def write_launch(session: DebugSession, path: Path) -> Path:
    """Add the session to ``launch.json``, or replace its earlier entry.

    Raises :class:`DebugError` for a file that is no JSON object, such as one with comments.
    """
    data: dict[str, Any] = {"version": "0.2.0", "configurations": []}
    entry = launch_entry(session)
    if path.is_file():
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            kept = [one for one in data["configurations"] if one["name"] != entry["name"]]
        except (ValueError, KeyError, TypeError) as error:
            text = json.dumps(entry, indent=4)
            raise DebugError(
                f"{path} cannot be changed, because it is no plain JSON ({error}); add this entry "
                f"to its configurations:\n{text}"
            ) from None
        data["configurations"] = kept
    data["configurations"].append(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=4) + "\n", encoding="utf-8")
    return path
