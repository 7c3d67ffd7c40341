"""Replay: run a recorded scenario again, fed with what the outside and the wall clock decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.controller import Controller, FedController
from rtsim.components.external_inputs import ExternalInput, FedInput
from rtsim.components.latency import from_plain
from rtsim.core.errors import CheckpointError, RecordingError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.commands.commands import CommandError, from_json
from rtsim.engine.commands.inbox import PendingCommand
from rtsim.engine.trace import COMMAND, INSERTED, request_topic
from rtsim.equations.source_hash import source_hash
from rtsim.record.reading import Recording
from rtsim.record.repeated import end_of, ended_by_itself, said_no_more
from rtsim.record.spare import recorder_for_again
from rtsim.runs.simulation import FedInputs, compilation_of, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.parts import ControllerPart, ExternalInputPart
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.trust import scenario_to_load


def rerun(
    recording: Recording,
    scenario: Scenario | None = None,
    *,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
) -> Recording:
    """The same run once more, as fast as possible; compare the two for the verdict.

    ``scenario`` is loaded from where the recording says, unless it is given.  From ``start`` on,
    one of its checkpoints, up to the first tag at or after ``stop_ns``; by default all of it.
    An error of the run's own ends the recording that is returned, as it does a flight's.  Raises
    :class:`RecordingError` where the recording does not say enough, and whatever keeps the run
    from being repeated here (:func:`ended_by_itself`).
    """
    recorder = recorder_for_again(recording)
    scenario = scenario or scenario_of(recording)
    start = start or continued(recording)
    try:
        refly(recording, scenario, start=start, stop_ns=stop_ns, recorder=recorder)
    except CheckpointError:
        raise
    except Exception as error:
        if not ended_by_itself(recording, recorder.recording(), error):
            raise
    again = recorder.recording()
    said_no_more(recording, again)
    return again


def refly(
    recording: Recording,
    scenario: Scenario,
    *,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
    live: bool = False,
    **how: Any,
) -> None:
    """:func:`rerun` with what else :func:`simulate` takes; raises what ends the run.

    ``live``: controllers that live outside are the scenario's own, and not fed.
    """
    header = recording.header
    start = start or continued(recording)
    fed = FedInputs(
        fed_inlets(scenario, recording),
        {} if live else fed_controllers(scenario, recording),
        [e.tag.ns for e in recording.events if e.kind == INSERTED],
        recording.events,
        fed_commands(recording),
    )
    simulate(
        scenario,
        seed=int(header["seed"]),
        until=Fraction(int(header["until"]), NS_PER_S),
        compile=compilation_of(header),
        fed=fed,
        stop_ns=end_of(recording) if stop_ns is None else stop_ns,
        start=start,
        **how,
    )


def fed_tracks(recording: Recording, scenario: Scenario) -> set[str]:
    """Tracks of what a replay is told and does not compute: inputs, answers from outside."""
    replaced = recording.header.get("scenario", {}).get("origin", {}).get("replaced", {})
    inlets = {n for n, part in scenario.parts.items() if isinstance(part, ExternalInputPart)}
    return {f"inputs/{name}" for name in inlets} | {
        f"messages/{name}"
        for name, part in scenario.parts.items()
        if isinstance(part, ControllerPart) and (part.controller.outside or name in replaced)
    }


def continued(recording: Recording) -> Checkpoint | None:
    """The checkpoint that the recording goes on from; ``None`` for one of a whole run."""
    continues = recording.header.get("continues")
    if continues is None:
        return None
    path = Path(str(continues["checkpoint"]))
    beside = Path(recording.source).with_name(path.name)
    found = next((p for p in (beside, path) if p.is_file()), None)
    if found is None:
        raise RecordingError(
            f"{recording.source} goes on from the checkpoint {path}, which is not there; "
            "put it beside the recording"
        )
    checkpoint = Checkpoint.open(found)
    if checkpoint.digest != continues["sha256"]:
        raise RecordingError(
            f"{recording.source} goes on from another checkpoint than {found} is now; "
            "put the one that it names beside the recording"
        )
    return checkpoint


def scenario_of(recording: Recording) -> Scenario:
    """Build the scenario that the recording was made of, fed where it was flown by C."""
    return scenario_from(
        recording.header, recording.source, lambda name: fed_controller(recording, name)
    )


def scenario_from(
    header: Mapping[str, Any], source: str, instead: Callable[[str], Controller]
) -> Scenario:
    """Build the scenario that ``header`` tells of; ``instead`` gives what replaced a controller.

    Raises :class:`RecordingError`, naming ``source``, where that was run from Python, and
    :class:`TrustError` where it names code that may not be run.
    """
    origin: Mapping[str, Any] = header.get("scenario", {}).get("origin", {})
    if not origin.get("reference"):
        raise RecordingError(
            f"{source} does not say which scenario it was made of: it was run from Python; "
            "use rtsim.runs.replay.rerun(recording, scenario), or simulate(scenario, "
            "start=checkpoint)"
        )
    reference = scenario_to_load(origin, source)
    scenario = load_scenario(reference, dict(origin.get("settings", {})))
    scenario.only_faults(*header.get("scenario", {}).get("faults", ()))
    for name, how in origin.get("replaced", {}).items():
        latency = None if how["latency"] is None else from_plain(how["latency"])
        known = {**how, "latency": latency}
        scenario.replace_controller(name, instead(name), **known)
    for name, latency in origin.get("latencies", {}).items():
        scenario.allow(name, from_plain(latency))
    return scenario


BUILD_CHANGED = "its C, its flags or its compiler have changed"
"""Of a controller's ``key``, which says of what it was built."""


