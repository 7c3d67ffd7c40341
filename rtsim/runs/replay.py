"""Replay a recorded run with its recorded inputs and timing."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.allowed_latency import from_plain
from rtsim.components.controller import ControllerProtocol, FedController
from rtsim.components.controller_task import FAILED, RESTARTED
from rtsim.components.external_inputs import ExternalInput, FedInput
from rtsim.core.clock import Timeline, exact_rate
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NEVER, NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.commands.commands import CommandError, PendingCommand, from_json
from rtsim.engine.faults import Fault
from rtsim.engine.faults.description import fault_of
from rtsim.engine.trace import COMMAND, INSERTED, TIMING, request_topic
from rtsim.equations.source_hash import source_hash
from rtsim.record.events import OVERRUN, Event
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import (
    end_of,
    ended_by_itself,
    recorder_for_repeat,
    said_no_more,
)
from rtsim.requirements.requirement import required_by
from rtsim.runs.request import FedInputs, RunRequest, compilation_of
from rtsim.runs.simulation import run
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.measured_execution import known_executions
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.trust import scenario_to_load
from rtsim.timing.frames import NO_SAMPLE, REST
from rtsim.timing.pacing import tolerance_ns


def rerun(
    recording: Recording,
    scenario: Scenario | None = None,
    *,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
) -> Recording:
    """Repeat a recorded run as fast as possible, and return the new recording.

    Compare the two recordings to check the replay, for example with
    :func:`rtsim.record.comparison.compare_exact`.  An error of the simulation ends the new
    recording and is not raised.

    Args:
        recording: The recording to repeat.
        scenario: The scenario to run. The default is the scenario that the recording names.
        start: A checkpoint at which to begin.
        stop_ns: The run stops at the first tag at or after this time, ns.

    Raises:
        RecordingError: The recording lacks required data.
        RtsimError: This machine cannot repeat the run.
    """
    request = to_repeat(recording, scenario, start=start, stop_ns=stop_ns)
    result = run(request.into(recorder_for_repeat(recording)))
    again = result.recording()
    error = result.error or result.lost
    if error is not None and not ended_by_itself(recording, again, error):
        raise error
    said_no_more(recording, again)
    return again


def to_repeat(
    recording: Recording,
    scenario: Scenario | None = None,
    *,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
    live: bool = False,
) -> RunRequest:
    """Return the request that repeats a recorded run.

    With ``live``, external controllers run again instead of replaying their answers.
    """
    header = recording.header
    scenario = scenario or scenario_of(recording)
    fed = FedInputs(
        fed_external_inputs(scenario, recording),
        {} if live else fed_controllers(scenario, recording),
        [e.tag.ns for e in recording.events if e.kind == INSERTED],
        recording.events,
        fed_commands(recording),
    )
    return RunRequest(
        scenario,
        seed=int(header["seed"]),
        until=Fraction(int(header["until"]), NS_PER_S),
        compile=compilation_of(header),
        fed=fed,
        stop_ns=end_of(recording) if stop_ns is None else stop_ns,
        start=start or continued(recording),
    )


def fed_tracks(recording: Recording, scenario: Scenario) -> set[str]:
    """Return the names of the tracks that a replay reads from the recording.

    These tracks contain external inputs and the answers of external controllers.
    """
    replaced = recording.header.get("scenario", {}).get("origin", {}).get("replaced", {})
    parts = scenario.components.items()
    external_inputs = {part.external.name for _, part in parts if part.external is not None}
    answers = {name for name, part in parts if part.outside or name in replaced}
    return {f"inputs/{name}" for name in external_inputs} | {f"messages/{name}" for name in answers}


def continued(recording: Recording) -> Checkpoint | None:
    """Return the checkpoint at which the recording begins, or ``None``.

    A missing or different file raises :class:`RecordingError`.
    """
    continues = recording.header.get("continues")
    if continues is None:
        return None
    path = Path(str(continues["checkpoint"]))
    beside = Path(recording.source).with_name(path.name)
    found = next((p for p in (beside, path) if p.is_file()), None)
    if found is None:
        raise RecordingError(
            f"{recording.source} continues from the checkpoint {path}, which does not exist; "
            "put that file next to the recording"
        )
    checkpoint = Checkpoint.open(found)
    if checkpoint.digest != continues["sha256"]:
        raise RecordingError(
            f"{recording.source} continues from a checkpoint whose contents differ from those "
            f"of {found}; put the original checkpoint next to the recording"
        )
    return checkpoint


def scenario_of(recording: Recording) -> Scenario:
    """Load the scenario of a recording; controllers in C replay their answers.

    Errors are those of :func:`scenario_from`.
    """
    return scenario_from(
        recording.header, recording.source, lambda name: fed_controller(recording, name)
    )


def scenario_from(
    header: Mapping[str, Any], source: str, instead: Callable[[str], ControllerProtocol]
) -> Scenario:
    """Load the scenario that a recording or a checkpoint names.

    Args:
        header: Header of the recording or checkpoint.
        source: File name for error messages.
        instead: Function that returns a replacement for a controller, by the controller's name.

    Raises:
        RecordingError: The header is invalid, or does not name a scenario because the run was
            started from Python.
        TrustError: The scenario's code must not run.
    """
    origin: Mapping[str, Any] = header.get("scenario", {}).get("origin", {})
    if not origin.get("reference"):
        raise RecordingError(
            f"{source} names no scenario, because its run was started from Python; use "
            "rtsim.runs.replay.rerun(recording, scenario), or simulate(scenario, start=checkpoint)"
        )
    reference = scenario_to_load(origin, source)
    faults = header.get("scenario", {}).get("faults", ())
    settings = dict(origin.get("settings", {}))
    with known_executions(origin, source):
        scenario = load_scenario(reference, settings, lambda made: made.only_faults(*faults))
    for target, changes in _driven(origin, source).items():
        scenario.drive(target, changes)
    scenario.requirements, scenario.checks_requirements = required_by(header), False
    for name, how in origin.get("replaced", {}).items():
        latency = None if how["latency"] is None else from_plain(how["latency"])
        known = {**how, "latency": latency}
        scenario.replace_controller(name, instead(name), **known)
    for name, latency in origin.get("latencies", {}).items():
        scenario.allow(name, from_plain(latency))
    return scenario


def _driven(origin: Mapping[str, Any], source: str) -> dict[str, list[tuple[int, float]]]:
    try:
        return {
            str(target): [(int(ns), float(value)) for ns, value in changes]
            for target, changes in origin.get("driven", {}).items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise RecordingError(
            f"{source} contains malformed changes of input signals; the file was written by "
            "another version of rtsim, or is damaged"
        ) from None


BUILD_CHANGED = "its C code, its flags or its compiler have changed"
"""Explanation of a changed ``key`` of a controller, which identifies its build."""


def changed_since(header: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return one line for each difference between the recorded and the present scenario."""
    out: list[str] = []
    _differences("", header.get("scenario", {}), scenario.describe(), out)
    if header.get("source_hash") != source_hash(*scenario.functions()):
        out.append("the sources of the scenario's functions have changed since")
    return out


