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
from rtsim_extras.component import Counter
from rtsim_extras.controller import Summing

from rtsim import Fixed, Scenario, Signals
from rtsim.cli import main
from rtsim.components.allowed_latency import read_latency_model
from rtsim.components.networks import read_networks
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.solve import solver_named
from rtsim.testing.commands import check_command
from rtsim.testing.components import check_component
from rtsim.testing.controllers import check_controller
from rtsim.testing.determinism import check_determinism, trace_of
from rtsim.testing.faults import check_fault_kind
from rtsim.testing.latency import check_latency
from rtsim.testing.media import check_medium
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
    check_latency(read_latency_model("two_delays:0.001,0.02"))


def medium() -> None:
    """A network file selects the medium of the package by its kind."""
    text = "[ring]\nkind = 'token_ring'\nstations = 3\nhold_ns = 1_000_000\n[ring.frames]\n"
    Path("ring.toml").write_text(f"{text}a = {{ station = 0 }}\nb = {{ station = 2 }}\n")
    check_medium(read_networks("ring.toml")["ring"], gap=0.003)


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


def watched(scenario: Scenario) -> None:
    """The source that a counter reads."""
    scenario.source("room", Signals("u [1]"), {"u": 0.9})


def component() -> None:
    check_component(lambda: Counter({"u": "room.u"}, 0.1, {"limit": 0.8}), beside=watched)
    room = Scenario("room", until=0.5)
    watched(room)
    room.add("counter", Counter({"u": "room.u"}, 0.1, {"limit": 0.8}))
    room.at(0.25, "counter.limit", 1.0)
    assert trace_of(room).messages["counter"]["count"].tolist() == [1, 2, 3, 3, 3, 3]


def controller() -> None:
    check_controller(Summing)
    sums = Scenario("sums", until=0.5)
    sums.controller("sum", Summing(), period=0.1, inputs={"u": 2.0}, compute=Fixed(0.01))
    assert trace_of(sums).messages["sum"]["total"].tolist() == [2, 4, 6, 8, 10]


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
    policy, fault, latency, medium, solver, command, column, component, controller, together,
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