def changed_since(header: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """In words, what of the scenario is otherwise than when it was recorded."""
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
        out.append(f"{path.removeprefix('.')}: {then} in the recording, {now} now{why}")


def fed_inlets(scenario: Scenario, recording: Recording) -> dict[str, ExternalInput]:
    """Every outside input, saying again what was recorded."""
    out: dict[str, ExternalInput] = {}
    for name, part in scenario.parts.items():
        if isinstance(part, ExternalInputPart):
            rows = recording.rows(f"inputs/{name}")
            values = {int(ns): np.array(v) for ns, v in zip(rows.ns, rows.floats, strict=True)}
            out[name] = FedInput(name, part.inlet.signals, values)
    return out


def fed_commands(recording: Recording) -> list[PendingCommand]:
    """What the run was told, apart from how fast to go and when to stand, which left no trace."""
    told = [e for e in recording.events if e.kind == COMMAND and e.source in AT_A_TAG]
    try:
        return [PendingCommand(from_json(e.text), None, e.tag.ns) for e in told]
    except CommandError as error:
        raise RecordingError(f"{recording.source}: a command in it is none: {error}") from None


def fed_controllers(scenario: Scenario, recording: Recording) -> dict[str, Controller]:
    """What was recorded of controllers that ran outside, to take their place."""
    out: dict[str, Controller] = {}
    for name, part in scenario.parts.items():
        if isinstance(part, ControllerPart) and part.controller.outside:
            out[name] = fed_controller(recording, name)
    return out


def fed_controller(recording: Recording, name: str) -> FedController:
    """What was recorded of controller ``name``, with the signals that it had."""
    inputs = recording.track(f"messages/{request_topic(name)}").signals
    outputs = recording.track(f"messages/{name}").signals
    part = recording.header.get("scenario", {}).get("parts", {}).get(name, {})
    about = {key: part[key] for key in part.get("about", ())}
    parameters = Signals(*(_constant(n, v) for n, v in part.get("parameters", {}).items()))
    script = _script(recording, name, _under_way(continued(recording), name))
    return FedController(inputs, outputs, script, about, parameters)


def _constant(name: str, value: float | list[float]) -> Signal:
    """A parameter as it was recorded: its value, and nothing else of it."""
    if isinstance(value, list):
        return Signal(name, shape=(len(value),), initial=tuple(value))
    return Signal(name, initial=value)


_NONE = Tag(-1), 0


def _under_way(start: Checkpoint | None, name: str) -> tuple[Tag, int]:
    """The request that was under way at a checkpoint, and how often it had been asked for."""
    saved = {} if start is None else start.state["tasks"].get(name, {})
    if saved.get("request") is None:
        return _NONE
    return Tag(*saved["request"][0]), int(saved["request"][3])


def _script(
    recording: Recording, name: str, before: tuple[Tag, int] = _NONE
) -> dict[Tag, list[Vector | str | None]]:
    """For each request, what the controller said each time it was asked."""
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
    under_way, asked = before
    out[under_way] += [None] * asked
    for tag, kind, text in _happenings(recording, name):
        if kind == "Request":
            under_way = tag
        elif kind == "Late" or (kind == "Missed" and out[under_way]):
            out[under_way].append(None)
        elif kind == "Discarded":
            out[under_way].append(np.full(track.signals.size, np.nan))  # it was not recorded
        elif kind == "Failed":
            out[under_way].append(text)
            break  # from here on nobody asks it
    for tag, answer in answers.items():
        out[tag].append(answer)
    ended = [e.text for e in recording.events if e.kind == "Error"]
    if ended and under_way not in answers:  # it may be what ended the run
        out[under_way].append(ended[-1])
    return dict(out)


def _happenings(recording: Recording, name: str) -> list[tuple[Tag, str, str]]:
    """Requests and events of a controller as they came: tag, kind, text.

    At one tag, Late and Discarded are about an older request; one that is sent there comes next,
    and may fail within the tag; a tick is Missed where none was sent.
    """
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
