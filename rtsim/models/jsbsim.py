"""Aircraft of JSBSim as plants: ``scenario.plant("plane", JsbSim("c172p", ...), step=0.01)``.

JSBSim integrates the aircraft with its own solver and a constant step. The inputs and outputs of
the plant are properties of JSBSim, in JSBSim's units.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.errors import Ended, ModelError, ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.fmi.plant import ForeignModel
from rtsim.fmi.process import checked_patience, opened
from rtsim.fmi.program import NOTHING, OUTPUTS, START, Interface, LocalProgram, identifier

TRIMS = {"": -1, "longitudinal": 0, "full": 1, "ground": 2}
"""JSBSim's number of each kind of trim that this module supports (``FGTrim::tMode``)."""
_UNITS = {
    "ft": "ft", "fps": "ft/s", "fpm": "ft/min", "kts": "kn", "deg": "deg", "rad": "rad",
    "rad_sec": "rad/s", "lbs": "lbf", "psf": "lbf/ft^2", "sec": "s", "mach": "1", "norm": "1",
    "fps2": "ft/s^2", "rad_sec2": "rad/s^2", "slug_ft3": "slug/ft^3", "slugs": "slug",
}  # fmt: skip
RATE = 120.0
"""JSBSim's own rate, Hz."""
Properties = Mapping[str, str] | Sequence[str]


class JsbSim(ForeignModel):
    """An aircraft of JSBSim; docs/jsbsim.md has an example.

    After the trim, :attr:`trimmed` contains the values of all inputs and outputs. An input starts
    with its trimmed value, and moves a control as soon as the input has another value.

    Args:
        aircraft: Name of the aircraft, such as ``"c172p"``.
        inputs: Properties that the scenario sets: a mapping from names of signals to properties, or
            the properties. From ``fcs/elevator-cmd-norm``, the name ``fcs_elevator_cmd_norm`` is
            made.
        outputs: Properties that others can read, in the same form.
        initial: Initial conditions by property, such as ``{"ic/h-sl-ft": 5000}``. The initial
            conditions are the parameters of the plant.
        trim: ``"full"``, ``"longitudinal"``, ``"ground"``, or ``""`` for no trim.
        engines: True starts the engines before the trim.
        rate: JSBSim's rate, Hz. A step of the plant has as many of JSBSim's steps as this rate
            needs, all of one length.
        root: Folder with the folders ``aircraft``, ``engine`` and ``systems``. The default is the
            folder of the package jsbsim.
        in_process: True runs JSBSim in the process of the simulation.
        patience: Timeout of one step, s of the wall clock. The default is 10 s.

    Raises:
        ScenarioError: The aircraft cannot be loaded.
        ModelError: The initial conditions cannot be trimmed, or a property does not exist.
    """

    def __init__(
        self,
        aircraft: str,
        *,
        inputs: Properties = (),
        outputs: Properties = (),
        initial: Mapping[str, float] | None = None,
        trim: str = "full",
        engines: bool = True,
        rate: float = RATE,
        root: str | Path | None = None,
        in_process: bool = False,
        patience: float | None = None,
    ) -> None:
        with needs("jsbsim", "an aircraft of JSBSim"):
            import jsbsim
        if trim not in TRIMS:
            raise UnknownName("trim", trim, TRIMS, "JsbSim(trim=)")
        if not (math.isfinite(rate) and rate > 0):
            raise ScenarioError(f"rate is {rate} Hz; give a rate > 0 Hz")
        timeout = checked_patience(patience, in_process)
        folder = Path(jsbsim.get_default_root_dir() if root is None else root)
        known = sorted(p.parent.name for p in folder.glob("aircraft/*/*.xml"))
        if aircraft not in known:
            raise UnknownName("aircraft", aircraft, dict.fromkeys(known), str(folder))
        self.in_process, self.patience = in_process, timeout
        first = dict(initial or {})
        ins, outs = _named(inputs), _named(outputs)
        both = set(ins) & set(outs)
        if both:
            raise ScenarioError(f"{min(both)} is both an input and an output; rename one of them")
        spec = {
            "aircraft": aircraft, "root": str(folder), "inputs": list(ins.values()),
            "outputs": list(outs.values()), "initial": list(first), "trim": TRIMS[trim],
            "engines": engines, "rate": rate, "untouched": [],
        }  # fmt: skip
        start = np.array([_number(property, value) for property, value in first.items()])
        self.trimmed = self._trim(spec, {**ins, **outs}, start)
        """Values of the inputs and outputs after the trim, by name."""
        spec["untouched"] = [self.trimmed[name] for name in ins]
        self.interface = Interface(
            name=identifier(aircraft, {}),
            program="jsbsim",
            spec=spec,
            inputs=Signals(*(self._signal(n, p, optional=True) for n, p in ins.items())),
            outputs=Signals(*(self._signal(n, p) for n, p in outs.items())),
            parameters=Signals(
                *(
                    Signal(identifier(p, {}), _unit(p), initial=float(v), description=p)
                    for p, v in first.items()
                )
            ),
            fixed_step=True,
            description={"aircraft": aircraft, "jsbsim": jsbsim.__version__, "trim": trim},
            limits=(
                f"JSBSim cannot save the state of {aircraft}: no checkpoints and no rewind, and in "
                "real time its step is computed after the wake-up",
                f"{aircraft} has steps of one length: an input that changes during a step takes "
                "effect at the next step",
            ),
        )

    def _trim(
        self, spec: Mapping[str, Any], properties: Mapping[str, str], start: Vector
    ) -> dict[str, float]:
        own = {**spec, "inputs": [], "outputs": list(properties.values())}
        program = opened(spec["aircraft"], "jsbsim", own, self.patience, self.in_process)
        try:
            program.call(START, np.concatenate(((0.0,), start)))
            values, _ = program.call(OUTPUTS, np.zeros(1))
        finally:
            program.close()
        return dict(zip(properties, values.tolist(), strict=True))

    def _signal(self, name: str, property: str, optional: bool = False) -> Signal:
        first = self.trimmed[name]
        return Signal(name, _unit(property), initial=first, optional=optional, description=property)


