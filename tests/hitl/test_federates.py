"""A run as a federate of HELICS: the exchange, its time, and what happens if a federate fails."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from hitl.federates import MOST_NS, NOTICE_NS, FederationError, federate, federated
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.record.comparison import compare_exact
from rtsim.record.file import FileRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.stepping import Simulation

helics = pytest.importorskip("helics")
# HELICS warns if the answer to a query is not JSON, as when the federation has just failed.
pytestmark = pytest.mark.filterwarnings("ignore:This function will return a JSON object")
PERIOD = 0.01


class Node(rt.Plant):
    """A first-order lag that follows its input, with two numbers in a vector beside it."""

    x = rt.state("m", 1)
    pair = rt.state("m", (1, 2))
    u = rt.input("m")
    v = rt.input("m", (0, 0))

    def derivative(self, d: Any) -> None:
        d.x = 3.0 * self.u - self.x
        d.pair = self.v - self.pair


def node(name: str, until: float = 1) -> rt.Scenario:
    """Return a scenario with one node, whose inputs come from the federation."""
    out = rt.Scenario(name, until=until)
    plant = out.plant(name, Node(), step=0.002)
    u = rt.Signal("u", "m", initial=1)
    v = rt.Signal("v", "m", shape=(2,), initial=(0, 0))
    out.connect(out.source("of", rt.Signals(u, v)), plant)
    return out


def config(name: str, reads: str, broker: str) -> dict[str, Any]:
    return {
        "name": name,
        "core_type": "inproc",
        "core_name": f"{broker}_{name}",
        "core_init_string": f"--broker={broker} -f 1",
        "period": PERIOD,
        "publications": [
            {"key": "x", "info": f"{name}.x"},
            {"key": "pair", "info": f"{name}.pair"},
        ],
        "subscriptions": [
            {"key": f"{reads}/x", "info": "of.u"},
            {"key": f"{reads}/pair", "info": "of.v"},
        ],
    }


Task = Callable[[], Any]


def together(broker: str, tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Run all tasks in threads of one federation; return their results or errors."""
    made = helics.helicsCreateBroker("inproc", broker, f"-f {len(tasks)} --loglevel=no_print")
    found: dict[str, Any] = {}

    def go(name: str, task: Task) -> None:
        try:
            found[name] = task()
        except (RtsimError, ArithmeticError) as error:
            found[name] = error

    threads = [threading.Thread(target=go, args=item) for item in tasks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    helics.helicsBrokerDisconnect(made)
    helics.helicsBrokerFree(made)
    assert found.keys() == tasks.keys(), "a federate did not end"
    return found


def ring(names: list[str]) -> dict[str, str]:
    """Return the node that each node reads."""
    return {name: names[k - 1] for k, name in enumerate(names)}


def one_run(names: list[str], until: float = 1) -> rt.RunResult:
    """Return the run of all nodes in one scenario, with sensors in place of the federation."""
    out = rt.Scenario("one", until=until)
    for name in names:
        out.plant(name, Node(), step=0.002)
    for name, reads in ring(names).items():
        sources = {"u": f"{reads}.x", "v": f"{reads}.pair"}
        out.sensor(f"of_{name}", sources, period=PERIOD, transport=rt.Fixed(PERIOD))
        for signal_name in sources:
            out.connect(f"of_{name}.{signal_name}", f"{name}.{signal_name}")
    return rt.simulate(out, compile=False)


def ring_of(names: list[str], broker: str, until: float) -> dict[str, Any]:
    """Return the results of federates, each of which reads the signals of the one before."""

    def task(name: str, reads: str) -> Task:
        return lambda: federate(node(name, until), config(name, reads, broker), compile=False)

    return together(broker, {name: task(name, reads) for name, reads in ring(names).items()})


@pytest.mark.parametrize(("count", "until"), [(2, 1.0), (10, 0.5)])
def test_federates_compute_what_one_run_of_all_computes_bit_for_bit(
    count: int, until: float
) -> None:
    names = [f"node{k}" for k in range(count)]
    found, one = ring_of(names, f"ring{count}", until), one_run(names, until)
    for name in names:
        ours, theirs = found[name].recording().track(name), one.recording().track(name)
        assert len(ours.ns) > until * 600
        assert all(map(np.array_equal, ours.rows, theirs.rows))
    assert abs(float(one.final("node0.x")) - 1.0) > 0.01


def test_a_recording_replays_without_helics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = "a", "b"

    def recorded(name: str, reads: str) -> Any:
        with FileRecorder(tmp_path / f"{name}.mcap", stopwatch) as recorder:
            return federate(
                node(name), config(name, reads, "rec"), recorder=recorder, compile=False
            )

    together("rec", {a: lambda: recorded(a, b), b: lambda: recorded(b, a)})
    monkeypatch.setitem(sys.modules, "helics", None)
    first = rt.Recording.open(tmp_path / "a.mcap")
    again = rerun(first, node("a"))
    assert compare_exact(first, again) is None
    assert len(first.track("a").ns) == len(again.track("a").ns) == 601


def test_a_run_ends_at_its_end_also_between_two_granted_times() -> None:
    names = ["a", "b"]
    found, one = ring_of(names, "tail", 0.105), one_run(names, until=0.105)
    for name in names:
        assert found[name].ended.ns == 105_000_000
        assert found[name].reason == "end"
        assert np.array_equal(found[name][f"{name}.x"], one[f"{name}.x"])


def test_times_of_helics_are_exact_to_a_nanosecond() -> None:
    made = helics.helicsCreateBroker("inproc", "exact", "-f 1 --loglevel=no_print")
    solo = helics.helicsCreateValueFederateFromConfig(json.dumps(
        {"name": "solo", "core_type": "inproc", "core_init_string": "--broker=exact -f 1",
         "log_level": "no_print"}
    ))  # fmt: skip
    helics.helicsFederateEnterExecutingMode(solo)
    numbers = random.Random(43)
    ns = 0
    for k in range(3000):
        ns += numbers.randrange(1, 2 * MOST_NS // 3000) if k % 2 else numbers.randrange(1, 50)
        if ns > MOST_NS:
            break
        assert round(helics.helicsFederateRequestTime(solo, ns / NS_PER_S) * NS_PER_S) == ns
    assert ns > MOST_NS // 3
    helics.helicsFederateDisconnect(solo)
    helics.helicsBrokerDisconnect(made)


def test_a_run_that_is_too_long_for_exact_times_is_refused() -> None:
    with pytest.raises(ScenarioError, match="exact to 1 ns up to 2000000 s; give an earlier end"):
        federate(node("a", until=2_000_001), config("a", "b", "none"), compile=False)


class Breaking(rt.Controller):
    """A controller that fails at its tick 30."""

    steps = rt.memory("1", 0)
    out = rt.output("m")

    def step(self) -> None:
        self.steps = self.steps + 1
        self.out = 1.0 / (30.0 - self.steps)


def breaking() -> rt.Scenario:
    out = node("b")
    out.controller("breaking", Breaking(), period=PERIOD)
    return out


def test_a_federate_that_fails_is_named_at_the_others() -> None:
    found = together("fails", {
        "a": lambda: federate(node("a"), config("a", "b", "fails"), compile=False),
        "b": lambda: federate(breaking(), config("b", "a", "fails"), compile=False),
    })  # fmt: skip
    assert not isinstance(found["b"], FederationError)
    assert isinstance(found["a"], FederationError)
    assert "federate a could not get its next time at 0." in str(found["a"])
    assert "federate b failed: " in str(found["a"])
    assert "breaking" in str(found["a"])


def test_a_source_that_leaves_before_the_end_is_an_error() -> None:
    found = together("leaves", {
        "a": lambda: federate(node("a"), config("a", "b", "leaves"), compile=False),
        "b": lambda: federate(node("b", until=0.5), config("b", "a", "leaves"), compile=False),
    })  # fmt: skip
    assert found["b"].ended.ns == NS_PER_S // 2
    assert isinstance(found["a"], FederationError)
    text = str(found["a"])
    assert "federate b has left the federation: b/x has kept its value since 0.51 s" in text
    assert "federate a is at 0.54 s; give all federates the same end" in text


def test_units_that_differ_between_federates_are_refused() -> None:
    def foreign() -> None:
        made = helics.helicsCreateValueFederateFromConfig(json.dumps(
            config("b", "a", "units") | {
                "publications": [{"key": "x", "type": "double", "unit": "ft"},
                                 {"key": "pair", "type": "vector", "unit": "m"}],
                "log_level": "no_print", "terminate_on_error": True,
            }
        ))  # fmt: skip
        helics.helicsFederateEnterExecutingMode(made)
        with pytest.raises(helics.HelicsException, match="federate a failed"):
            helics.helicsFederateRequestTime(made, PERIOD)

    found = together("units", {
        "a": lambda: federate(node("a"), config("a", "b", "units"), compile=False),
        "b": foreign,
    })  # fmt: skip
    assert found["b"] is None
    text = str(found["a"])
    assert "b/x is in 'ft' according to the federation, but of.u is in 'm'" in text
    assert "units are not converted" in text


def test_a_publication_that_nobody_has_is_an_error_with_a_suggestion() -> None:
    found = together("missing", {
        "a": lambda: federate(node("a"), config("a", "b", "missing"), compile=False),
        "b": lambda: federate(node("b"), config("b", "c", "missing") | {
            "subscriptions": [{"key": "a/xx", "info": "of.u"}]}, compile=False),
    })  # fmt: skip
    assert isinstance(found["b"], UnknownName)
    assert "unknown publication 'a/xx' in the federation; did you mean a/x" in str(found["b"])
    assert isinstance(found["a"], FederationError)


def test_a_period_that_helics_reads_from_a_text_is_checked() -> None:
    wrong = config("a", "b", "text") | {"period": "0 ms", "subscriptions": []}
    found = together("text", {"a": lambda: federate(node("a"), wrong, compile=False)})
    assert 'federate a has the period 0.0 s; write "period": 0.01' in str(found["a"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": ""}, 'write "name"'),
        ({"period": None}, 'write "period": 0.01'),
        ({"period": 0}, 'has the period 0 s; write "period": 0.01'),
        ({"period": float("nan")}, "has the period nan s"),
        ({"publications": {}}, "is not a list of objects"),
        ({"publications": [{"key": "x"}]}, 'write "info": "COMPONENT.SIGNAL"'),
        ({"publications": [{"info": "a.x"}]}, 'has no "key"'),
        ({"publications": [{"key": "x", "info": "a.y"}]}, "unknown signal 'y'"),
        ({"publications": [{"key": "x", "info": "a.x", "unit": "km"}]}, "units are not converted"),
        ({"publications": [{"key": "x", "info": "a.x", "type": "string"}]}, '"type": "double"'),
        ({"subscriptions": [{"key": "b/x", "info": "a.x"}]}, "a.x is computed by the run"),
        ({"subscriptions": [{"key": "b/x", "info": "of.u"}, {"key": "c/x", "info": "of.u"}]},
         "both assign of.u"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_an_error_before_the_federation_is_joined(
    change: dict[str, Any], text: str
) -> None:
    wrong = config("a", "b", "none") | change
    if change.get("period", 0) is None:
        del wrong["period"]
    with pytest.raises(RtsimError) as raised:
        federate(node("a"), wrong, compile=False)
    assert text in str(raised.value)


def test_a_file_that_is_no_configuration_is_an_error(tmp_path: Path) -> None:
    for content, text in (("{", "is not JSON"), ("[]", "is not a JSON object")):
        (tmp_path / "wrong.json").write_text(content)
        with pytest.raises(ScenarioError, match=text):
            federate(node("a"), tmp_path / "wrong.json", compile=False)
    with pytest.raises(ScenarioError, match="cannot read"):
        federate(node("a"), tmp_path / "none.json", compile=False)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "helics", None)
    with pytest.raises(ScenarioError, match=r"pip install 'rtsim\[helics\]'"):
        federate(node("a"), config("a", "b", "none"), compile=False)


def test_an_interruption_while_others_are_missing_ends_all_federates_that_joined() -> None:
    told: list[str] = []
    joined, ticks = threading.Event(), itertools.count()
    made = helics.helicsCreateBroker("inproc", "absent", "-f 3 --loglevel=no_print")

    def foreign() -> None:
        other = helics.helicsCreateValueFederateFromConfig(json.dumps(
            {"name": "b", "core_type": "inproc", "core_init_string": "--broker=absent -f 1",
             "log_level": "no_print", "terminate_on_error": True}
        ))  # fmt: skip
        joined.set()
        try:
            helics.helicsFederateEnterExecutingMode(other)
        except helics.HelicsException as error:
            told.append(str(error))

    def interrupt(notice: str) -> None:
        if "broker does not answer" not in notice:
            told.append(notice)
            raise KeyboardInterrupt("by the user")

    other = threading.Thread(target=foreign, daemon=True)
    other.start()
    with (
        Simulation(node("a"), seed=0, until=None, recorder=None, compile=False) as simulation,
        pytest.raises(KeyboardInterrupt, match="by the user"),
    ):
        federated(
            simulation, config("a", "b", "absent"), interrupt,
            lambda: next(ticks) * NOTICE_NS if joined.is_set() else 0,
        )  # fmt: skip
    other.join(20)
    helics.helicsBrokerDisconnect(made)
    helics.helicsBrokerFree(made)
    notice, error = told
    assert "federate a is waiting for the federation" in notice
    assert "start the other federates" in notice
    assert set(notice.split(" only ")[1].split(" joined")[0].split(", ")) == {"a", "b"}
    assert "federate a failed: by the user" in error


MOTOR = """
import rtsim as rt

class Motor(rt.Plant):
    speed = rt.state("rad/s")

    def derivative(self, d):
        d.speed = -self.speed

def scenario():
    loop = rt.Scenario("motor", until=2)
    loop.plant("motor", Motor(), step=0.01)
    return loop
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that Python handles")
@pytest.mark.parametrize(
    ("broker", "number", "remedy"),
    [
        (True, signal.SIGTERM, "start the other federates"),
        (True, signal.SIGINT, "start the other federates"),
        (False, signal.SIGTERM, "start one, such as helics_broker"),
    ],
)
def test_a_signal_ends_the_command_while_it_waits_for_the_federation(
    tmp_path: Path, broker: bool, number: signal.Signals, remedy: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "motor.py").write_text(MOTOR)
    (tmp_path / "motor.json").write_text(json.dumps({
        "name": "motor", "period": 0.01, "core_init_string": f"--brokerport={port}",
        "publications": [{"key": "motor/speed", "global": True, "info": "motor.speed"}],
    }))  # fmt: skip
    tools = Path(helics.__file__).parent / "install" / "bin"
    command = [sys.executable, "-m", "rtsim", "federate", "motor.py", "motor.json", "--plain"]
    with ExitStack() as stack:
        if broker:
            started = stack.enter_context(subprocess.Popen(
                [tools / "helics_broker", "-f", "2", f"--port={port}", "--loglevel=no_print"]
            ))  # fmt: skip
            stack.callback(started.kill)
        run = stack.enter_context(
            subprocess.Popen([*command, "-o", "m.mcap"], cwd=tmp_path, stderr=subprocess.PIPE)
        )
        stack.callback(run.kill)
        assert run.stderr is not None
        told = next(line for line in run.stderr if b"waiting for the federation" in line)
        assert remedy in told.decode()
        run.send_signal(number)
        assert run.wait(20) == 130


KILLED = """
import json, sys, helics as h
f = h.helicsCreateValueFederateFromConfig(json.dumps({
    "name": "drive", "period": 0.01, "log_level": "no_print",
    "publications": [{"key": "x", "type": "double", "unit": "m"},
                     {"key": "pair", "type": "vector", "unit": "m"}],
    "subscriptions": [{"key": "a/x"}]}))
h.helicsFederateEnterExecutingMode(f)
for k in range(1, 50):
    h.helicsFederateRequestTime(f, k * 0.01)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot kill a process by SIGKILL")
def test_a_process_that_is_killed_is_named() -> None:
    tools = Path(helics.__file__).parent / "install" / "bin"
    with subprocess.Popen(
        [tools / "helics_broker", "-f", "2", "--loglevel=no_print", "--tick=200ms", "--timeout=1s"]
    ) as broker, subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:  # fmt: skip

        def kill() -> None:
            assert other.stdout is not None
            other.stdout.readline()
            os.kill(other.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        one = {key: v for key, v in config("a", "drive", "").items() if not key.startswith("core")}
        try:
            with pytest.raises(FederationError, match=r"at 0\.4\d* s: drive no longer answers"):
                federate(node("a"), one, compile=False)
        finally:
            killer.join()
            broker.kill()
