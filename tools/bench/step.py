"""(c) One RK4 step of the F-16: compiled Python against C written by hand, and JSBSim beside them.

The two must first agree on random states, or the comparison is void.  *In a loop* is many steps in
one call of compiled code: what the equations and the solver's inner loop cost.  *A call* is one
step each call, as the interpreter makes it; C is then called through ctypes.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import INTEGER, NUMBER
from rtsim.equations.calls import check as check_first
from rtsim.equations.compiling import CHECKED, compile_function
from rtsim.equations.model import BoundModel, bind
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import case
from rtsim.models.f16.trim import bound_f16
from rtsim.solve import solver_named
from rtsim.solve.fixed_step import EXPLICIT_LAYOUT as LAYOUT
from rtsim.solve.fixed_step import RK4, explicit_arrays, explicit_step
from rtsim.solve.internal_steps import functions_of, model_sizes
from tools.bench.f16_c import FLAGS, NATIVE_FLAGS, CStep, NoCompiler, compile_step
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio, spread

H_NS = 5_000_000
H = H_NS / 1e9
AGREE = 1e-12
BOUND, CALL_BOUND = 2.0, 1.2
_GROUPS = ((0, 3), (3, 6), (6, 10), (10, 13))


class Void(RtsimError):
    """The C program computes something else; nothing is compared."""


def _many(there: Any, back: Any, h: float, count: int) -> None:
    for _ in range(count // 2):  # to and fro, so that nothing is copied
        explicit_step(there, 0.0, h)
        explicit_step(back, 0.0, h)


@dataclass(frozen=True)
class Flight:
    """Where every contender starts: NASA's case 11, in trim."""

    bound: BoundModel
    x: Vector
    u: Vector
    p: Vector

    @classmethod
    def trimmed(cls, checked: bool = False) -> Flight:
        """``checked``: compiled as ``rtsim run --checked`` does."""
        found = case("11")
        u = np.array([found.inputs[name] for name in F16.inputs.names])
        bound = bind(F16, compile=CHECKED) if checked else bound_f16()
        return cls(bound, found.state, u, F16.parameters.initial(found.parameters))

    def kernel(self) -> Callable[[Vector, int], None]:
        """Steps ``x`` in place, an even number in one call."""
        bound, x, out = self.bound, np.zeros(13), np.zeros(13)
        handles, sizes = functions_of(bound), model_sizes(bound)
        rest = {
            "z": np.zeros(0),
            "u": self.u,
            "p": self.p,
            **explicit_arrays(RK4.tableau),
        }
        there, back = (
            LAYOUT.block(handles, LAYOUT.filled({"x": a, "out": b, **rest}, sizes), sizes)
            for a, b in ((x, out), (out, x))
        )

        kinds = (LAYOUT.kind, LAYOUT.kind, NUMBER, INTEGER)
        many = compile_function(_many, kinds, "many steps").on(there, back)

        def fly(state: Vector, count: int) -> None:
            x[:] = state
            many(H, count)
            state[:] = x

        return fly

    def calls(self) -> Callable[[Vector, int], None]:
        """Steps ``x`` by the public ``Stepper.advance``, an even number of calls.

        Two steppers take turns, to and fro, so that nothing is copied: C works in place too.
        """
        steppers = [solver_named("rk4").stepper(self.bound) for _ in range(2)]
        z, out = np.zeros(0), np.zeros(13)

        def fly(x: Vector, count: int) -> None:
            u, p, ns = self.u, self.p, 0
            there, back = (stepper.advance for stepper in steppers)
            for _ in range(count // 2):
                half = ns + H_NS
                there(ns, half, x, z, u, p, out)
                ns = half + H_NS
                back(half, ns, out, z, u, p, x)

        return fly


def worst_difference(c: CStep, flight: Flight, count: int = 2000, seed: int = 1) -> float:
    """Of the two derivatives over random states and controls, relative to each vector's length."""
    random = np.random.default_rng(seed)
    worst, dx, z = 0.0, np.zeros(13), np.zeros(0)
    for _ in range(count):
        x, u = flight.x.copy(), random.uniform([-30, -20, -30, 0], [30, 20, 30, 100])
        x[:3] *= 1.0 + random.uniform(-0.001, 0.004)
        x[3:6] *= random.uniform(0.95, 1.05, 3)
        x[6:10] += random.normal(0.0, 0.1, 4)
        x[10:] = random.normal(0.0, 0.5, 3)
        flight.bound.derivative.call(0.0, x, z, u, flight.p, dx)
        theirs = c.derivative(x, u)
        for low, high in _GROUPS:
            size = float(np.linalg.norm(dx[low:high]))
            worst = max(worst, float(np.abs(dx[low:high] - theirs[low:high]).max()) / size)
    return worst


def stepped_difference(c: CStep, flight: Flight, count: int = 200) -> float:
    """Of the two states after ``count`` steps, relative to each vector's length."""
    ours, theirs = flight.x.copy(), flight.x.copy()
    flight.kernel()(ours, count)
    c.step_in_place(theirs, flight.u, H, count)
    return max(
        float(np.abs(ours[a:b] - theirs[a:b]).max() / np.linalg.norm(ours[a:b])) for a, b in _GROUPS
    )


def check(c: CStep, flight: Flight) -> float:
    """The greatest relative difference; :class:`Void` if it is more than :data:`AGREE`."""
    worst = max(worst_difference(c, flight), stepped_difference(c, flight))
    if not worst <= AGREE:
        raise Void(
            f"tools/bench/f16_step.c differs from rtsim/models by {worst:.3g}, allowed {AGREE:g}: "
            "they are not the same equations; mend f16_step.c"
        )
    return worst


def run(quick: bool = False, rounds: int | None = None) -> Result:
    """Measure: batches of steps in turns."""
    title = "one RK4 step of the F-16, 5 ms"
    flight = Flight.trimmed()
    with tempfile.TemporaryDirectory() as folder:
        try:
            plain = compile_step(Path(folder), flight.p)
            native = compile_step(Path(folder), flight.p, NATIVE_FLAGS)
        except NoCompiler as error:
            return Result("step", title, skipped=str(error))
        worst = max(check(plain, flight), check(native, flight))
        return _measure(title, flight, plain, native, rounds or (200 if quick else 2000), worst)


def _measure(
    title: str, flight: Flight, plain: CStep, native: CStep, rounds: int, worst: float
) -> Result:
    kernel, calls = flight.kernel(), flight.calls()
    checked = Flight.trimmed(checked=True).kernel()
    work: dict[str, Callable[[Vector, int], None]] = {
        "C": lambda x, n: plain.step_in_place(x, flight.u, H, n),
        "C native": lambda x, n: native.step_in_place(x, flight.u, H, n),
        "rtsim": kernel,
        "rtsim checked": checked,
        "C call": lambda x, n: plain.step_each(x, flight.u, H, n),
        "rtsim call": calls,
    }
    contenders = {name: _batch(fly, flight.x) for name, fly in work.items()}
    contenders["first call"] = _first_call(flight)
    jsbsim, why = _jsbsim()
    if jsbsim is not None:
        contenders["JSBSim"] = jsbsim
    ns = in_turns(contenders, rounds)

    def row(what: str, name: str, against: str = "", most: float = 0.0) -> Row:
        figures = spread(ns[name])
        if not against:
            return Row(what, figures)
        ratio = median_ratio(ns[name], ns[against])
        figures |= {"ratio [x]": ratio}
        return Row(what, figures, *((f"<= {most:g} x", ratio <= most) if most else ()))

    rows = [
        row(f"C in a loop, cc {' '.join(FLAGS)}", "C"),
        row("rtsim in a loop", "rtsim", "C", BOUND),
        row("C, a call each by ctypes", "C call"),
        row("rtsim, a call each: Stepper.advance", "rtsim call", "C call", CALL_BOUND),
        row(f"C in a loop, cc {' '.join(NATIVE_FLAGS)}", "C native", "C"),
        row("rtsim in a loop, --checked", "rtsim checked", "rtsim"),
        row("the check of the derivative's first call, once a run", "first call"),
    ]
    if jsbsim is not None:
        rows.append(row("JSBSim's own F-16, a call each", "JSBSim", "C call"))
    notes = (
        f"C and rtsim differ by {worst:.2g} relative at most on random states and after 200 steps",
        "ratio: median over the rounds; to C in a loop, or to C by ctypes for what is a call each; "
        "of --checked to rtsim in a loop",
        "the check of a first call is plain Python; the loop calls what is not checked",
        why or "JSBSim computes its own F-16, with its flight control system and its integrators",
    )
    return Result("step", title, tuple(rows), notes)


BATCH = 50


def _batch(fly: Callable[[Vector, int], None], start: Vector) -> Callable[[], float]:
    """A contender: ns a step over one batch from ``start``."""
    x = start.copy()

    def measure() -> float:
        x[:] = start
        began = stopwatch()
        fly(x, BATCH)
        return (stopwatch() - began) / BATCH

    return measure


def _first_call(flight: Flight) -> Callable[[], float]:
    """ns of the check of a derivative, where it is bound."""
    vectors = (flight.x.copy(), np.zeros(0), flight.u, flight.p, np.zeros(13))

    def measure() -> float:
        began = stopwatch()
        check_first(flight.bound.derivative, 0.0, *vectors)
        return float(stopwatch() - began)

    return measure


def _jsbsim() -> tuple[Callable[[], float] | None, str]:
    """JSBSim's F-16 at the same height and speed; or why it is not there."""
    try:
        jsbsim = importlib.import_module("jsbsim")
    except ImportError:
        return None, "JSBSim is not installed; type: pip install 'rtsim[bench]'"
    jsbsim.FGJSBBase().debug_lvl = 0
    flown = jsbsim.FGFDMExec(jsbsim.get_default_root_dir(), None)
    flown.set_debug_level(0)
    if not flown.load_model("f16"):
        return None, "JSBSim is installed without its F-16"
    flown.set_dt(H)
    for name, value in (
        ("ic/h-sl-ft", 10013.0),
        ("ic/vc-kts", 287.0),
        ("propulsion/engine/set-running", 1.0),
    ):
        with suppress(Exception):
            flown[name] = value
    if not flown.run_ic():
        return None, "JSBSim found no initial condition for its F-16"

    def measure() -> float:
        began = stopwatch()
        for _ in range(BATCH):
            flown.run()
        ns = (stopwatch() - began) / BATCH
        flown.reset_to_initial_conditions(0)
        return ns

    return measure, ""
