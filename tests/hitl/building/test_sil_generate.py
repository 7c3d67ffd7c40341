"""``rtsim sil generate``, and ``rtsim sil test`` with its file.

The generated C header: as a compiler reads it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from junit_schema import valid
from stimuli_parts import write_dividing, write_motor_with_mode

import hitl
from hitl.building.c_code import header_text
from hitl.building.toolchain import find_toolchain
from hitl.cli.interfaces import write_starter
from hitl.interface import load_interface
from hitl.stimuli.file import StimuliError
from rtsim.cli import main

BUG = "wanted < -4 * LIMIT"
"""The motor brakes with up to 48 V instead of 12 V."""
UP_TO_1_S = ("scenario.py", "-c", "motor.toml", "--until", "1")
"""Until then, the motor only accelerates."""


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the example of ``rtsim sil init`` into the current folder; return its source."""
    monkeypatch.chdir(tmp_path)
    write_starter(tmp_path)
    return tmp_path / "motor.c"


def sil(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["sil", *map(str, arguments)])


@pytest.mark.long
def test_a_difference_in_a_branch_that_the_run_leaves_open_is_found(motor: Path) -> None:
    result = sil("generate", *UP_TO_1_S, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["outcome"]) == (0, "passed"), result.output
    assert (told["branches"], told["reached_by_the_run"], told["reached"]) == (4, 3, 4)
    assert told["files"] == [str(motor.with_name("motor.stimuli.toml"))]
    result = sil("test", *UP_TO_1_S)
    assert result.exit_code == 0, result.output
    count = len(told["stimuli"])
    assert f"in open and in closed loop, and on {count} stimul" in result.output
    rows = [line for line in result.output.splitlines() if "motor.c:" in line]
    assert len(rows) == count
    assert all(len(row.rstrip()) <= 120 for row in rows), rows
    assert any(row.rstrip().endswith(" more") for row in rows)
    motor.write_text(motor.read_text().replace("wanted < -LIMIT", BUG))
    result = sil("test", *UP_TO_1_S, "--no-stimuli")
    assert result.exit_code == 0, result.output
    result = sil("test", *UP_TO_1_S, "--open-only", "--junit", "r.xml", "--html", "r.html")
    assert result.exit_code == 1, result.output
    assert "reference model -12.0, C -12." in result.output
    assert "(reaches motor.c:17: wanted < -LIMIT is true, and " in result.output
    assert "its sources changed" in result.output
    root = ET.fromstring(Path("r.xml").read_text())
    valid(root)
    assert [s.get("failures") for s in root.iter("testsuite")] == ["0", "1"]
    assert "Generated stimuli" in Path("r.html").read_text()


BY_HAND = """\
format = 1
controller = "motor"
inputs = ["setpoint", "speed"]
[[stimulus]]
reaches = ["motor.c:17: wanted < -LIMIT is true"]
steps = [{ inputs = [%s, 0.0] }]
"""


@pytest.mark.long
def test_a_stimulus_that_does_not_reach_what_it_names_is_refused_by_strict(motor: Path) -> None:
    stimuli = motor.with_name("motor.stimuli.toml")
    stimuli.write_text(BY_HAND % "1.0")
    missed = "stimulus 1 of motor.stimuli.toml does not reach motor.c:17: wanted < -LIMIT is true"
    result = sil("test", *UP_TO_1_S)
    assert result.exit_code == 0
    assert f"but {missed}" in result.output.splitlines()[-1]
    result = sil("test", *UP_TO_1_S, "--strict", "--json", "--junit", "r.xml")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["outcome"]) == (1, "failed")
    assert told["why"].startswith(missed)
    root = ET.fromstring(Path("r.xml").read_text())
    valid(root)
    assert [s.get("failures") for s in root.iter("testsuite")][-1] == "1"
    stimuli.write_text(BY_HAND % "-100.0")
    result = sil("test", *UP_TO_1_S, "--strict")
    assert result.exit_code == 0, result.output


AGAIN = "int motor_again(double wanted)\n{\n    return wanted < -LIMIT ? 1 : 0;\n}\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ("/* one line more */\n", "", 0),  # the text of the condition is still there, once
        ("", AGAIN, 0),  # the line is still the same
        ("/* one line more */\n", AGAIN, 1),  # it could be either
    ],
)
def test_a_branch_is_found_after_lines_were_added(
    motor: Path, before: str, after: str, status: int
) -> None:
    motor.with_name("motor.stimuli.toml").write_text(BY_HAND % "-100.0")
    motor.write_text(before + motor.read_text() + after)
    assert sil("test", *UP_TO_1_S, "--strict").exit_code == status