def _differences(path: str, then: Any, now: Any, out: list[str]) -> None:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then.keys() | now.keys()):
            if (path or key not in ("origin", "until")) and key != "sha256":
                _differences(f"{path}.{key}", then.get(key), now.get(key), out)
    elif then != now:
        why = f" ({BUILD_CHANGED})" if path.endswith(".key") else ""
        name = path.removeprefix(".").removeprefix("parts.")
        out.append(f"{name}: {then} in the recording, {now} now{why}")


def fed_external_inputs(scenario: Scenario, recording: Recording) -> dict[str, ExternalInput]:
    out: dict[str, ExternalInput] = {}
    for external in (part.external for part in scenario.components.values()):
        if external is not None:
            rows = recording.track(f"inputs/{external.name}").rows
            values = {int(ns): np.array(v) for ns, v in zip(rows.ns, rows.floats, strict=True)}
            out[external.name] = FedInput(external.name, external.signals, values)
    return out


def fed_commands(recording: Recording) -> list[PendingCommand]:
    """Return the recorded commands, except those that only pause or pace the run.

    A malformed command raises :class:`RecordingError`.
    """
    told = [e for e in recording.events if e.kind == COMMAND and e.source in AT_A_TAG]
    try:
        return [PendingCommand(from_json(e.text), None, e.tag.ns) for e in told]
    except CommandError as error:
        raise RecordingError(
            f"{recording.source} contains a malformed command: {error}; the file was written by "
            "another version of rtsim, or is damaged"
        ) from None


def fed_controllers(scenario: Scenario, recording: Recording) -> dict[str, ControllerProtocol]:
    """Return controllers that replay the recorded answers of external controllers."""
    outside = [name for name, part in scenario.components.items() if part.outside]
    return {name: fed_controller(recording, name) for name in outside}


