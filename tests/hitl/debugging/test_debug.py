"""``rtsim debug``: gdb and pdb at the steps of recorded runs, forward and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from dap_client import DapClient
from sil_parts import flown, loop, write_faulty

import rtsim as rt
from hitl.cli.debug import debug
from hitl.controllers.sil import SilController
from hitl.debugging.recorded import recorded_steps
from hitl.debugging.session import DebugError, Gdb, find_gdb
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs import Checkpoint, Ring

pytestmark = pytest.mark.system("gdb")
STARTER = Path(__file__).parents[3] / "hitl" / "starter"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the motor controller, and its recorded run in C."""
    out = tmp_path_factory.mktemp("debug")
    for name in ("motor.c", "motor.h", "motor.toml", "scenario.py"):
        (out / name).write_text((STARTER / name).read_text("utf-8"), "utf-8")
    record(out)
    return out


def record(folder: Path, until: float = 3) -> Path:
    scenario = rt.load_scenario(str(folder / "scenario.py"))
    scenario.replace_controller("controller", SilController(folder / "motor.toml"))
    rt.simulate(scenario, until=until, recorder=FileRecorder(folder / "c.mcap", overwrite=True))
    return folder / "c.mcap"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faulty")
    write_faulty(out)
    return out


def failed(folder: Path, fault: str) -> Path:
    """The recording of a run whose fifth step fails."""
    path = folder / f"{fault}.mcap"
    if not path.exists():
        flown(loop(SilController(folder / "faulty.toml", silence=0.3, cases=None), fault), path)
    return path


def run(path: Path, *arguments: object) -> Result:
    return CliRunner().invoke(debug, ["--trust", str(path), *map(str, arguments)])


def told(path: Path, *commands: str, at: object = 1.5, **more: object) -> dict[str, Any]:
    """The JSON of a session with commands of gdb."""
    options = [part for name, value in more.items() for part in (f"--{name}", str(value))]
    given = [part for command in commands for part in ("--command", command)]
    when = [] if at is None else ["--at", at]
    done = run(path, *when, "--json", *options, *given)
    out: dict[str, Any] = json.loads(done.stdout)
    assert out["exit_status"] == done.exit_code
    return out


def test_it_stops_in_the_function_of_the_step_with_its_inputs_and_memory(folder: Path) -> None:
    found = told(folder / "c.mcap", "print setpoint", "print speed", "print self->integral")
    assert found["exit_status"] == 0, found
    assert found["stopped"]["function"] == "motor_control_step"
    assert found["stopped"]["step"] == found["step"] == 150
    assert found["inputs"]["setpoint"] == -50
    assert "$1 = -50\n" in found["output"]
    assert f"$2 = {found['inputs']['speed']:.17g}" in found["output"]
    integral = float(found["output"].split("$3 = ")[1])
    run_before = rt.Recording.open(folder / "c.mcap").track("messages/controller.inputs").rows
    memory = 0.0
    for setpoint, speed in run_before.floats[:150]:
        wanted = 0.2 * (setpoint - speed) + memory
        if -12 <= wanted <= 12:
            memory += 1.0 * 0.01 * (setpoint - speed)
    assert integral == memory
    assert found["recorded"] == found["computed"] == {"voltage": -12.0}
    assert found["answers"]["compared"] == 301


def test_the_commands_move_between_the_steps(folder: Path) -> None:
    script = (
        "rtsim-info", "next-step", "previous-step", "previous-step", "step-at 0.755",
        "continue-until speed < -20", "back-until motor.speed >= 99.96", "rtsim-info speed",
    )  # fmt: skip
    out = told(folder / "c.mcap", *script)["output"]
    steps = [
        int(line.split()[1])
        for line in out.splitlines()
        if line.startswith("step ") and " at " in line
    ]
    assert steps[:5] == [150, 151, 150, 149, 75]
    recorded = recorded_steps(rt.Recording.open(folder / "c.mcap"), None)
    speed = recorded.given[:, 1].tolist()
    below = next(k for k in range(76, 301) if speed[k] < -20)
    above = next(k for k in range(below - 1, -1, -1) if speed[k] >= 99.96)
    assert steps[5:] == [below, above]
    assert f"speed = {speed[above]!r}" in out
    assert "input setpoint = -50 rad/s" in out
    assert "recorded voltage = -12 V" in out
    assert "equal bit for bit" in out


