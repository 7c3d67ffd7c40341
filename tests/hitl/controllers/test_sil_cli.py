"""``rtsim sil init`` and ``rtsim sil run``: what they write, fly, tell and refuse.

Plain variables in calls, which C converts in silence, and code of another width: refused.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from c_parts import with_gcc
from command_line import rtsim

from hitl.boards.avr import UNO
from hitl.building.build import build
from hitl.building.checks import check_arguments
from hitl.building.toolchain import Toolchain, find_toolchain, named
from hitl.building.unit import SUPPORT, check
from hitl.cli.common import in_c, parse_controllers
from hitl.interface import Interface, InterfaceError, load_interface
from rtsim.core.errors import ScenarioError
from rtsim.models.orbit import ORBIT
from rtsim.models.unstable import controller
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

TWO = """

def two() -> rt.Scenario:
    loop = scenario(until=1.0)
    other = loop.plant("other", Motor(), step=0.002)
    second = loop.controller("second", Regulator(), period=0.02)
    loop.connect("wanted.speed", second.setpoint)
    loop.connect(other.speed, second.speed)
    loop.connect(second.voltage, other.voltage)
    return loop
"""


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, and we are in its folder."""
    folder = tmp_path / "motor"
    assert rtsim("sil", "init", folder).exit_code == 0
    monkeypatch.chdir(folder)
    return folder


def crashing(folder: Path) -> None:
    """The C ends its process beyond 50 rad/s."""
    source = folder / "motor.c"
    text = "#include <stdlib.h>\n" + source.read_text()
    source.write_text(text.replace("real error =", "if (speed > 50) abort();\n    real error ="))


# -- init


def test_init_writes_the_example(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    told = rtsim("sil", "init", folder)
    assert told.exit_code == 0, told.output
    names = {"README.md", "motor.c", "motor.h", "motor.toml", "scenario.py", "test_motor.py"}
    assert {path.name for path in folder.iterdir()} == names
    assert f"next: cd {folder} && rtsim sil test scenario.py -c motor.toml" in told.stdout


def test_init_writes_nothing_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "motor.toml").write_text("mine")
    told = rtsim("sil", "init", tmp_path)
    assert told.exit_code == 2
    assert "contains motor.toml already" in told.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_init_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = rtsim("sil", "init", tmp_path / "file" / "motor")
    assert told.exit_code == 2
    assert "cannot write into" in told.stderr


def test_what_the_readme_of_the_example_says_to_type_exists(motor: Path) -> None:
    lines = (motor / "README.md").read_text().splitlines()
    commands = [line.split() for line in lines if line.startswith("rtsim sil ")]
    assert len(commands) == 3
    for words in commands:
        told = rtsim(*words[1:3], "--help")
        assert told.exit_code == 0, told.output
        assert all(word in told.stdout for word in words if word.startswith("--"))


# -- which C takes the place of which controller


def two_controllers() -> Scenario:
    out = Scenario("two")
    for name in ("inner", "outer"):
        out.controller(name, controller(), period=0.1, inputs={"x": 0.0, "v": 0.0})
    return out


def test_a_name_may_be_left_out_where_there_is_one() -> None:
    one = load_scenario("unstable")
    assert parse_controllers(["c.toml"], one) == {"controller": "c.toml"}
    assert parse_controllers(["controller=a/c.toml:float"], one) == {"controller": "a/c.toml:float"}
    two = parse_controllers(["outer=b.toml", "inner = a.toml"], two_controllers())
    assert two == {"outer": "b.toml", "inner": "a.toml"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [],
            r"no interface file is given; type: -c inner=pid.toml   \(controllers: inner, outer\)",
        ),
        (["c.toml"], "names no controller, and the scenario has inner, outer.* -c inner=c.toml"),
        (["iner=c.toml"], "did you mean inner"),
        (["inner="], "names no interface file"),
        (["inner=a.toml", "inner=b.toml"], "inner is given twice"),
    ],
)
def test_what_is_not_clear_is_asked(values: list[str], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parse_controllers(values, two_controllers())


def test_a_scenario_without_controllers_is_refused() -> None:
    alone = Scenario("alone")
    alone.plant("moon", ORBIT, step=0.1)
    with pytest.raises(ScenarioError, match="alone has no controller"):
        parse_controllers(["c.toml"], alone)


@with_gcc
@pytest.mark.usefixtures("motor")
def test_another_build_than_the_plain_one() -> None:
    assert in_c("motor.toml", "sanitize", None).build.kind == "sanitize"


@pytest.mark.usefixtures("motor")
def test_what_another_machine_serves_is_not_built_here() -> None:
    served = in_c("motor.toml:float@tcp://127.0.0.1:5917", "plain", None)
    assert (served.endpoint, served.build.kind) == ("tcp://127.0.0.1:5917", "served")
    assert served.interface.variant == "float"
    with pytest.raises(ScenarioError, match="rtsim sil serve --build sanitize"):
        in_c("motor.toml@tcp://127.0.0.1:5917", "sanitize", None)
    with pytest.raises(ScenarioError, match=r"none\.client"):
        in_c("motor.toml@tcp://127.0.0.1:5917", "plain", Path("none.client"))


# -- fly


def flown(*arguments: object) -> Any:
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--json", *arguments)
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout)


