"""Replay: run a recorded scenario again, with the recorded external inputs and timing decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.allowed_latency import from_plain
from rtsim.components.controller import Controller, FedController
from rtsim.components.external_inputs import ExternalInput, FedInput
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.commands.commands import CommandError, PendingCommand, from_json
from rtsim.engine.trace import COMMAND, INSERTED, request_topic
from rtsim.equations.source_hash import source_hash
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import (
    end_of,
    ended_by_itself,
    recorder_for_repeat,
    said_no_more,
)
from rtsim.runs.request import FedInputs, RunRequest, compilation_of
from rtsim.runs.simulation import run
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.trust import scenario_to_load


def rerun(
    recording: Recording,
    scenario: Scenario | None = None,
    *,
    start: Checkpoint | None = None,
    stop_ns: int | None = None,
) -> Recording:
    """Repeat a recorded run as fast as possible and return the new recording.

    Compare the two recordings to check the replay, for example with
    :func:`rtsim.record.comparison.compare_exact`.

    ``scenario``: by default it is loaded from the place that the recording names.
    ``start``: one of the run's checkpoints, from which to begin; by default the start of the run.
    ``stop_ns``: end at the first tag at or after this time; by default the end of the recording.

    If the repeated run ends in an error of the simulation, the returned recording ends with that
    error.  Raises :class:`RecordingError` if the recording does not contain what is needed, and any
    error that prevents the repetition on this machine (:func:`ended_by_itself`).
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
    """Return the request that repeats a recorded run; the arguments are those of :func:`rerun`.

    ``live``: run external controllers again instead of replaying their recorded answers.
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
    """Return the names of tracks that a replay reads instead of computing them.

    These are the external inputs, and the answers of external controllers.
    """
    replaced = recording.header.get("scenario", {}).get("origin", {}).get("replaced", {})
    parts = scenario.components.items()
    external_inputs = {part.external.name for _, part in parts if part.external is not None}
    answers = {name for name, part in parts if part.outside or name in replaced}
    return {f"inputs/{name}" for name in external_inputs} | {f"messages/{name}" for name in answers}


def continued(recording: Recording) -> Checkpoint | None:
    """Return the checkpoint from which the recording continues; ``None`` if it has none.

    Raises :class:`RecordingError` if the file is missing or is another one than recorded.
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
    """Load the scenario of a recording; recorded answers replace controllers that ran as C.

    Raises as :func:`scenario_from` does.
    """
    return scenario_from(
        recording.header, recording.source, lambda name: fed_controller(recording, name)
    )


def scenario_from(
    header: Mapping[str, Any], source: str, instead: Callable[[str], Controller]
) -> Scenario:
    """Load the scenario that the header of a recording or a checkpoint describes.

    ``source`` is the file's name for error messages.  ``instead`` returns the controller to use
    for each controller that had been replaced in the recorded run.  Raises
    :class:`RecordingError` if the run was started from Python, so that no scenario is named, and
    :class:`TrustError` if the named code must not be run.
    """
    origin: Mapping[str, Any] = header.get("scenario", {}).get("origin", {})
    if not origin.get("reference"):
        raise RecordingError(
            f"{source} names no scenario, because its run was started from Python; use "
            "rtsim.runs.replay.rerun(recording, scenario), or simulate(scenario, start=checkpoint)"
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


BUILD_CHANGED = "its C code, its flags or its compiler have changed"
"""Explanation that is printed if a controller's ``key``, which identifies its build, has
changed."""


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
    """Return the external inputs by name, replaying their recorded values."""
    out: dict[str, ExternalInput] = {}
    for external in (part.external for part in scenario.components.values()):
        if external is not None:
            rows = recording.rows(f"inputs/{external.name}")
            values = {int(ns): np.array(v) for ns, v in zip(rows.ns, rows.floats, strict=True)}
            out[external.name] = FedInput(external.name, external.signals, values)
    return out


def fed_commands(recording: Recording) -> list[PendingCommand]:
    """Return the recorded commands, except those on pace and pauses, which change no value.

    Raises :class:`RecordingError` for a malformed command.
    """
    told = [e for e in recording.events if e.kind == COMMAND and e.source in AT_A_TAG]
    try:
        return [PendingCommand(from_json(e.text), None, e.tag.ns) for e in told]
    except CommandError as error:
        raise RecordingError(
            f"{recording.source} contains a malformed command: {error}; the file was written by "
            "another version of rtsim, or is damaged"
        ) from None


def fed_controllers(scenario: Scenario, recording: Recording) -> dict[str, Controller]:
    """Return controllers that replay the recorded answers of external controllers, by name."""
    outside = [name for name, part in scenario.components.items() if part.outside]
    return {name: fed_controller(recording, name) for name in outside}


def fed_controller(recording: Recording, name: str) -> FedController:
    """Return a controller that replays the recorded answers of controller ``name``."""
    inputs = recording.track(f"messages/{request_topic(name)}").signals
    outputs = recording.track(f"messages/{name}").signals
    part = recording.header.get("scenario", {}).get("parts", {}).get(name, {})
    about = {key: part[key] for key in part.get("about", ())}
    parameters = Signals(*(_constant(n, v) for n, v in part.get("parameters", {}).items()))
    script = _script(recording, name, _under_way(continued(recording), name))
    return FedController(inputs, outputs, script, about, parameters)


def _constant(name: str, value: float | list[float]) -> Signal:
    """Return a recorded parameter as a signal with the recorded value."""
    if isinstance(value, list):
        return Signal(name, shape=(len(value),), initial=tuple(value))
    return Signal(name, initial=value)


_NONE = Tag(-1), 0


def _under_way(start: Checkpoint | None, name: str) -> tuple[Tag, int]:
    """Return the request that was pending at a checkpoint, and how often its answer was polled."""
    saved = {} if start is None else start.state["tasks"].get(name, {})
    if saved.get("request") is None:
        return _NONE
    return Tag(*saved["request"][0]), int(saved["request"][3])


def _script(
    recording: Recording, name: str, before: tuple[Tag, int] = _NONE
) -> dict[Tag, list[Vector | str | None]]:
    """Return, for each request, the recorded results of polling the controller for its answer."""
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
            out[under_way].append(np.full(track.signals.size, np.nan))  # not recorded
        elif kind == "Failed":
            out[under_way].append(text)
            break  # a failed controller is not polled any more
    for tag, answer in answers.items():
        out[tag].append(answer)
    ended = [e.text for e in recording.events if e.kind == "Error"]
    if ended and under_way not in answers:  # the pending request may have ended the run
        out[under_way].append(ended[-1])
    return dict(out)


def _happenings(recording: Recording, name: str) -> list[tuple[Tag, str, str]]:
    """Return the requests and events of a controller in order, as tag, kind and text.

    At one tag, Late and Discarded concern an earlier request, so they come first.  Then comes a
    request sent at this tag, which may fail within the tag.  Missed stands for a request that was
    not sent.
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