def test_breakpoints_and_watchpoints_survive(folder: Path) -> None:
    out = told(
        folder / "c.mcap", "break motor.c:19", "watch -location self->integral",
        "next-step", "previous-step", "info breakpoints", "continue", "print speed",
        "continue",
    )["output"]  # fmt: skip
    assert out.count("keep y") == 2
    assert "Breakpoint 1, motor_control_step" in out
    recorded = recorded_steps(rt.Recording.open(folder / "c.mcap"), None)
    free = next(k for k in range(150, 301) if recorded.recorded[k, 0] > -12)
    assert f"{recorded.given[free, 1]:.17g}" in out.rpartition("$1 = ")[2]
    assert "New value = " in out.rpartition("$1 = ")[2], "the watchpoint acts after going back"


def test_changed_memory_is_named_and_going_back_restores_it(folder: Path) -> None:
    out = told(
        folder / "c.mcap", "set var self->gain = 0.01", "next-step", "print self->gain",
        "previous-step", "print self->gain", "next-step",
    )["output"]  # fmt: skip
    assert "the answer of step 150 is now voltage=3.49" in out
    assert "$1 = 0.01" in out
    assert "$2 = 0.2000" in out
    assert out.count("is now") == 1


def jumps(path: Path, count: int, folder: Path, **more: object) -> dict[str, Any]:
    """Random jumps; at each, the memory of the C code and the answer of the step."""
    script = folder / "jumps.py"
    script.write_text(_JUMPS.format(count=count, into=folder / "jumps.json"), encoding="utf-8")
    found = told(path, f"source {script}", at=None, **more)
    assert found["exit_status"] == 0, found["output"]
    out: dict[str, Any] = json.loads((folder / "jumps.json").read_text())
    return out


_JUMPS = """
import gdb, json, random, time
session, chosen, found = _current(), random.Random(48), []
for _ in range({count}):
    step, began = chosen.randrange(session.n), time.process_time()
    gdb.execute(f"step-at {{session.time_ns(step) / 1e9:.9f}}", to_string=True)
    took = time.process_time() - began
    arrived, inputs = session.step, int(gdb.parse_and_eval("inputs"))
    sent = gdb.selected_inferior().read_memory(inputs + 8 * step * session.m, 8 * session.m)
    stop = _stop_in("rtsim_after_step")
    session.moving = True
    gdb.execute("continue", to_string=True)
    session.moving = False
    stop.delete()
    at = int(gdb.parse_and_eval("rtsim_runner->answer"))
    answer = gdb.selected_inferior().read_memory(at, 8 * session.o)
    found.append([step, arrived, bytes(sent).hex(), bytes(answer).hex(), took,
                  gdb.selected_inferior().pid])
with open("{into}", "w") as file:
    json.dump(found, file)
"""


def judge_jumps(
    found: Any, path: Path, count: int, controller: str | None = None, most_s: float = 0.1
) -> None:
    steps = recorded_steps(rt.Recording.open(path), controller)
    assert len(found) == count
    for step, arrived, sent, answer, *_ in found:
        assert arrived == step
        assert sent == steps.given[step].tobytes().hex()
        assert answer == steps.recorded[step].tobytes().hex()
    assert sum(took for *_, took, _ in found) / count < most_s, "CPU time of gdb for a jump, s"


def test_random_jumps_give_the_recorded_values(folder: Path, tmp_path: Path) -> None:
    judge_jumps(jumps(folder / "c.mcap", 200, tmp_path), folder / "c.mcap", 200)


@pytest.mark.long
def test_a_thousand_jumps_in_a_minute_of_the_f16(tmp_path: Path) -> None:
    scenario = rt.load_scenario("f16")
    scenario.replace_controller("autopilot", SilController("firmware/core/f16_control.toml"))
    path = tmp_path / "f16.mcap"
    rt.simulate(scenario, until=60, recorder=FileRecorder(path))
    found = jumps(path, 1000, tmp_path, controller="autopilot")
    judge_jumps(found, path, 1000, "autopilot")


_HEAP = r"""
#include <stdlib.h>
#include <sys/mman.h>
struct node { struct node *next; double value; char more[]; };
static struct node *list;
static double *mapped;
static int tick;
void heap_init(void) { list = 0; mapped = 0; tick = 0; }
double heap_step(double x)
{
    double sum = 0;
    struct node *one = malloc(sizeof *one + (tick % 10 == 0 ? 500000 : 40));
    one->next = list, one->value = x + tick, list = one;
    struct node *old = tick % 3 ? 0 : list->next;
    if (old) { list->next = old->next; free(old); }
    if (tick % 20 == 5) mapped = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped) mapped[1] += x, sum = mapped[1];
    if (tick % 20 == 15) { munmap(mapped, 4096); mapped = 0; }
    for (one = list; one; one = one->next) sum = 0.9 * sum + one->value;
    tick++;
    return sum;
}
"""


