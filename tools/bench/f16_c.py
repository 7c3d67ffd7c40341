"""The F-16's step in C: its tables generated from the project's figures, compiled on the spot."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hitl.building.toolchain import BuildError, find_toolchain
from rtsim.core.signals import Vector
from rtsim.equations import earth
from rtsim.models import atmosphere, units
from rtsim.models.body import LOWEST_AIRSPEED
from rtsim.models.f16 import aerodynamics
from rtsim.models.f16.aerodynamics import grid, table

FLAGS = ("-O2",)
"""What the bound is held against."""
NATIVE_FLAGS = ("-O3", "-march=native")
"""Printed beside it: what this compiler makes of this very processor."""
SOURCE = Path(__file__).with_name("f16_step.c")

Array = NDArray[np.float64]
_GRIDS = {
    "ALPHA": "alpha_deg",
    "BETA": "beta_deg",
    "SLIP": "abs_beta_deg",
    "ELEVATOR": "elevator_deg",
    "MACH": "mach",
    "ALTITUDE": "altitude_ft",
}


class NoCompiler(Exception):
    """There is no C compiler on this machine."""


class CStep:
    """The compiled library: a step of its own each call, or many in one."""

    def __init__(self, library: ctypes.CDLL, parameters: Vector) -> None:
        self._derivative, self._step, self._steps = (
            library.f16_derivative,
            library.f16_step,
            library.f16_steps,
        )
        self._library = library
        self._parameters = np.ascontiguousarray(parameters, dtype=np.float64)
        self._p = ctypes.c_void_p(self._parameters.ctypes.data)

    def derivative(self, x: Vector, u: Vector) -> Vector:
        """dx (13,) at ``x`` (13,) and ``u`` (4,)."""
        dx = np.zeros(13)
        self._derivative(_address(x), _address(u), self._p, _address(dx))
        return dx

    def step_in_place(self, x: Vector, u: Vector, h: float, count: int = 1) -> None:
        """``count`` steps of ``h`` s in one call."""
        steps, step = ctypes.c_long(count), ctypes.c_double(h)
        self._steps(_address(x), _address(u), self._p, step, steps)

    def step_each(self, x: Vector, u: Vector, h: float, count: int) -> None:
        """``count`` calls of one step each, as cheap as ctypes makes them."""
        call, p, step = self._step, self._p, ctypes.c_double(h)
        ax, au = _address(x), _address(u)
        for _ in range(count):
            call(ax, au, p, step)


def compile_step(folder: Path, parameters: Vector, flags: tuple[str, ...] = FLAGS) -> CStep:
    """Compile ``f16_step.c`` into ``folder``; :class:`NoCompiler` names what to install."""
    return CStep(compile_library(folder, SOURCE, flags), parameters)


def compile_library(
    folder: Path, source: Path, flags: tuple[str, ...] = FLAGS, search: tuple[Path, ...] = ()
) -> ctypes.CDLL:
    """Compile ``source`` with the tables of the F-16 into ``folder`` and load it.

    ``search``: folders of included files.  Raises :class:`NoCompiler`.
    """
    try:
        compiler = find_toolchain()
    except BuildError as error:
        raise NoCompiler(str(error)) from None
    (folder / "f16_tables.h").write_text(tables_header(), encoding="utf-8")
    library = folder / f"{source.stem}{''.join(flags).replace('=', '-')}.so"
    strict = ("-std=c99", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    included = [f"-I{path}" for path in (folder, *search)]
    compiler.run([*strict, *flags, *included, "-o", library, source, "-lm"], folder)
    return ctypes.CDLL(str(library))


def _address(vector: Vector) -> ctypes.c_void_p:
    return ctypes.c_void_p(vector.ctypes.data)


def tables_header() -> str:
    """Every constant and table of the model, from where the Python model has them."""
    lines = ["/* Generated from rtsim/models: do not edit. */"]
    for name, value in _constants().items():
        lines.append(f"#define {name} {_number(value)}")
    for name, axis in _GRIDS.items():
        low, per, last = grid(axis)
        lines += [
            f"#define {name}_LOW {_number(low)}",
            f"#define {name}_PER {_number(per)}",
            f"#define {name}_LAST {last}",
        ]
    lines.append(f"#define LAYERS {len(atmosphere._BASE)}")
    for name, values in _tables().items():
        shape = "".join(f"[{n}]" for n in values.shape)
        lines.append(f"static const double {name}{shape} = {_braces(values)};")
    return "\n".join(lines) + "\n"


def _constants() -> dict[str, float]:
    return {
        "GEOPOTENTIAL_RADIUS": atmosphere.GEOPOTENTIAL_RADIUS,
        "ATMOSPHERE_TOP": atmosphere._TOP,
        "G_OVER_R": atmosphere.STANDARD_GRAVITY / atmosphere.GAS_CONSTANT,
        "GAS_CONSTANT": atmosphere.GAS_CONSTANT,
        "HEAT_RATIO": atmosphere.HEAT_RATIO,
        "MILITARY": aerodynamics._MILITARY,
        "LOWEST_AIRSPEED": LOWEST_AIRSPEED,
        "DEGREES_PER_RADIAN": aerodynamics.DEGREES_PER_RADIAN,
        "AREA": aerodynamics.AREA,
        "SPAN": aerodynamics.SPAN,
        "CHORD": aerodynamics.CHORD,
        "REFERENCE_CG": aerodynamics.REFERENCE_CG,
        "LBF": units.LBF,
        "FT": units.FT,
        "KT": units.KT,
        "DEG": units.DEG,
        "PI": math.pi,
        "SEA_LEVEL_DENSITY": atmosphere.SEA_LEVEL_DENSITY,
        "EQUATORIAL_RADIUS": earth.EQUATORIAL_RADIUS,
        "FLATTENING": earth.FLATTENING,
    }


def _tables() -> dict[str, Array]:
    def beside(*names: str, over: tuple[str, ...]) -> Array:
        return np.stack([table("aerodynamics", n, *over) for n in names], axis=-1)

    thrust = ("idle_lbf", "military_lbf", "maximum_lbf")
    surfaces = ("cl_aileron", "cl_rudder", "cn_aileron", "cn_rudder")
    rates = ("cz", "cxq", "cyr", "cyp", "czq", "clr", "clp", "cmq", "cnr", "cnp")
    return {
        "layer_base": atmosphere._BASE,
        "layer_lapse": atmosphere._LAPSE,
        "layer_temperature": atmosphere._TEMPERATURE,
        "layer_pressure": atmosphere._PRESSURE,
        "layer_exponent": atmosphere._EXPONENT,
        "over_alpha": beside(*rates, over=("alpha_deg",)),
        "over_elevator": beside("cx", "cm", over=("elevator_deg", "alpha_deg")),
        "sideslip": beside("cl", "cn", over=("abs_beta_deg", "alpha_deg")),
        "surfaces": beside(*surfaces, over=("beta_deg", "alpha_deg")),
        "thrust": np.stack(
            [table("propulsion", n, "mach", "altitude_ft") for n in thrust], axis=-1
        ),
    }


def _braces(values: Array) -> str:
    if values.ndim == 1:
        return "{" + ", ".join(_number(float(v)) for v in values) + "}"
    return "{" + ",\n ".join(_braces(v) for v in values) + "}"


def _number(value: float) -> str:
    """Exactly this double, in C; negative ones in brackets."""
    return value.hex() if value >= 0 else f"({value.hex()})"