@pytest.mark.usefixtures("motor")
def test_the_c_flies_as_its_design_and_replays() -> None:
    assert rtsim("run", "scenario.py", "-o", "design.mcap").exit_code == 0
    told = flown("-o", "c.mcap")
    design, c = Recording.open("design.mcap"), Recording.open("c.mcap")
    for name in ("motor", "messages/controller", "messages/controller.inputs"):
        assert design.track(name).words.tolist() == c.track(name).words.tolist()
    assert told["build"] == "plain"
    about = told["controllers"]["controller"]
    assert (about["steps"], about["late"], about["missed"]) == (301, 0, 0)
    assert about["execution"]["steps"] == 301
    replayed = rtsim("replay", "c.mcap")
    assert replayed.exit_code == 0
    assert "equal bit for bit" in replayed.stdout


@pytest.mark.parametrize("command", ["replay", "diverge"])
def test_a_crash_of_the_c_is_repeated_without_it(motor: Path, command: str) -> None:
    crashing(motor)
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "-o", "c.mcap")
    assert (told.exit_code, "SIGABRT" in told.output) == (2, True), told.output
    repeated = rtsim(command, "c.mcap")
    assert repeated.exit_code == 0, repeated.output
    assert "ended in an error at" in repeated.stdout


@pytest.mark.usefixtures("motor")
def test_what_is_set_reaches_the_c() -> None:
    flown("-o", "a.mcap", "--set", "setpoint=30", "--set", "controller.gain=0.05")
    flown("-o", "b.mcap", "--set", "setpoint=30")
    a, b = (Recording.open(f"{name}.mcap").messages["controller"]["voltage"].max() for name in "ab")
    assert a < 0.5 * b


def test_what_does_not_reach_the_c_is_told(motor: Path) -> None:
    """A parameter of another name, and a period of another length."""
    interface = motor / "motor.toml"
    text = interface.read_text().replace('gain = { c = "control.gain', 'gian = { c = "control.gain')
    interface.write_text(text.replace('period = "1/100"', 'period = "1/50"'))
    late = ("--latency", "0.05")
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record", *late)
    assert told.exit_code == 0
    said = " ".join(told.output.split())
    assert "controller: only the reference model has the parameters gain" in said
    assert "controller: only the interface file has the parameters gian" in said
    assert (
        "declares a period of 0.02 s, but the scenario samples the controller every 0.01 s" in said
    )
    assert "controller: a latency of 0.05 s is longer than its period of 0.01 s" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("speed =", "sped =", "motor.toml:13: unknown input 'sped' in the replacement of"),
        ("volt", "vlt", "motor.toml:16: unknown output 'vltage' in the replacement of"),
        (
            'speed = { unit = "rad/s" }',
            "",
            "motor.toml:11: the replacement of controller has no input speed",
        ),
    ],
)
def test_signals_of_another_name_are_told_with_their_line(
    motor: Path, old: str, new: str, said: str
) -> None:
    interface = motor / "motor.toml"
    text = interface.read_text().replace("setpoint, speed", "setpoint, 1.0")
    interface.write_text(text.replace(old, new))
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record")
    assert told.exit_code == 2
    assert said in told.output


def test_a_parameter_in_another_unit_is_refused(motor: Path) -> None:
    interface = motor / "motor.toml"
    interface.write_text(interface.read_text().replace("V s/rad", "V s/deg"))
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record")
    assert told.exit_code != 0
    assert "controller.gain is in V s/rad" in told.output
    assert "the replacement of controller.gain is in V s/deg" in told.output