def test_a_name_that_is_no_branch_is_not_reached(motor: Path) -> None:
    named = BY_HAND.replace("is true", "is just so")
    motor.with_name("motor.stimuli.toml").write_text(named % "-100.0")
    result = sil("test", *UP_TO_1_S, "--strict")
    assert result.exit_code == 1
    assert "does not reach motor.c:17: wanted < -LIMIT is just so" in result.output


@pytest.mark.long
def test_code_that_never_ran_is_named_with_the_command_that_reaches_it(motor: Path) -> None:
    result = sil("test", *UP_TO_1_S)
    assert result.exit_code == 0
    line = (
        "not exercised: controller: 1 of 4 branches of the C code was not reached; "
        "rtsim sil generate -c motor.toml looks for stimuli that reach them"
    )
    assert line in result.output
    told = json.loads(sil("test", *UP_TO_1_S, "--json").stdout)
    assert told["reached"]["controller"] == {
        "branches": 4, "open": ["motor.c:17: wanted < -LIMIT is true"], "not_measured": []
    }  # fmt: skip
    assert sil("generate", "-c", "motor.toml").exit_code == 0
    assert "of the C code" not in sil("test", *UP_TO_1_S).output
    assert motor.is_file()


IN_CALLS = (
    "    real command = fmax({} * LIMIT, fmin(LIMIT, wanted));\n"
    "    if (command != wanted)\n        return command;\n"
)
IN_PYTHON = """\
        self.voltage = max(-LIMIT, min(LIMIT, wanted))
        if self.voltage == wanted:
            self.integral += self.integral_gain * PERIOD * error


"""


def with_calls(motor: Path, lower: str) -> None:
    """Let the C code limit its command by calls, with ``lower`` times the limit."""
    text = motor.read_text()
    before, _, after = text.partition("    if (wanted > LIMIT)")
    after = after[after.index("    self->integral +=") :]
    command = IN_CALLS.format(lower) if lower else IN_CALLS.replace("fmax({} * LIMIT, ", "(")
    motor.write_text(f"#include <math.h>\n{before}{command}{after}")


def test_a_wrong_limit_in_a_call_is_named_and_found(motor: Path) -> None:
    with_calls(motor, "-1.5")
    result = sil("test", *UP_TO_1_S)
    assert result.exit_code == 0, result.output
    side = "motor.c:16: fmax(-1.5 * LIMIT, fmin(LIMIT, wanted)) is -1.5 * LIMIT"
    assert f"never taken: {side}, in motor_control_step()\n" in result.output
    verdict = result.output.splitlines()[-1]
    assert "; but controller: 1 of 6 branches of the C code was not reached" in verdict
    result = sil("generate", *UP_TO_1_S)
    assert result.exit_code == 0, result.output
    assert "the run reaches 5 of 6 branches" in result.output
    assert f"  {side}\n" in result.output
    result = sil("test", *UP_TO_1_S, "--open-only")
    assert result.exit_code == 1, result.output
    assert "reference model -12.0, C -1" in result.output


@pytest.mark.long
def test_a_limit_that_the_c_code_lacks_is_named_by_its_reference_model(motor: Path) -> None:
    with_calls(motor, "")
    scenario = motor.with_name("scenario.py")
    before, _, after = scenario.read_text().partition("        if wanted > LIMIT")
    scenario.write_text(before + IN_PYTHON + after[after.index("def scenario(") :])
    assert sil("generate", *UP_TO_1_S).exit_code == 0
    result = sil("test", *UP_TO_1_S, "--json")
    told = json.loads(result.stdout)
    assert told["reached"]["controller"]["open"] == []
    side = "scenario.py:38: max(-LIMIT, min(LIMIT, wanted)) is -LIMIT, in Regulator.step()"
    assert told["reached_in_design"]["controller"]["open"] == [side]
    verdict = sil("test", *UP_TO_1_S).output.splitlines()[-1]
    assert "; but controller: 1 of 6 branches of the reference model was not reached" in verdict