def fed_controller(recording: Recording, name: str) -> FedController:
    inputs = recording.track(f"messages/{request_topic(name)}").signals
    outputs = recording.track(f"messages/{name}").signals
    part = recording.header.get("scenario", {}).get("parts", {}).get(name, {})
    about = {key: part[key] for key in part.get("about", ())}
    parameters = Signals(*(_constant(n, v) for n, v in part.get("parameters", {}).items()))
    script = _script(recording, name, _under_way(continued(recording), name))
    return FedController(inputs, outputs, script, about, parameters)


def _constant(name: str, value: float | list[float]) -> Signal:
    if isinstance(value, list):
        return Signal(name, shape=(len(value),), initial=tuple(value))
    return Signal(name, initial=value)


_NONE = Tag(-1), 0


def _under_way(start: Checkpoint | None, name: str) -> tuple[Tag, int]:
    saved = {} if start is None else start.state["tasks"].get(name, {})
    if saved.get("request") is None:
        return _NONE
    return Tag(*saved["request"][0]), int(saved["request"][3])


def _script(
    recording: Recording, name: str, before: tuple[Tag, int] = _NONE
) -> dict[Tag, list[Vector | str | None]]:
    track = recording.track(f"messages/{name}")
    answers = {
        Tag(int(ns), int(step)): np.array(values)
        for ns, step, values in zip(
            track.integer("initiated"),
            track.integer("initiated_step"),
            track.rows.floats,
            strict=True,
        )
    }
    out: dict[Tag, list[Vector | str | None]] = defaultdict(list)
    again = {e.tag for e in recording.events if (e.kind, e.source) == (RESTARTED, name)}
    under_way, asked = before
    out[under_way] += [None] * asked
    for tag, kind, text in _happenings(recording, name):
        if kind == "Request":
            under_way = tag
        elif kind == "Late" or (kind == "Missed" and out[under_way]):
            out[under_way].append(None)
        elif kind == "Discarded":
            out[under_way].append(np.full(track.signals.size, np.nan))  # not recorded
        elif kind == FAILED:
            out[under_way].append(text)
            if tag not in again:
                break  # a failed controller is not polled any more
    for tag, answer in answers.items():
        out[tag].append(answer)
    ended = [e.text for e in recording.events if e.kind == "Error"]
    if ended and under_way not in answers:  # the pending request may have ended the run
        out[under_way].append(ended[-1])
    return dict(out)


def _happenings(recording: Recording, name: str) -> list[tuple[Tag, str, str]]:
    requests = recording.track(f"messages/{request_topic(name)}")
    tags = {
        Tag(int(ns), int(step))
        for ns, step in zip(
            requests.integer("initiated"), requests.integer("initiated_step"), strict=True
        )
    }
    out = [(tag, "Request", "") for tag in tags]
    out += [(e.tag, e.kind, e.text) for e in recording.events if e.source == name]
    order = {"Request": 1, "Failed": 2, "Missed": 3}
    return sorted(out, key=lambda one: (one[0], order.get(one[1], 0)))


_DUE_AT_ONCE = ("slip", "freeze")
"""Overrun actions that set the due time of a late tag to the time at which the tag begins."""


@dataclass
class _Frame:
    ns: int
    arrived: int = -1
    """Time from due time until the loop was ready; negative if the loop waited."""
    woken: int = 0
    """Time from due time until the end of the loop's wait."""
    overrun: Event | None = None
    busy: int = 0
    """Compute time of the frame that causes the recorded lateness of the next frame."""
    blamed: str = ""
    """Name of the job to blame for a later overrun; empty if unknown."""

    @property
    def waited(self) -> bool:
        return self.arrived < 0

    @property
    def due_at_once(self) -> bool:
        return self.overrun is not None and self.overrun.values.get("action") in _DUE_AT_ONCE

    @property
    def began(self) -> int:
        return 0 if self.due_at_once else self.woken if self.waited else self.arrived


def timing_faults(
    recording: Recording, first_ns: int = 0, last_ns: int = NEVER.ns
) -> tuple[Fault, ...]:
    """Return the faults that reproduce the overruns from ``first_ns`` to ``last_ns``.

    Both are simulated times. T The returned faults replace all recorded timing faults. Raises
    ``RecordingError`` unless the recording is complete and from a run in real time.
    """
    pace = _pace(recording)
    frames = _frames(recording, pace)
    _compute(frames, pace)
    first = longest = done = 0  # of the frames since the loop was last on time
    busy: list[_Frame] = []
    woken: list[_Frame] = []
    for k, frame in enumerate(frames):
        overran = frame.overrun is not None and first_ns <= frame.ns <= last_ns
        if overran and not frame.waited:
            if done <= first:
                woken.append(frames[first])
            busy += frames[max(first, done) : k]
            done = k
            frames[longest].blamed = _job(frame.overrun)
        elif overran:
            woken.append(frame)
        if frame.waited or frame.due_at_once:
            first = longest = k
        elif frame.busy > frames[longest].busy:
            longest = k
    out = [_fault("late_wake", "loop", frame.ns, frame.woken) for frame in woken]
    for frame in busy:
        kind, where = ("slow_job", f"loop.{frame.blamed}") if frame.blamed else ("stall", "loop")
        out.append(_fault(kind, where, frame.ns, frame.busy))
    return tuple({f.name: f for f in out if f.parameters["amount"] > 0}.values())