@with_gcc
def test_a_coverage_build_is_counted(motor: Path) -> None:
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record", "--until", "1.4",
                 "--build", "coverage", "--coverage", "counted")  # fmt: skip
    assert told.exit_code == 0, told.output
    words = r"coverage: lines 9\d\.\d % \(\d+ of \d+\), branches 75.0 % \(3 of 4\): "
    assert re.search(words + str(motor), told.stdout), told.stdout
    assert (motor / "counted" / "index.html").is_file()
    whole = flown("--no-record", "--build", "coverage")["coverage"]
    assert whole["line_percent"] == 100.0
    folders = [path.name for path in motor.iterdir() if path.is_dir()]
    assert "coverage" not in folders, "numba would import it instead of the package"
    assert flown("--no-record")["coverage"] is None


@pytest.mark.usefixtures("motor")
@with_gcc
@pytest.mark.parametrize("kind", ["sanitize", "coverage"])
def test_timing_is_shown_of_plain_builds_only(kind: str) -> None:
    plain = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record")
    assert "maximum observed" in plain.stdout
    assert "WCET" not in plain.stdout
    slow = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--no-record", "--build", kind)
    assert slow.exit_code == 0, slow.output
    assert "maximum observed" not in slow.stdout
    assert f"execution times are not measured for a {kind} build" in slow.stdout
    assert flown("--no-record", "--build", kind)["controllers"]["controller"]["execution"] is None