def test_what_cannot_be_measured_is_said(motor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> object:
        raise StimuliError("no probes here\nand more")

    motor.with_name("motor.stimuli.toml").write_text(BY_HAND % "-100.0")
    monkeypatch.setattr("hitl.stimuli.generating.program", refused)
    result = sil("test", *UP_TO_1_S)
    assert result.exit_code == 0
    assert "which branches of the C code ran was not measured: no probes here\n" in result.output
    assert "whether the stimuli of motor.stimuli.toml reach what they name was not" in result.output
    assert "does not reach" not in result.output
    assert sil("test", *UP_TO_1_S, "--strict").exit_code == 1
    assert sil("test", *UP_TO_1_S, "--strict", "--no-stimuli").exit_code == 0


@pytest.mark.long
def test_signals_that_only_the_stimuli_moved_are_not_said_to_be_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stimulus = "[[stimulus]]\nsteps = [{ inputs = [0.0, 0.0, MODE, 0.0] }]\n"
    head = 'format = 1\ncontroller = "motor"\ninputs = ["setpoint", "speed", "mode", "ready"]\n'
    file = write_motor_with_mode(tmp_path)
    words = (*UP_TO_1_S, "--open-only")
    file.write_text(head + stimulus.replace("MODE", "0.0"))
    result = sil("test", *words)
    assert "but controller.state never moved" in " ".join(result.output.split()), result.output
    file.write_text(head + stimulus.replace("MODE", "7.0"))
    result = sil("test", *words)
    text = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "but controller.state moved only on the stimuli, not in the run" in text
    assert "not exercised: controller: outputs that only the stimuli moved: state" in text
    assert "not exercised: controller: inputs that only the stimuli changed: mode" in text
    assert "never moved" not in text
    assert "inputs that never changed: ready " in text, "no stimulus changed it"
    told = json.loads(sil("test", *words, "--json").stdout)["open"]["controller"]
    assert told["outputs_that_only_the_stimuli_moved"] == ["state"]
    assert (told["outputs_that_never_moved"], told["inputs_that_never_changed"]) == (
        [],
        ["ready"],
    )


@pytest.mark.parametrize(("wrong", "words"), [
    ("8.0, 0.0", "mode = 8.0 is not allowed: high = 7 (motor.toml:14)"),
    ("-1.0, 0.0", "mode = -1.0 is not allowed: low = 0 (motor.toml:14)"),
    ("nan, 0.0", "mode = nan is not allowed: NaN needs nan = true (motor.toml:14)"),
    ("inf, 0.0", "mode = inf is not allowed: an infinite value needs high = inf"),
    ("7.0, 2.0", "ready = 2.0 is not allowed: a bool is 0 or 1 (motor.toml:15)"),
])  # fmt: skip
def test_a_value_that_the_interface_file_does_not_allow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_motor_with_mode(tmp_path)
    file.write_text(
        'format = 1\ncontroller = "motor"\ninputs = ["setpoint", "speed", "mode", "ready"]\n'
        "[[stimulus]]\nsteps = [{ inputs = [0.0, 0.0, 7.0, 1.0] }]\n[[stimulus]]\nsteps = [\n"
        f"{{ inputs = [0.0, 0.0, 0.0, 0.0], times = 9 }}, {{ inputs = [0.0, 0.0, {wrong}] }}]\n"
    )
    result = sil("test", *UP_TO_1_S, "--open-only")
    assert result.exit_code == 2, result.output
    assert f"{file}:8: stimulus 2.steps 2: {words}" in result.output


def test_a_stimulus_that_ends_the_c_code_fails_the_comparison(motor: Path) -> None:
    text = motor.read_text()
    motor.write_text(text.replace("return -LIMIT;", "__builtin_trap();"))
    result = sil("generate", *UP_TO_1_S, "-o", "more.stimuli.toml", "--runs", 300, "--steps", 20)
    assert result.exit_code == 1, result.output
    assert "the C code fails: it was ended by SIG" in result.output
    result = sil(
        "test", *UP_TO_1_S, "--open-only", "--json", "--stimuli", "controller=more.stimuli.toml"
    )
    told = json.loads(result.stdout)
    assert (result.exit_code, told["outcome"]) == (1, "failed")
    assert not told["stimulated"]["controller"]["ok"]
    assert told["open"]["controller"]["ok"]


def test_comparisons_that_were_not_taken_with_little_to_spare_are_listed(tmp_path: Path) -> None:
    words = ("generate", "-c", write_dividing(tmp_path), "--runs", 3, "--seed", 1)
    text = sil(*words, "-o", tmp_path / "a.stimuli.toml").output
    told = json.loads(sil(*words, "--json", "-o", tmp_path / "b.stimuli.toml").stdout)
    missing = told["not_with_little_to_spare"]
    assert missing, text
    assert text.count("\nnot with little to spare: dividing.c:") == len(missing)
    for one in missing:
        place = f"dividing.c:{one['line']}: {one['condition']} is just {one['way']}"
        assert f"not with little to spare: {place}; {one['nearest']}\n" in text


@pytest.mark.usefixtures("motor")
def test_mistakes_are_named(tmp_path: Path) -> None:
    dividing = write_dividing(tmp_path / "d")
    (tmp_path / "notes.toml").write_text("mine = 3\n")
    for arguments, words in (
        (("generate",), "Missing option '-c'"),
        (("generate", "-c", "none.toml"), "none.toml: No such file"),
        (("generate", "-c", dividing, "--seconds", 0), "--seconds 0 is not possible"),
        (("generate", "-c", dividing, "--until", 1), "--until applies to a scenario"),
        (("generate", "-c", f"x={dividing}"), "names a controller of a scenario"),
        (("generate", "-c", "firmware/core/pid.toml"), "ships with rtsim"),
        (("generate", "-c", dividing, "-o", "notes.toml"), "is not a file of stimuli"),
        (("generate", *UP_TO_1_S, "--set", "gain=1"), "gain"),
        (("test", *UP_TO_1_S, "--stimuli", "a.toml", "--no-stimuli"), "exclude each other"),
        (("test", *UP_TO_1_S, "--stimuli", "a=a.toml"), "a"),
        (("test", *UP_TO_1_S, "--stimuli", "a.toml"), "a.toml: No such file"),
    ):
        result = sil(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert words in result.output, (arguments, result.output)
        assert "Traceback" not in result.output


def test_without_compiler_nothing_is_written(motor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    result = sil("generate", *UP_TO_1_S)
    assert result.exit_code == 2
    assert "CC=no-such-compiler: no such program" in result.output
    assert not motor.with_name("motor.stimuli.toml").exists()


FILES = sorted((Path(hitl.__file__).parent / "examples").glob("*/*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_columns_schema_and_period_are_those_of_the_interface(file: Path, tmp_path: Path) -> None:
    interface = load_interface(file)
    name = interface.name
    vectors = {
        "input": interface.inputs, "output": interface.outputs, "parameter": interface.parameters,
    }  # fmt: skip
    expected = [f"{interface.schema:x}", f"{interface.period.seconds:.17g}"]
    expected += [str(len(signals.columns)) for signals in vectors.values()]
    expected += [str(k) for signals in vectors.values() for k in range(len(signals.columns))]
    columns = [f"{name}_{kind}_{c}" for kind, s in vectors.items() for c in s.columns]
    counts = [f"{name}_{kind}s_count" for kind in vectors]
    prints = [f'printf("%llx\\n%.17g\\n", {name.upper()}_SCHEMA, (double){name.upper()}_PERIOD_S);']
    prints += [f'printf("%d\\n", (int){what});' for what in (*counts, *columns)]
    (tmp_path / "signals.h").write_text(header_text(interface))
    body = "\n".join(prints)
    program = '#include <stdio.h>\n#include "signals.h"\n#include "signals.h"\n'
    program += f"int main(void) {{\n{body}\nreturn 0; }}\n"
    (tmp_path / "main.c").write_text(program)
    flags = ["-std=c99", "-pedantic-errors", "-Wall", "-Werror"]
    find_toolchain().run([*flags, tmp_path / "main.c", "-o", tmp_path / "main"], tmp_path)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said.split() == expected


def test_a_unit_with_the_end_of_a_comment_ends_none(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'name = "a"\nperiod = 1\nsources = []\ncode.step = "y = 1"\n'
        '[outputs]\ny = { unit = "m*/s" }\n'
    )
    assert "/* float64 m* /s */" in header_text(load_interface(tmp_path / "a.toml"))
