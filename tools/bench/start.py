"""(k) From the command to the first tag, against what every start pays: importing numpy.

Each is a process of its own, in turns.  ``cold`` has an empty folder of compiled models, as on the
first run on a machine.  A ratio is formed within a round, so that the machine's speed cancels.
"""

from __future__ import annotations

import os
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
BOUNDS = {"rtsim --help": 1.2, "rtsim run f16, warm": 5.6, "rtsim run f16, cold": 64.0}
"""0.15 s, 0.7 s and 8 s where numpy takes 0.125 s, as on the development machine."""


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
    rows = [Row("import numpy", spread(found["import numpy"], "s"))]
    for name, bound in BOUNDS.items():
        rounds = colds if name in colds else found
        ratio = median_ratio(rounds[name], rounds["import numpy"])
        figures = {**spread(rounds[name], "s"), "against numpy [x]": ratio}
        rows.append(Row(name, figures, f"<= {bound:g} x", ratio <= bound))
    return Result("start", "from the command to the first tag", tuple(rows))