def test_memory_of_the_heap_and_mappings_that_end_are_restored(tmp_path: Path) -> None:
    (tmp_path / "heap.c").write_text(_HEAP, "utf-8")
    (tmp_path / "heap.h").write_text("void heap_init(void);\ndouble heap_step(double);\n", "utf-8")
    (tmp_path / "heap.toml").write_text(
        'name = "heap"\nperiod = "1/100"\nsources = ["heap.c"]\nheaders = ["heap.h"]\n'
        '[code]\ninitialize = "heap_init()"\nstep = "y = heap_step(x)"\ninitialize_once = true\n'
        "[inputs]\nx = {}\n[outputs]\ny = {}\n",
        "utf-8",
    )
    scenario = rt.Scenario("heap", until=2)
    scenario.source("set", rt.Signals("x [1] = 0.25"))
    controller = SilController(tmp_path / "heap.toml", cases=None)
    scenario.controller("c", controller, period=0.01, inputs={"x": "set.x"})
    path = tmp_path / "heap.mcap"
    rt.simulate(scenario, recorder=FileRecorder(path))
    found = jumps(path, 60, tmp_path)
    judge_jumps(found, path, 60, most_s=1.0)
    assert len({row[-1] for row in found}) > 1, "a lost mapping needs a new process"


@pytest.mark.parametrize("fault", ["null", "deep", "abort"])
def test_a_crash_is_shown_at_its_line_and_left_backwards(fault: str, faulty: Path) -> None:
    path = failed(faulty, fault)
    found = told(path, "continue", "bt", "previous-step", "print steps", at=None)
    signal = "SIGABRT" if fault == "abort" else "SIGSEGV"
    assert found["exit_status"] == 0, found["output"]
    assert found["answers"]["stopped"] == f"it was ended by {signal}"
    assert found["answers"]["finished"] == 4
    assert f"Program received signal {signal}" in found["output"]
    assert "faulty_step (fault=" in found["output"]
    assert "$1 = 3" in found["output"]


