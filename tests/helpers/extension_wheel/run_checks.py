"""Uses everything that the wheel adds, in a process that has it installed.

Prints a line ``ok NAME`` for each check that passed; a check that fails ends the program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import rtsim_extras
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.components.allowed_latency import latency_model
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.solve import solver_named
from rtsim.testing.commands import check_command
from rtsim.testing.determinism import check_determinism, trace_of
from rtsim.testing.faults import check_fault_kind
from rtsim.testing.latency import check_latency
from rtsim.testing.policies import check_overrun_policy
from rtsim.testing.solvers import check_contract, check_memory, check_order
from rtsim.timing.policy import parse_policy

FAULTS = """
[[fault]]
name = "echo"
where = "controller"
kind = "echo"
copies = 2
at = 0.5
count = 1

[[fault]]
name = "stall"
where = "loop"
kind = "stall"
amount = 0.03
at = 0.5
"""


def run(*arguments: str) -> tuple[int, str]:
    """The exit status and the output of ``rtsim``."""
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


def policy() -> None:
    check_overrun_policy(parse_policy("slip_in_all:2"))
    status, told = run("run", "watched-loop", "--overrun", "slip_in_al", "--no-record", "--plain")
    assert status == 2
    assert "slip_in_all:3 (overruns in all)" in told, told
    assert "slip_in_all" in run("run", "--help")[1]


def fault() -> None:
    check_fault_kind("echo", copies=3)


def latency() -> None:
    check_latency(latency_model("two_delays:0.001,0.02"))


def solver() -> None:
    for check in (check_contract, check_memory, check_order):
        check(solver_named("heun"), compile=False)


def command() -> None:
    check_command("hello")
    assert run("hello", "you") == (0, "hello you\n")


def column() -> None:
    recording = trace_of(load_scenario("watched-loop"), compile=False)
    expected = 0.5 * recording["plant.v"] ** 2 - recording["plant.x"] ** 2
    assert np.array_equal(recording["plant.energy"], expected)
    check_determinism(lambda: load_scenario("watched-loop"), compile=False)


def together() -> None:
    """One run from the command line with all of them, and its replay."""
    Path("faults.toml").write_text(FAULTS, encoding="utf-8")
    status, told = run(
        "run", "watched-loop", "--pace", "20", "--until", "1", "--plain", "--faults", "faults.toml",
        "--overrun", "slip_in_all:100000", "--latency", "two_delays:0.001,0.02", "-o", "all.mcap",
    )  # fmt: skip
    assert status == 0, told
    assert "echo echo controller 1" in " ".join(told.split()), told
    recording = Recording.open("all.mcap")
    assert recording.header["policy"] == "slip_in_all:100000"
    controller = recording.header["scenario"]["parts"]["controller"]
    assert controller["compute"] == "TwoDelays(first=0.001, second=0.02, ordered=True)"
    status, told = run("replay", "all.mcap")
    assert status == 0, told
    assert "equal bit for bit" in told, told


CHECKS: tuple[Callable[[], None], ...] = (
    policy, fault, latency, solver, command, column, together,
)  # fmt: skip


def all_of_them() -> None:
    assert "site-packages" not in rtsim_extras.__file__
    for check in CHECKS:
        check()
        print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    import os

    with TemporaryDirectory() as folder:
        os.chdir(folder)
        all_of_them()
        os.chdir("/")