def test_several_controllers_at_their_own_rates(motor: Path) -> None:
    with (motor / "scenario.py").open("a") as file:
        file.write(TWO)
    told = rtsim(
        "sil", "run", "scenario.py:two", "--json", "-o", "two.mcap",
        "-c", "second=motor.toml:float", "-c", "controller=motor.toml",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    controllers = json.loads(told.stdout)["controllers"]
    assert {name: c["steps"] for name, c in controllers.items()} == {
        "controller": 101,
        "second": 51,
    }
    recording = Recording.open("two.mcap")
    assert {"measured/controller", "measured/second"} <= set(recording.tracks)


@pytest.mark.usefixtures("motor")
def test_in_real_time_without_latency_it_says_what_to_type() -> None:
    told = rtsim("sil", "run", "scenario.py", "-c", "motor.toml", "--pace", "1.0")
    assert told.exit_code == 2
    assert "--latency 0.005 " in told.stderr
    assert not Path("runs").exists()


def test_a_crash_ends_the_run_or_holds(motor: Path) -> None:
    crashing(motor)
    command = ("sil", "run", "scenario.py", "-c", "motor.toml", "--until", "0.5")
    told = rtsim(*command, "-o", "end.mcap")
    assert told.exit_code == 2
    assert "SIGABRT" in told.stderr
    assert "again: rtsim sil case cases" in told.stderr
    assert Recording.open("end.mcap").events[-1].kind == "Error"
    told = rtsim(*command, "-o", "hold.mcap", "--failure", "hold")
    assert told.exit_code == 0, told.output
    assert "controller failed: " in told.stdout
    assert rtsim(*command, "--no-record", "--failure", "hold", "--strict").exit_code == 1


@pytest.mark.usefixtures("motor")
@pytest.mark.realtime
def test_paced_with_latency_it_is_the_lockstep_run_up_to_the_first_late() -> None:
    paced = flown("-o", "paced.mcap", "--pace", "1.0", "--latency", "0.005", "--until", "0.5")
    flown("-o", "lockstep.mcap", "--latency", "0.005", "--until", "0.5")
    a, b = Recording.open("paced.mcap"), Recording.open("lockstep.mcap")
    late = [e.tag.ns for e in a.events if e.kind in ("Late", "Missed")]
    assert len(late) == paced["late"] + paced["missed"]
    until = min(late, default=a.end_ns + 1)
    rows = [r.track("motor").words[r.track("motor").ns < until].tolist() for r in (a, b)]
    assert rows[0] == rows[1]


HEADER = """\
#include <stdbool.h>
#include <stdint.h>
typedef float real;
typedef enum { RED, GREEN } colour;
struct laws { float (*step)(float x); };
extern const struct laws laws;
real step(real x);
double wide(double x);
float two(struct laws *self, float x, int32_t n);
int whole(int x);
long longer(long x);
unsigned char byte(unsigned char x);
char letter(char x);
bool yes(bool x);
int mode(colour x);
void into(float x, float *y);
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define STEP(x) step(x)
"""
SOURCE = '#include "c.h"\n'
TOOLS = {
    "the compiler in use": find_toolchain(),
    "ziglang": Toolchain((sys.executable, "-m", "ziglang", "cc"), "clang of ziglang"),
}


def made(folder: Path, statement: str, x: str, y: str, key: str = "step") -> Interface:
    (folder / "c.h").write_text(HEADER)
    (folder / "c.c").write_text(SOURCE)
    steps = f"{key} = '''{statement}'''"
    if key != "step":
        steps = f"step = 'y = x'\n{steps}"
    (folder / "c.toml").write_text(
        'name = "c"\nperiod = 1\nsources = ["c.c"]\nheaders = ["c.h"]\n'
        f"[code]\n{steps}\n[inputs]\n"
        f'x = {{ type = "{x}" }}\nn = {{ type = "int32" }}\n[outputs]\ny = {{ type = "{y}" }}\n'
    )
    return load_interface(folder / "c.toml")


WRONG = [
    ("y = step(x)", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(x)", "float64", "float32", "x is float64 here and float in C"),
    ("y = wide(x)", "float32", "float64", "x is float32 here and double in C"),
    ("y = two((struct laws *)0, x, n)", "int32", "float32", "x is int32 here and float in C"),
    ("y = two((struct laws *)0, 1.0f, x)", "float32", "float32", "x is float32 here and int in C"),
    ("y = whole(x)", "int64", "int32", "x is int64 here and int in C"),
    ("y = whole(n)", "int8", "int16", "y is int16 here and int in C"),
    ("y = whole(x)", "uint32", "int32", "x is uint32 here and int in C"),
    ("y = longer(x)", "uint64", "int64", "x is uint64 here and long in C"),
    ("y = byte(x)", "uint16", "uint8", "x is uint16 here and unsigned char in C"),
    ("y = byte(x)", "int8", "uint8", "x is int8 here and unsigned char in C"),
    ("y = yes(x)", "uint8", "bool", "x is uint8 here and _Bool in C"),
    ("y = mode(x)", "float32", "int32", "x is float32 here and colour in C"),
    ("into(x, &y)", "float64", "float32", "x is float64 here and float in C"),
    ("y = laws.step(x)", "float64", "float32", "x is float64 here and float in C"),
    ("y = STEP(x)", "int8", "float32", "x is int8 here and float in C"),
    ("y = 2 * step( x ) + step(1)", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(step(x))", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(x)", "float32", "float64", "y is float64 here and float in C"),
    ("y = step(x)", "float32", "int32", "y is int32 here and float in C"),
    ("y = laws.step(x)", "float32", "float64", "y is float64 here and float in C"),
]


@pytest.mark.parametrize(("statement", "x", "y", "text"), WRONG)
def test_a_variable_of_another_type_than_its_call_is_refused(
    tmp_path: Path, statement: str, x: str, y: str, text: str
) -> None:
    interface = made(tmp_path, statement, x, y)
    with pytest.raises(InterfaceError) as raised:
        check(interface)
    line = 8 if text.startswith("x") else 11
    assert str(raised.value).startswith(f"{interface.path}:{line}: {text}, where '{statement}' ")
    assert str(raised.value).splitlines()[1].startswith(f"    {text[0]} = ")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_build_refuses_it_too_with_any_compiler(tool: str, tmp_path: Path) -> None:
    interface = made(tmp_path, "y = step(x)", "int8", "float32")
    with pytest.raises(InterfaceError, match="x is int8 here and float in C, where 'y = step"):
        build(interface, toolchain=TOOLS[tool])


@pytest.mark.parametrize("key", ["initialize", "terminate"])
def test_in_statements_beside_the_steps(key: str, tmp_path: Path) -> None:
    interface = made(tmp_path, "into(x, 0)", "float64", "float64", key)
    with pytest.raises(InterfaceError, match="x is float64 here and float in C, where 'into"):
        check(interface)


RIGHT = [
    ("y = step(x)", "float32", "float32"),
    ("y = wide(x)", "float64", "float64"),
    ("y = two((struct laws *)0, x, n)", "float32", "float32"),
    ("y = whole(n)", "int8", "int32"),
    ("y = whole(x)", "int16", "int32"),
    ("y = whole(x)", "uint16", "int64"),
    ("y = longer(x)", "int32", "int64"),
    ("y = byte(x)", "uint8", "int16"),
    ("y = longer(x)", "int64", "int64"),
    ("y = byte(x)", "uint8", "uint8"),
    ("y = letter(x)", "int8", "int8"),
    ("y = yes(x)", "bool", "bool"),
    ("y = whole(x)", "bool", "bool"),
    ("y = mode(x)", "uint32", "int32"),
    ("into(x, &y)", "float32", "float32"),
    # what the author of the statement converts, or computes, is his own
    ("y = (double)step((float)x)", "int8", "float64"),
    ("y = step(2 * x)", "int8", "float32"),
    ("y = step(x) + 1", "float32", "float64"),
    ("y = x", "int8", "float32"),
    ("y = MORE(x, 1)", "int8", "int8"),
    ("if (x) y = 1; else y = sizeof(x)", "int8", "int8"),
    ("y = ')' + step(\")\"[0])", "int8", "float32"),
]


@pytest.mark.parametrize(("statement", "x", "y"), RIGHT)
@pytest.mark.parametrize("tool", ["the compiler in use"])
def test_what_fits_is_taken(tool: str, tmp_path: Path, statement: str, x: str, y: str) -> None:
    if "letter" in statement and sys.platform == "linux" and not _signed():
        pytest.skip("char is unsigned here")
    check(made(tmp_path, statement, x, y), TOOLS[tool])


def _signed() -> bool:
    import platform

    return platform.machine() in ("x86_64", "i686")


@pytest.mark.system("avr-gcc")
@pytest.mark.parametrize(
    ("statement", "x", "y", "text"),
    [
        ("y = wide(x)", "float32", "float32", ""),
        ("y = whole(x)", "int16", "int16", ""),
        ("y = longer(x)", "int32", "int32", ""),
        ("y = whole(x)", "int32", "int16", "x is int32 here and int in C"),
        ("y = step(x)", "int16", "float32", "x is int16 here and float in C"),
    ],
)
def test_a_boards_compiler_has_numbers_of_its_own(
    tmp_path: Path, statement: str, x: str, y: str, text: str
) -> None:
    """Its double has 4 bytes, its int has 2; it is of another age too."""
    interface = made(tmp_path, statement, x, y)
    flags = [*UNO.compiler.machine, "-std=gnu11", f"-I{SUPPORT}", f"-I{tmp_path}"]
    if not text:
        check_arguments(interface, named("avr-gcc"), flags)
        return
    with pytest.raises(InterfaceError, match=text):
        check_arguments(interface, named("avr-gcc"), flags)


def test_an_error_names_no_line_of_the_interface_file_but_its_own(tmp_path: Path) -> None:
    interface = made(tmp_path, "y = step(x)", "float32", "float32")
    text = interface.path.read_text().replace("y = {", 'y = { c = "flat", shape = [2, 2],')
    interface.path.write_text(text)
    (tmp_path / "c.h").write_text(HEADER + "static float flat[4];\n")
    interface.path.write_text(text.replace("y = step(x)", "flat[0] = step(x)"))
    with pytest.raises(InterfaceError) as told:
        build(interface.path)
    lines = [line for line in str(told.value).splitlines() if line.startswith("/")]
    assert [line.split(":")[1] for line in lines] == ["11"]
    assert "give the shape that the variable has in C" in str(told.value)


# -- the width of the code


def wide(folder: Path, flags: str) -> Interface:
    interface = made(folder, "y = step(x)", "float32", "float32")
    text = interface.path.read_text().replace("[code]", f"flags = [{flags}]\n[code]")
    interface.path.write_text(text)
    (folder / "c.c").write_text(SOURCE + "real step(real x) { return x; }\n")
    return load_interface(interface.path)


@with_gcc
@pytest.mark.parametrize("flag", ["-m32", "-mx32"])
def test_code_of_another_width_is_refused(flag: str, tmp_path: Path) -> None:
    """Its long has 32 bits, and no worker of that width has a libzmq."""
    interface = wide(tmp_path, f'"-DA=1", "{flag}"')
    for attempt in (check, build):
        with pytest.raises(InterfaceError) as raised:
            attempt(interface)
        said = str(raised.value)
        assert said.startswith(
            f"{interface.path}:5: {flag} generates code with pointers of another size than the "
        )
        assert "rtsim sil serve c.toml" in said


def test_flags_of_the_same_width_are_taken(tmp_path: Path) -> None:
    interface = wide(tmp_path, '"-m64"')
    check(interface)
    build(interface)
