"""Check of the signs between a vehicle and its autopilot, one actuator at a time.

The check replaces the autopilot by a script. All actuators have their values at rest (for rotors, a
climb), and then one actuator moves up and down again. What the vehicle does is read from the body
that viewers draw, so that the check does not depend on the wires. Differences between a run with
and a run without the movement are compared with the directions that the autopilot declares
(:mod:`hitl.programs.axes`): those of its inputs, and the reactions to its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hitl.programs.autopilots import Autopilot
from hitl.programs.axes import (
    BODY,
    DIRECTIONS,
    MOTIONS,
    NED,
    QUATERNION,
    Actuator,
    Axes,
    Sense,
    said,
)
from rtsim.components.controller import PythonController
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signals, Vector
from rtsim.record.named_signals import SignalsByName
from rtsim.runs import simulate
from rtsim.scenario.body import Body
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent

OK, WRONG, OPEN = "ok", "wrong", "open"
"""Verdicts: the sign is right, wrong, or not decided."""
_OUTCOMES = {OK: Outcome.PASSED, WRONG: Outcome.FAILED, OPEN: Outcome.UNDECIDED}
_REMEDIES = (
    (WRONG, "wrong", "correct the wire, or the axes of the vehicle"),
    (OPEN, "not decided", "let the vehicle start in the air or with a larger speed"),
)
START_S, HALF_S, END_S = 1.0, 0.15, 2.5
"""Begin of a movement, its duration in one direction, and end of the run, s."""
AMOUNT = 0.1
"""Size of a movement, as a fraction of the actuator's range."""
_G = 9.80665
_EARTH_RADIUS = 6_378_137.0
_LEAST = {
    "rate": 0.005, "specific force": 0.02, "velocity": 0.01, "position": 0.005,
    "quaternion": 0.002, "euler": 0.004,
}  # fmt: skip
"""Smallest root mean square of a quantity's change with which its sign is decided, SI units."""
_LEAST_MOTION = {"roll": 1e-3, "pitch": 1e-3, "yaw": 1e-4, "climb": 2e-4, "surge": 2e-4}
_SURE, _OTHER, _FACTOR = 0.7, 0.9, 2.0
_PART = 0.1
"""An actuator has no effect on a motion if its effect is below this part of the largest one."""


@dataclass(frozen=True)
class Finding:
    """The verdict on one element of an input, or on one motion of an actuator."""

    subject: str
    """What was checked, such as ``fc.rates[0]`` or ``front left (fc.throttle[2])``."""
    expected: str
    found: str
    verdict: str


@dataclass(frozen=True)
class Wiring(Judged):
    """All findings of one check: passed if each sign is right, failed if one is wrong."""

    controller: str
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...] = ()
    """Inputs for which the autopilot declares no direction."""

    def of(self, verdict: str) -> list[Finding]:
        """Return the findings with a verdict."""
        return [one for one in self.findings if one.verdict == verdict]

    def _judge(self) -> Outcome:
        return Outcome.of_all(_OUTCOMES[one.verdict] for one in self.findings)

    @property
    def in_words(self) -> str:
        for verdict, what, remedy in _REMEDIES:
            if found := self.of(verdict):
                each = "; ".join(
                    f"{one.subject}: expected {one.expected}, found: {one.found}" for one in found
                )
                return f"{len(found)} {what}: {each}; {remedy}"
        many = len(self.findings)
        return f"all {many} signs are right" if many else "no sign was checked"


def check_wiring(scenario: Scenario, name: str | None = None, body: str | None = None) -> Wiring:
    """Move each actuator of an autopilot by hand, and compare signs with the declared directions.

    Args:
        scenario: Scenario with a vehicle and its autopilot; the check runs copies of the scenario.
        name: The autopilot; by default, the only controller with the attribute ``axes``.
        body: Body whose motion is the truth; by default, the only one that the scenario shows.

    Raises:
        ScenarioError: The scenario has no such autopilot or body.
    """
    return Movements(scenario, name, body).findings()


class Movements:
    """Runs of a scenario with a movement of each actuator; the arguments of :func:`check_wiring`.

    Attributes:
        axes: The axes of the autopilot.
        still: The run without a movement.
        moved: The runs with a movement, in the order of the actuators.
    """

    def __init__(
        self, scenario: Scenario, name: str | None = None, body: str | None = None
    ) -> None:
        self.name, self.axes = _autopilot(scenario, name)
        drawn = _body(scenario, body)
        self.inputs = scenario.of(ControllerComponent)[self.name].controller.inputs
        self.still = Movement(scenario, self.name, self.axes, drawn, None)
        self.moved = [
            Movement(scenario, self.name, self.axes, drawn, one) for one in self.axes.actuators
        ]

    def findings(self) -> Wiring:
        """Return the verdicts on all inputs and actuators of the axes."""
        out: list[Finding] = []
        for sense in self.axes.senses:
            if sense.signal in self.inputs:
                out += _of_sense(self.name, sense, self.still, self.moved)
        out += _of_actuators(self.name, self.axes.actuators, self.still, self.moved)
        known = {sense.signal for sense in self.axes.senses}
        unchecked = [f"{self.name}.{name}" for name in self.inputs.names if name not in known]
        return Wiring(self.name, tuple(out), tuple(unchecked))