def _named(given: Properties) -> dict[str, str]:
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str):
        raise ScenarioError(f"{given!r} is a text; give a list of properties: [{given!r}]")
    out: dict[str, str] = {}
    for property in given:
        out[identifier(property, out)] = property
    return out


def _number(property: str, value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ScenarioError(f"the initial value {value!r} of {property} is not a finite number")


def _unit(property: str) -> str:
    name = property.rpartition("/")[2].partition("[")[0]
    return next((u for end, u in _UNITS.items() if name.endswith((f"-{end}", f"_{end}"))), "1")


class JsbSimProgram(LocalProgram):
    """An aircraft of JSBSim in this process; ``spec`` is the mapping that ``JsbSim`` creates."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        with needs("jsbsim", "an aircraft of JSBSim"):
            import jsbsim
        os.environ.setdefault("JSBSIM_DEBUG", "0")  # no banner on standard output
        self._spec = spec
        self._fdm: Any = jsbsim.FGFDMExec(spec["root"])
        self._fdm.set_debug_level(0)
        if not self._fdm.load_model(spec["aircraft"]):
            raise ModelError(f"JSBSim cannot load the aircraft {spec['aircraft']}")
        self._length = 1.0 / spec["rate"]
        self._fdm.set_dt(self._length)
        self._steps = 0
        """JSBSim's steps in a step of the plant; 0 before the first step."""
        self._plant_step = 0.0
        self._u = np.zeros(len(spec["inputs"]))
        self._check(*spec["initial"], *spec["inputs"], *spec["outputs"])

    def _check(self, *names: str) -> None:
        manager = self._fdm.get_property_manager()
        for name in names:
            if not manager.hasNode(name):
                catalog = (text.partition(" ")[0] for text in self._fdm.get_property_catalog())
                raise UnknownName("property", name, list(catalog), self._spec["aircraft"])

    def start(self, numbers: Vector) -> Vector:
        fdm, spec = self._fdm, self._spec
        count = len(spec["initial"])
        initial = numbers[1 : 1 + count]
        # An input with its trimmed value leaves the control where this start trims it.
        self._u = np.array(spec["untouched"], float)
        if self._started:
            fdm = self._again()
        self._started = True
        for name, value in zip(spec["initial"], initial.tolist(), strict=True):
            fdm[name] = value
        if not fdm.run_ic():
            raise ModelError(f"JSBSim cannot start {spec['aircraft']} from these conditions")
        if spec["engines"]:
            fdm.get_propulsion().init_running(-1)
        if spec["trim"] >= 0:
            try:
                fdm.do_trim(spec["trim"])
            except Exception as error:
                pairs = zip(spec["initial"], initial.tolist(), strict=True)
                given = ", ".join(f"{name} = {value:g}" for name, value in pairs)
                raise ModelError(
                    f"JSBSim cannot trim {spec['aircraft']} at {given or 'its defaults'}: {error}; "
                    "give other initial conditions, or trim=''"
                ) from None
        return np.array([math.inf])

    _started = False

    def _again(self) -> Any:
        self.__init__(self._spec)  # type: ignore[misc]
        return self._fdm

    def step(self, numbers: Vector) -> Vector:
        fdm, h = self._fdm, float(numbers[1])
        if abs(h - self._plant_step) > 1e-9:
            self._plant_step = h
            self._steps = max(1, math.ceil(h * self._spec["rate"] - 1e-6))
            fdm.set_dt(h / self._steps)
        for k, value in enumerate(numbers[2:].tolist()):
            if value != self._u[k]:
                fdm[self._spec["inputs"][k]] = value
                self._u[k] = value
        for _ in range(self._steps):
            if not fdm.run():
                raise Ended("JSBSim", float(numbers[0]) + h)
        return self._values()

    def _values(self) -> Vector:
        fdm = self._fdm
        return np.array([fdm[name] for name in self._spec["outputs"]], float)

    def outputs(self, _: Vector = NOTHING) -> Vector:
        return self._values()