def _frames(recording: Recording, pace: Fraction) -> list[_Frame]:
    if TIMING not in recording.tracks or recording.footer is None:
        raise RecordingError(
            f"{recording.source} contains no wall-clock times; overrun-replay needs the "
            "complete recording of a paced run (rtsim run ... --pace 1)"
        )
    tolerances = deque(_tolerances(recording, pace))
    tolerance = 0
    track = recording.track(TIMING)
    frames: list[_Frame] = []
    arrived = -1
    columns = (track.ns, track.integer("wake_lateness"), track.integer("margin"))
    for ns, woken, margin in zip(*(column.tolist() for column in columns), strict=True):
        frames.append(_Frame(ns, arrived, max(0, woken)))
        while tolerances and tolerances[0][0] <= ns:
            tolerance = tolerances.popleft()[1]
        arrived = -1 if margin == NO_SAMPLE else tolerance - margin
    frames.append(_Frame(int(recording.footer["ended"]), arrived))
    overruns = {e.tag.ns: e for e in recording.events if e.kind == OVERRUN}
    for frame in frames:
        frame.overrun = overruns.pop(frame.ns, None)
    last = frames[-1]
    if last.overrun is not None and last.waited:
        last.woken = _amount(last.overrun)
    ended_by = [e for e in overruns.values() if e.tag.ns > last.ns]
    return frames + [_never_began(event, last, pace) for event in ended_by]


def _tolerances(recording: Recording, pace: Fraction) -> list[tuple[int, int]]:
    assert recording.footer is not None
    certificate = recording.footer["certificate"]
    at_the_end = int(certificate["tolerance_ns"])
    commands = [e for e in recording.events if e.kind == COMMAND and e.source == "rate"]
    rates = [(-1, pace)]
    for event in commands:
        rate = json.loads(event.text)["rate"]
        rates += [] if rate == "max" else [(event.tag.ns, exact_rate(rate))]
    period = certificate.get("period_ns", 0)
    found = [(ns, tolerance_ns(period, Timeline(rate, 0).wall)) for ns, rate in rates]
    # A given tolerance does not follow the rate, and nor does the tolerance of older recordings.
    return found if found[-1][1] == at_the_end else [(-1, at_the_end)]


def _never_began(overrun: Event, before: _Frame, pace: Fraction) -> _Frame:
    amount, ns = _amount(overrun), overrun.tag.ns
    handed_on = before.began * pace > ns - before.ns
    if overrun.values.get("cause") == "wake" and not handed_on:
        return _Frame(ns, -1, amount, overrun)
    return _Frame(ns, amount, 0, overrun)


def _amount(overrun: Event) -> int:
    return round(float(overrun.values["amount"]))


def _pace(recording: Recording) -> Fraction:
    pace = str(recording.header["pace"])
    if pace == "max":
        return Fraction(1)
    at_the_end = recording.footer["certificate"]["rate"] if recording.footer else pace
    try:
        exact = Fraction(at_the_end)
    except ValueError:
        return Fraction(pace)
    return exact if f"{float(exact):g}" == pace else Fraction(pace)


def _compute(frames: Sequence[_Frame], pace: Fraction) -> None:
    clock = Timeline(pace, 0)
    for frame, following in pairwise(frames):
        if frame.due_at_once:
            clock.anchor(frame.ns, 0)
        gap = clock.wall(following.ns) - clock.wall(frame.ns)
        frame.busy = gap + following.arrived - frame.began


def _job(overrun: Event | None) -> str:
    if overrun is None:
        return ""
    job = overrun.source
    named = overrun.values.get("cause") == "compute" and job != REST
    return job if named and not job.startswith("fault.") else ""


def _fault(kind: str, where: str, ns: int, amount: int) -> Fault:
    seconds = {"at": Fraction(ns, NS_PER_S), "amount": Fraction(max(0, amount), NS_PER_S)}
    texts = {name: str(value) for name, value in seconds.items()}
    return fault_of({"name": f"{kind}_{ns}", "where": where, "kind": kind, "count": 1, **texts})