def _autopilot(scenario: Scenario, name: str | None) -> tuple[str, Axes]:
    parts = scenario.of(ControllerComponent)
    known = {n: p.controller for n, p in parts.items() if hasattr(p.controller, "axes")}
    if name is not None and name not in known:
        raise UnknownName("autopilot", name, known, f"scenario {scenario.name}")
    if name is None and not known:
        raise ScenarioError(
            f"scenario {scenario.name} has no controller with declared axes; give a scenario with "
            "an autopilot, or declare the attribute axes in the controller's class"
        )
    if name is None and len(known) != 1:
        raise ScenarioError(
            f"scenario {scenario.name} has {len(known)} controllers with declared axes "
            f"({', '.join(known) or 'none'}); name one of them: -c NAME"
        )
    found = next(iter(known)) if name is None else name
    axes = cast(Autopilot, known[found]).axes
    inputs, outputs = known[found].inputs, known[found].outputs
    for sense in axes.senses:
        if sense.signal not in inputs:
            continue
        size = int(np.prod(inputs[sense.signal].shape))
        if size != len(sense.directions):
            raise ScenarioError(
                f"axes of {found}: {sense.signal} has {size} elements, and {len(sense.directions)} "
                f"directions are declared ({', '.join(sense.directions)}); declare one for each"
            )
    for one in axes.actuators:
        if one.signal not in outputs:
            raise UnknownName("output", one.signal, outputs.names, f"axes of {found}")
        size = int(np.prod(outputs[one.signal].shape))
        if not 0 <= one.element < size:
            raise ScenarioError(
                f"axes of {found}: actuator {one.name} is element {one.element} of {one.signal}, "
                f"which has {size}"
            )
    if not axes.actuators:
        raise ScenarioError(f"the axes of {found} name no actuators, so nothing can be moved")
    return found, axes


def _body(scenario: Scenario, name: str | None) -> Body:
    known = {body.name: body for body in scenario.presentation.bodies}
    if name is not None and name not in known:
        raise UnknownName("body", name, known, f"scenario {scenario.name}")
    if name is None and len(known) != 1:
        raise ScenarioError(
            f"scenario {scenario.name} shows {len(known)} bodies ({', '.join(known) or 'none'}); "
            "the check needs the motion of one: declare show(Body(...)), or give --body NAME"
        )
    return next(iter(known.values())) if name is None else known[name]