def test_an_endless_step_and_a_call_of_exit(faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.debugging.session._SILENCE_S", 0.3)
    endless = told(failed(faulty, "endless"), "previous-step", at=None)
    assert endless["answers"]["stopped"] == "it took more than 0.3 s"
    assert endless["stopped"]["step"] == 3
    left = told(failed(faulty, "exit"), "rtsim-info", at=None)
    assert "faulty called exit(0), but it must return" in left["output"]


@pytest.mark.long
def test_what_the_c_prints_in_repeated_steps_is_not_shown(faulty: Path) -> None:
    path = failed(faulty, "chatter")
    again = told(path, "previous-step", at=None)["output"]
    assert "a line of some characters" not in again
    assert "a line of some characters" in told(path, "finish", at=0.04)["output"]


def test_other_c_code_is_named(folder: Path, tmp_path: Path) -> None:
    for name in ("motor.c", "motor.h", "motor.toml", "scenario.py"):
        (tmp_path / name).write_text((folder / name).read_text("utf-8"), "utf-8")
    path = record(tmp_path)
    text = (tmp_path / "motor.c").read_text("utf-8")
    (tmp_path / "motor.c").write_text(text.replace("< -LIMIT", "< -4 * LIMIT"), "utf-8")
    found = told(path, "rtsim-info")
    assert (found["outcome"], found["exit_status"]) == ("failed", 1)
    assert found["answers"]["first_difference"] == 150
    assert "--build plain" in found["why"]
    assert found["notes"] == ["the C code or its interface file has changed since the run"]
    assert "the computed answer differs" in found["output"]
    assert found["computed"]["voltage"] < found["recorded"]["voltage"] == -12


@pytest.mark.long
def test_memory_that_was_never_initialised_differs_between_the_builds(tmp_path: Path) -> None:
    write_faulty(tmp_path)
    source = tmp_path / "faulty.c"
    text = source.read_text("utf-8").replace("return steps + 0.5 * x;", "return last(x) + steps;")
    source.write_text(
        text.replace("void faulty_initialize", _STALE + "void faulty_initialize"), "utf-8"
    )
    path = failed(tmp_path, "none")
    other, same = (told(path, at=None, build=kind)["answers"] for kind in ("debug", "plain"))
    assert other["first_difference"] is not None
    assert same["first_difference"] is None
    assert same["compared"] == 11


_STALE = """
static double last(double x)
{
#ifdef __OPTIMIZE__
    return x;
#else
    return 2 * x;
#endif
}
"""


def test_a_run_that_continues_from_a_checkpoint_has_all_its_steps(folder: Path) -> None:
    ring = Ring(5)
    scenario = rt.load_scenario(str(folder / "scenario.py"))
    scenario.replace_controller("controller", SilController(folder / "motor.toml"))
    schedule = CheckpointSchedule(ring, every="1")
    rt.simulate(scenario, until=2, recorder=MemoryRecorder(), checkpoints=schedule)
    start = ring.before(1_000_000_000)
    assert isinstance(start, Checkpoint)
    start.save(folder / "at@1.000.checkpoint")
    rest = FileRecorder(folder / "rest.mcap", overwrite=True)
    rt.simulate(
        scenario, until=2, start=Checkpoint.open(folder / "at@1.000.checkpoint"), recorder=rest
    )
    found = told(folder / "rest.mcap")
    assert found["step"] == found["stopped"]["step"] == 150
    assert found["answers"]["steps"] == 201
    assert found["answers"]["compared"] == 100, "the recording has no answers up to 1 s"
    assert found["exit_status"] == 0


@pytest.mark.long
def test_an_arduino_sketch_stops_in_its_loop(tmp_path: Path) -> None:
    arduino = STARTER.parent / "examples" / "arduino"
    for file in arduino.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    scenario = rt.load_scenario(f"{tmp_path / 'scenario.py'}:room")
    scenario.replace_controller("thermostat", SilController(tmp_path / "thermostat.toml"))
    path = tmp_path / "a.mcap"
    rt.simulate(scenario, until=2, recorder=FileRecorder(path))
    found = told(path, "previous-step", at=1)
    assert found["stopped"]["function"] == "loop"
    assert found["stopped"]["file"].endswith("thermostat.ino")


def test_an_editor_opens_the_step_by_the_debug_adapter_protocol(folder: Path) -> None:
    program = os.environ.get("RTSIM_TEST_GDB", "gdb")  # a newer gdb than the system's
    if not find_gdb(program).has_dap:
        pytest.skip("the installed gdb is older than 14, and has no Debug Adapter Protocol")
    command = [sys.executable, "-m", "rtsim", "debug", "c.mcap", "--at", "1.5", "--dap"]
    command += ["--gdb", program, "--trust"]
    with DapClient(command, folder) as client:
        client.ask("initialize", clientID="test", adapterID="gdb")
        client.send("launch")
        client.ask(
            "setBreakpoints", source={"path": str(folder / "motor.c")}, breakpoints=[{"line": 19}]
        )
        client.send("configurationDone")
        frame = client.stopped("motor_control_step")
        assert Path(frame["source"]["path"]).name == "motor.c"
        asked = {"frameId": frame["id"], "context": "watch"}
        assert client.ask("evaluate", expression="setpoint", **asked)["result"] == "-50"
        client.send("evaluate", expression="previous-step", context="repl")
        client.stopped("motor_control_step")
        said = client.ask("evaluate", expression="rtsim-info", context="repl")["result"]
        assert said.startswith("step 149 of 301")


def test_an_editor_opens_the_step_by_the_written_entry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Microsoft's C/C++ extension sends these commands of gdb's machine interface."""
    monkeypatch.chdir(folder)
    (folder / ".vscode").mkdir(exist_ok=True)
    other = {"name": "mine", "type": "cppdbg"}
    launch = folder / ".vscode" / "launch.json"
    launch.write_text(json.dumps({"version": "0.2.0", "configurations": [other]}))
    for _ in range(2):
        assert run(Path("c.mcap"), "--at", 1.5, "--write-launch").exit_code == 0
    kept, entry = json.loads(launch.read_text())["configurations"]
    assert kept == other
    gdb = subprocess.Popen(
        [entry["miDebuggerPath"], "--interpreter=mi", "-nx"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, cwd=entry["cwd"],
    )  # fmt: skip
    assert gdb.stdin is not None
    assert gdb.stdout is not None
    setup = [f'-interpreter-exec console "{one["text"]}"' for one in entry["setupCommands"]]
    program = f"-file-exec-and-symbols {entry['program']}"
    commands = [*setup, program, "-break-insert -f motor.c:19", "-exec-run"]
    gdb.stdin.writelines(f"{command}\n" for command in commands)
    gdb.stdin.flush()
    stops = (line for line in gdb.stdout if line.startswith('*stopped,reason="breakpoint-hit"'))
    stop = next(stops)
    assert 'func="motor_control_step"' in stop
    assert '{name="setpoint",value="-50"}' in stop
    gdb.stdin.write("-exec-continue\n")
    gdb.stdin.flush()
    assert 'line="19"' in next(stops)
    gdb.kill()
    gdb.communicate()
    launch.write_text("// mine\n")
    refused = run(Path("c.mcap"), "--at", 1.5, "--write-launch")
    assert refused.exit_code == 2
    assert "add this entry to its configurations" in refused.output


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
    sum = rt.memory("m")
    force = rt.output("N/kg")

    def step(self):
        self.sum += self.x
        self.force = -4 * self.x - 2 * self.v - 0.001 * self.sum


def scenario():
    loop = rt.Scenario("cart", until=10)
    cart = loop.plant(Cart(), step=0.01)
    brake = loop.controller(Brake(), period=0.1)
    loop.connect(cart, brake)
    return loop
"""


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cart")
    (out / "cart_to_debug.py").write_text(CART, encoding="utf-8")
    scenario = rt.load_scenario(str(out / "cart_to_debug.py"))
    rt.simulate(scenario, recorder=FileRecorder(out / "cart.mcap"))
    return out / "cart.mcap"


def test_a_controller_in_python_opens_in_pdb(cart: Path) -> None:
    commands = ("p self.sum", "n", "n", "p self.force", "previous-step", "p self.sum", "next-step",
                "p self.sum", "step-at 3", "p self.x", "step-at 99")  # fmt: skip
    done = run(cart, "--at", 1, *(part for one in commands for part in ("--command", one)))
    assert done.exit_code == 0, done.output
    recording = rt.Recording.open(cart)
    steps = recorded_steps(recording, None)
    sums = np.add.accumulate(steps.given[:, steps.inputs.columns.index("x")])
    lines = done.output.splitlines()
    assert lines[0] == "brake: 101 recomputed answers equal the recording bit for bit"
    numbers = [float(line) for line in lines if line.lstrip("-")[:1].isdigit()]
    x = steps.given[30, steps.inputs.columns.index("x")]
    assert numbers == [sums[9], steps.recorded[10, 0], sums[8], sums[9], x]
    assert "99 s is not within the steps of brake, which are from 0 to 10 s" in done.output


def test_wrong_inputs_name_the_remedy(folder: Path, cart: Path, tmp_path: Path) -> None:
    def error(*arguments: object, path: Path = folder / "c.mcap") -> str:
        done = run(path, *arguments)
        assert done.exit_code == 2, done.output
        return done.output

    assert "--gdb /path/to/gdb" in error("--gdb", tmp_path / "none")
    without = tmp_path / "gdb"
    without.write_text('#!/bin/sh\ncase "$1" in --version) echo "GNU gdb 13.1";; esac\n', "utf-8")
    without.chmod(0o755)
    assert "has no Python" in error("--gdb", without)
    assert "from 0 to 3 s; give a time of these" in error("--at", 7)
    assert "'controler'" in error("--controller", "controler")
    assert "there is no file" in error("--batch", tmp_path / "none.gdb")
    assert "leave out --dap" in error("--dap", path=cart)
    assert "leave out --json" in error("--json", path=cart)
    failing = told(folder / "c.mcap", "continue-until speed = 3", "print 1")
    assert failing["exit_status"] == 2
    assert "write SIGNAL < VALUE" in failing["output"]
    assert "$1" not in failing["output"], "a failed command ends the script"
    assert "the signals are" in told(folder / "c.mcap", "back-until sped < 3")["output"]
    assert "at no later step" in told(folder / "c.mcap", "continue-until speed>1e9")["output"]


def test_gdb_before_14_has_no_dap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(find_gdb(), version="GNU gdb (Debian 13.1-3) 13.1")
    assert (old.major, old.has_dap) == (13, False)
    assert Gdb("gdb", "GNU gdb (GDB) 15.0.50.20240403-git").has_dap
    assert Gdb("gdb", "GNU gdb (GDB) Fedora Linux 14.2-1.fc40").has_dap
    monkeypatch.setattr("hitl.cli.debug.find_gdb", lambda _: old)
    refused = run(folder / "c.mcap", "--dap")
    assert refused.exit_code == 2
    assert "use --write-launch" in refused.output


def test_another_system_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(DebugError, match=r"needs Linux and gdb .*lldb is not supported"):
        find_gdb()


def test_which_controllers_can_be_debugged(folder: Path) -> None:
    recording = rt.Recording.open(folder / "c.mcap")
    assert recorded_steps(recording, None).name == "controller"
    with pytest.raises(UnknownName, match="controller"):
        recorded_steps(recording, "other")
    header = json.loads(json.dumps(recording.header))
    del header["scenario"]["parts"]["controller"]
    with pytest.raises(ScenarioError, match="has no controller"):
        recorded_steps(replace(recording, header=header), None)
