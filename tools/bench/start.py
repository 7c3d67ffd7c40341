"""(k) From the command to the first tag, against what every start pays: importing numpy.

Each is a process of its own, in turns.  ``cold`` has an empty folder of compiled models, as on the
first run on a machine.  A ratio is formed within a round, so that the machine's speed cancels.  The
cart of README.md, a bouncing ball, and a chase with a power, ``hypot`` and whole vectors run to
their ends, and count processor time: that is what a compiler would take.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rtsim.core.clock import stopwatch
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio, spread

NUMPY = (sys.executable, "-c", "import numpy")
RTSIM = (sys.executable, "-m", "rtsim")
FLIGHT = (*RTSIM, "run", "f16", "--until", "0.005", "--no-record")
"""One step of the F-16, its first tag and its last."""
BOUNDS = {
    "rtsim --help": 1.2,
    "rtsim run f16, warm": 5.6,
    "rtsim run f16, cold": 64.0,
    "the cart, cold": 8.0,
    "the ball, cold": 8.0,
    "the chase, cold": 8.0,
}
"""0.11 s, 0.6 s, 6 s and three times 0.7 s where numpy takes 0.093 s, on the development machine.

The ratio of one version differs by 18 % between days of that machine: compare versions in turns.
"""

CART = """
import rtsim as rt

class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N/kg")

    def derivative(self, d):
        d.x = self.v
        d.v = self.force

class Brake(rt.Controller):
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N/kg")

    def step(self):
        self.force = -4 * self.x - 2 * self.v

loop = rt.Scenario("cart", until=10)
cart = loop.plant(Cart(), step=0.01)
brake = loop.controller(Brake(), period=0.1)
loop.connect(cart.x, brake.x)
loop.connect(cart.v, brake.v)
loop.connect(brake.force, cart.force)
print(rt.simulate(loop).recording().digest())
"""
BALL = """
import rtsim as rt

class Ball(rt.Plant):
    height = rt.state("m", 1)
    speed = rt.state("m/s")
    at_rest = rt.memory()

    def derivative(self, d):
        d.height, d.speed = self.speed, -9.81 * (1.0 - self.at_rest)

    @rt.falling()
    def floor(self):
        return self.height

    @floor.reset
    def bounce(self):
        self.height, self.speed = 0.0, -0.7 * self.speed

    @floor.stop
    def lie(self):
        self.height, self.speed, self.at_rest = 0.0, 0.0, 1.0

scenario = rt.Scenario("ball", until=3)
scenario.plant(Ball(), step=0.01)
print(rt.simulate(scenario).recording().digest())
"""
CHASE = """
import math
import rtsim as rt

class Chase(rt.Plant):
    fox = rt.state("m", (0, 0))
    rabbit = rt.state("m", (50, 0))

    def gap(self):
        x, y = self.rabbit[0] - self.fox[0], self.rabbit[1] - self.fox[1]
        return math.hypot(x, y) + 1e-9 * x**2

    def derivative(self, d):
        d.fox = 12.0 * (self.rabbit - self.fox) / self.gap()
        d.rabbit = (0.0, 8.0)

    @rt.falling(terminal=True)
    def caught(self):
        return self.gap() - 0.5

out = rt.Scenario("chase", until=60)
out.plant(Chase(), step=0.05)
print(rt.simulate(out).recording().digest())
"""


def seconds(command: Sequence[str], cache: str) -> float:
    """How long ``command`` takes with compiled models in the folder ``cache``."""
    environment = {**os.environ, "RTSIM_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users' Python keeps what it has read
    began = stopwatch()
    subprocess.run(command, check=True, env=environment, capture_output=True)
    return (stopwatch() - began) / 1e9


def cold() -> float:
    """The first flight on a machine."""
    with tempfile.TemporaryDirectory() as empty:
        return seconds(FLIGHT, empty)


def worked(program: str) -> float:
    """Processor time, s, of the first run of a program on a machine, from start to end."""
    with tempfile.TemporaryDirectory() as empty:
        path = Path(empty, "program.py")
        path.write_text(program, "utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds((sys.executable, str(path)), str(Path(empty, "cache")))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(quick: bool = False) -> Result:
    """Measure; the cold starts have fewer rounds, because each takes seconds."""
    with tempfile.TemporaryDirectory() as folder:
        warm = str(Path(folder, "cache"))
        quickly: dict[str, Callable[[], float]] = {
            "import numpy": lambda: seconds(NUMPY, warm),
            "rtsim --help": lambda: seconds((*RTSIM, "--help"), warm),
            "rtsim run f16, warm": lambda: seconds(FLIGHT, warm),
        }
        found = in_turns(quickly, 2 if quick else 15)
        slowly = {"import numpy": quickly["import numpy"], "rtsim run f16, cold": cold}
        colds = in_turns(slowly, 1 if quick else 5)
        firsts = {
            "import numpy": lambda: worked("import numpy"),
            "the cart, cold": lambda: worked(CART),
            "the ball, cold": lambda: worked(BALL),
            "the chase, cold": lambda: worked(CHASE),
        }
        works = in_turns(firsts, 2 if quick else 15)
    rows = [Row("import numpy", spread(found["import numpy"], "s"))]
    for name, bound in BOUNDS.items():
        rounds = next(one for one in (colds, works, found) if name in one)
        ratio = median_ratio(rounds[name], rounds["import numpy"])
        figures = {**spread(rounds[name], "s"), "against numpy [x]": ratio}
        rows.append(Row(name, figures, f"<= {bound:g} x", ratio <= bound))
    return Result("start", "from the command to the first tag", tuple(rows))