class Movement:
    """A run with a movement of one actuator, or of none: its signals, and the true motion."""

    def __init__(
        self, scenario: Scenario, name: str, axes: Axes, body: Body, moves: Actuator | None
    ) -> None:
        copy = scenario.copy()
        copy.until_ns = round(END_S * 1e9)
        design = copy.of(ControllerComponent)[name].controller
        copy.replace_controller(name, _script(design.inputs, design.outputs, axes, moves))
        copy.of(ControllerComponent)[name].initial_outputs = {}
        self.name, self.moves = name, moves
        self.run: SignalsByName = simulate(copy)
        times = self.run.time
        if times[-1] < END_S - 1e-9:
            raise ScenarioError(
                f"scenario {scenario.name} ended at {times[-1]:g} s, and the check moves the "
                f"actuators until {END_S:g} s; remove what ends the run, or let the vehicle start "
                "in the air"
            )
        self.time = np.linspace(0.0, END_S, 1 + round(END_S / float(np.median(np.diff(times)))))
        units = {
            f"{owner}.{signal.name}": signal.unit
            for owner, component in copy.components.items()
            for signal in readable(component, copy.components)
        }
        place = np.array([self._term(*term) for term in body.terms(body.where, units)])
        turned = np.array([self._term(*term) for term in body.terms(body.turned, units)])
        self.after = self.time >= START_S
        self.position = _to_ned(place) if body.geodetic else place
        self.euler = np.unwrap(_to_euler(turned) if body.quaternion else turned, axis=1)

    def _term(self, signal: str, factor: float) -> Vector:
        return self._series(signal)[0] * factor if signal else np.full(self.time.size, factor)

    def _series(self, name: str) -> Vector:
        """Return a signal at :attr:`time`, shape (elements, n); each run has the same times."""
        values = np.atleast_2d(self.run[name].T)
        return np.array([np.interp(self.time, self.run.time, row) for row in values])

    @cached_property
    def cosines(self) -> NDArray[np.float64]:
        """Rotation from north-east-down to body axes, shape (n, 3, 3)."""
        (sr, sp, sy), (cr, cp, cy) = np.sin(self.euler), np.cos(self.euler)
        rows = [
            [cp * cy, cp * sy, -sp],
            [sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, sr * cp],
            [cr * sp * cy + sr * sy, cr * sp * sy - sr * cy, cr * cp],
        ]
        return np.array(rows).transpose(2, 0, 1)

    @cached_property
    def velocity(self) -> Vector:
        return np.gradient(self.position, self.time, axis=1)

    def truth(self, quantity: str) -> Vector:
        """Return the true quantity, shape (3, n), or (4, n) for a quaternion."""
        if quantity == "position":
            return self.position
        if quantity == "velocity":
            return self.velocity
        if quantity == "euler":
            return self.euler
        if quantity == "quaternion":
            return _to_quaternion(self.euler)
        if quantity == "rate":
            roll, pitch, _ = self.euler
            dr, dp, dy = np.gradient(self.euler, self.time, axis=1)
            return np.array([
                dr - dy * np.sin(pitch),
                dp * np.cos(roll) + dy * np.sin(roll) * np.cos(pitch),
                -dp * np.sin(roll) + dy * np.cos(roll) * np.cos(pitch),
            ])  # fmt: skip
        force = np.gradient(self.velocity, self.time, axis=1) - np.array([[0.0], [0.0], [_G]])
        out: Vector = np.einsum("nij,jn->in", self.cosines, force)
        return out

    def input(self, sense: Sense) -> Vector:
        """Return the input of the autopilot, shape (elements, n)."""
        values = self._series(f"{self.name}.{sense.signal}")
        if sense.quantity == "quaternion":
            return values * np.where(values[0] < 0, -1.0, 1.0)
        return values

    def _integral(self, values: Vector, within: NDArray[np.bool_]) -> Vector:
        part = values[:, within]
        out: Vector = 0.5 * (part[:, 1:] + part[:, :-1]) @ np.diff(self.time[within])
        return out

    def motion(self) -> dict[str, float]:
        """Return each motion while the actuator is up: integrals of rates in rad, distances in m.

        Euler angles would mix the motions: a roll and a pitch together also turn the yaw angle.
        The movement in the other direction is left out, because an aircraft turns back with it.
        """
        within = (self.time >= START_S) & (self.time <= START_S + HALF_S)
        roll, pitch, yaw = self._integral(self.truth("rate"), within)
        moved = self.position[:, within]
        surge = self.cosines[within][0][0] @ (moved[:, -1] - moved[:, 0])
        values = (roll, pitch, yaw, moved[2, 0] - moved[2, -1], surge)
        return dict(zip(MOTIONS, map(float, values), strict=True))


def _script(
    inputs: Signals, outputs: Signals, axes: Axes, moves: Actuator | None
) -> PythonController:
    """Return a controller with all actuators at rest, of which one moves up and down again."""
    rest = outputs.initial()
    step = np.zeros(outputs.size)
    for one in axes.actuators:
        rest[outputs.slice(one.signal).start + one.element] = one.rest
    if moves is not None:
        place = outputs.slice(moves.signal).start + moves.element
        step[place] = AMOUNT * (moves.high - moves.low)

    def law(t: float, y: Vector) -> None:
        side = 1.0 if t < START_S + HALF_S else -1.0
        moving = START_S - 1e-9 <= t < START_S + 2 * HALF_S
        y[:] = rest + side * step if moving else rest

    return PythonController(law, inputs, outputs, name="wiring")


def _of_sense(name: str, sense: Sense, still: Movement, moved: Sequence[Movement]) -> list[Finding]:
    """Compare the changes of one input with those of the true quantity."""
    after = still.after

    def changes(read: Callable[[Movement], Vector]) -> Vector:
        return np.concatenate([(read(run) - read(still))[:, after] for run in moved], axis=1)

    found = changes(lambda run: run.input(sense))
    truth = changes(lambda run: run.truth(sense.quantity))
    words = QUATERNION if sense.quantity == "quaternion" else _axes_of(sense)
    out = []
    for k, direction in enumerate(sense.directions):
        if direction == "scalar":
            continue
        element = f"[{k}]" if len(found) > 1 else ""
        subject = f"{name}.{sense.signal}{element}"
        out.append(_compare(subject, sense, k, found[k], truth, words))
    return out


def _axes_of(sense: Sense) -> tuple[str, ...]:
    if sense.quantity == "euler":
        return ("roll", "pitch", "yaw")
    return BODY if sense.quantity in ("rate", "specific force") else NED


def _expected(sense: Sense, k: int, truth: Vector, words: tuple[str, ...]) -> Vector:
    direction = sense.directions[k]
    if direction in words:
        out: Vector = truth[words.index(direction)]
        return out
    return np.asarray(np.array(DIRECTIONS[direction]) @ truth)


def _compare(
    subject: str, sense: Sense, k: int, found: Vector, truth: Vector, words: tuple[str, ...]
) -> Finding:
    """Return the verdict on one element of an input."""
    wanted = _expected(sense, k, truth, words)
    expected = sense.words(k)
    least = _LEAST[sense.quantity]
    if _rms(wanted) < least:
        return Finding(
            subject, expected, f"the movements change it by {_rms(wanted):.2g} only, too little",
            OPEN,
        )  # fmt: skip
    if _rms(found) == 0.0:
        return Finding(subject, expected, "the input does not change", WRONG)
    same = _cosine(wanted, found)
    slope = float(wanted @ found / (wanted @ wanted))
    if same > _SURE:
        if sense.scaled and not 1 / _FACTOR < slope < _FACTOR:
            return Finding(
                subject, expected, f"the input is {slope:.4g} times the quantity: check its unit",
                WRONG,
            )  # fmt: skip
        return Finding(subject, expected, "the same sign", OK)
    if same < -_SURE:
        return Finding(subject, expected, "the opposite sign", WRONG)
    for j, word in enumerate(words):
        if word != "scalar" and _rms(truth[j]) > least and abs(_cosine(truth[j], found)) > _OTHER:
            sign = "" if _cosine(truth[j], found) > 0 else "minus "
            return Finding(subject, expected, f"the input follows {sign}the axis {word}", WRONG)
    return Finding(
        subject, expected, f"does not follow the quantity (correlation {same:.2f})", WRONG
    )


def _rms(values: Vector) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _cosine(one: Vector, other: Vector) -> float:
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norm if norm else 0.0


def _of_actuators(
    name: str, actuators: Sequence[Actuator], still: Movement, moved: Sequence[Movement]
) -> list[Finding]:
    """Compare the reaction to each actuator with its declared effects."""
    rest = still.motion()
    changes = [{m: value - rest[m] for m, value in run.motion().items()} for run in moved]
    largest = {m: max(abs(change[m]) for change in changes) for m in MOTIONS}
    signs = [
        {m: 0 if abs(c[m]) < max(_PART * largest[m], _LEAST_MOTION[m]) else int(np.sign(c[m]))
         for m in MOTIONS} for c in changes
    ]  # fmt: skip
    out = []
    for one, reaction in zip(actuators, signs, strict=True):
        subject = f"{one.name} ({name}.{one.signal}[{one.element}])"
        like = [
            other.name for other in actuators
            if other.name != one.name and _reacts_as(other, reaction)
        ]  # fmt: skip
        hint = f"; reacts as {like[0]}" if len(like) == 1 and not _reacts_as(one, reaction) else ""
        for motion, sign in one.effects.items():
            expected = said(motion, sign)
            got = reaction[motion]
            if largest[motion] < _LEAST_MOTION[motion]:
                found, verdict = "no actuator causes this motion", OPEN
            elif not got:
                found, verdict = f"no {motion}{hint}", WRONG
            else:
                found = said(motion, got) + (hint if got != sign else "")
                verdict = OK if got == sign else WRONG
            out.append(Finding(subject, expected, found, verdict))
    return out


def _reacts_as(one: Actuator, reaction: dict[str, int]) -> bool:
    return all(reaction[motion] == sign for motion, sign in one.effects.items())


def _to_ned(place: Vector) -> Vector:
    """Return the position in m of geodetic coordinates (rad, rad, m), relative to the first."""
    latitude, longitude, altitude = place
    return np.array([
        (latitude - latitude[0]) * _EARTH_RADIUS,
        (longitude - longitude[0]) * _EARTH_RADIUS * np.cos(latitude[0]),
        altitude[0] - altitude,
    ])  # fmt: skip


def _to_euler(q: Vector) -> Vector:
    a, b, c, d = q
    return np.array([
        np.arctan2(2 * (a * b + c * d), 1 - 2 * (b * b + c * c)),
        np.arcsin(np.clip(2 * (a * c - d * b), -1.0, 1.0)),
        np.arctan2(2 * (a * d + b * c), 1 - 2 * (c * c + d * d)),
    ])  # fmt: skip


def _to_quaternion(euler: Vector) -> Vector:
    """Return the quaternion with a scalar part of at least 0, shape (4, n)."""
    (sr, sp, sy), (cr, cp, cy) = np.sin(euler / 2), np.cos(euler / 2)
    q = np.array([
        cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy,
    ])  # fmt: skip
    return q * np.where(q[0] < 0, -1.0, 1.0)
