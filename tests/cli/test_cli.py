"""The commands: what they print for people and machines, and their exit status.

What a user gets wrong ends in one dry message that names the culprit, never in a traceback.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import data, rtsim
from record_samples import ticking

from rtsim.cli import main
from rtsim.components.bus import STAMPS
from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals
from rtsim.equations.model import Model, bind
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.scenario.loading import BUILT_IN, known_scenarios

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    result = rtsim("run", "unstable", "--until", "2", "-o", path, "--set", "latency=0.03")
    assert result.exit_code == 0, result.output
    assert f"recording: {path}" in result.stdout
    return path


def test_run_as_json(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    result = rtsim("run", "orbit", "--json", "-o", path, "--seed", 4)
    assert result.exit_code == 0, result.output
    told = data(result)
    assert told["simulated_s"] == 30.0
    assert (told["reason"], told["overruns"], told["recording"]) == ("end", 0, str(path))
    assert len(Recording.open(path).track("moon")) == 301


def test_run_numbers_its_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert rtsim("run", "orbit").exit_code == 0
    assert rtsim("run", "orbit", "--no-record").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [
        "orbit-001.mcap",
        "orbit-002.mcap",
    ]


def test_a_file_of_the_users_own_runs_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what lies elsewhere is trusted by name alone: docs/trust.md
    source = tmp_path / "mine.py"
    source.write_text(
        "from rtsim.models.orbit import ORBIT\n"
        "from rtsim.scenario.scenario import Scenario\n"
        "def slow(step=0.5):\n"
        "    scenario = Scenario('mine', until=5)\n"
        "    scenario.plant('moon', ORBIT, step=step)\n"
        "    return scenario\n"
    )
    path = tmp_path / "mine.mcap"
    assert rtsim("run", f"{source}:slow", "-o", path, "--set", "step=0.25").exit_code == 0
    assert len(Recording.open(path).track("moon")) == 21
    assert rtsim("replay", path).exit_code == 0


def test_replay(recording: Path) -> None:
    result = rtsim("replay", recording)
    assert result.exit_code == 0, result.output
    assert "equal bit for bit" in result.stdout
    told = data(rtsim("replay", recording, "--json"))
    assert (told["ok"], told["by"], told["fingerprint_differs"]) == (True, "bits", [])


def test_replay_of_a_cut_off_recording(recording: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(recording.read_bytes()[:-700])
    result = rtsim("replay", cut)
    assert result.exit_code == 0, result.output
    assert "the recording was cut off" in result.stdout


def test_replay_notices_another_law(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources differ, which is said, and the values differ, which fails."""
    from rtsim.models import unstable

    class Other(unstable.Stabiliser, compile=True):
        def step(self) -> None:
            self.force = -1.001 * (self.proportional * self.x + self.derivative * self.v) - self.sum
            self.sum += self.integral * self.x

    monkeypatch.setattr(unstable, "Stabiliser", Other)
    result = rtsim("replay", recording)
    assert result.exit_code == 1
    assert "sources of the scenario's functions have changed" in result.stdout
    assert "FAILED" in result.stdout


def test_compare(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mcap"
    rtsim(
        "run",
        "unstable",
        "--until",
        "2",
        "-o",
        other,
        "--set",
        "latency=0.03",
        "--set",
        "plant.x=1.0001",
    )
    assert rtsim("compare", recording, recording).exit_code == 0
    result = rtsim("compare", recording, other)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "microstep" not in result.stdout
    at_once = tmp_path / "at_once.mcap"
    rtsim("run", "unstable", "--until", "2", "-o", at_once)
    shown = rtsim("compare", at_once, recording).stdout
    table, explained, _ = shown.partition("s +1: the first microstep of that instant")
    assert explained
    assert " s +1" in table
    told = data(rtsim("compare", recording, other, "--json"))
    first = {s["signal"] if "signal" in s else s["name"]: s for s in told["signals"]}
    assert not told["ok"]
    assert "plant.x" in first
    assert rtsim("compare", recording, other, "--abs", "0.01").exit_code == 0
    assert rtsim("compare", recording, other, "--tol", "plant.*=0.01").exit_code == 1
    result = rtsim("compare", recording, other, "--tol", "plant.*=much")
    assert (result.exit_code, "write --tol" in result.stderr) == (2, True)


def test_messages(recording: Path) -> None:
    result = rtsim("messages", recording, "--limit", 2)
    assert result.exit_code == 0
    assert "0.100          0.100        0.130" in result.stdout
    assert "19 more" in result.stdout
    rows = data(rtsim("messages", recording, "--inputs", "--json"))["messages"]
    assert len(rows) == 42
    assert rows[0]["payload"] == {"x": 1.0, "v": 0.0}
    result = rtsim("messages", recording, "--topic", "radio")
    assert (result.exit_code, "unknown topic" in result.stderr) == (2, True)


@pytest.mark.parametrize(("name", "typed"), [("a.mcap", "a.mcap"), ("a b.mcap", '"a b.mcap"')])
def test_the_next_command_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = rtsim("run", "ball", "--plain", "--until", "0.01", "-o", name)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"next: rtsim report {typed}"


def test_scenarios() -> None:
    names = [row["name"] for row in data(rtsim("scenarios", "--json"))]
    assert names == sorted(known_scenarios())
    assert set(BUILT_IN) < set(names), "scenarios of other packages are listed as well"
    assert {"ball", "f16", "machine-shop"} <= set(names)
    assert "latency=0" in rtsim("scenarios").stdout
    assert "`" not in rtsim("scenarios").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "orbitt"), "did you mean orbit"),
        (("run", "orbit", "--pace", "fast"), "'max' or a rate"),
        (("run", "orbit", "--set", "step"), "write --set NAME=VALUE"),
        (("run", "orbit", "--set", "moon.z=1"), "unknown value 'z' in moon"),
        (("run", "orbit", "--overrun", "never"), "catch_up"),
        (("run", "orbit", "-o", "/no/such/folder/x.mcap"), "/no/such/folder"),
        (("run", "orbit", "--until", "0"), "longer than 0 s"),
        (("replay", "/no/such.mcap"), "/no/such.mcap"),
        (("messages", "/no/such.mcap"), "/no/such.mcap"),
        (("report", "/no/such.mcap"), "/no/such.mcap"),
    ],
)
def test_errors_are_dry_and_exit_2(arguments: tuple[str, ...], message: str) -> None:
    result = rtsim(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert "Traceback" not in result.output
    told = data(rtsim(*arguments, "--json"))
    assert message in told["error"]["message"]


def test_usage_errors_come_from_the_command_line_library() -> None:
    assert rtsim("fly-away").exit_code == 2
    assert rtsim("run").exit_code == 2
    assert "Real-time" in rtsim("--help").stdout
    for command in ("run", "replay", "compare", "messages", "report", "scenarios", "doctor"):
        assert rtsim(command, "--help").exit_code == 0


HEAD = "from rtsim import Model, PythonController, Scenario, Signals\n"
FALL = "def fall(t, x, z, u, p, dx):\n    dx[0] = -9.81\n"
LAW = "def law(t, u, s, p, y):\n    y[0] = u[0]\n"
END = (
    "def scenario():\n"
    "    s = Scenario('s', until=1)\n"
    "    s.plant('a', Model('ball', Signals('x'), fall), step=0.1)\n"
    "    c = PythonController(law, Signals('x'), Signals('force'))\n"
    "    s.controller('c', c, period=0.1, inputs={'x': 'a.x'})\n"
    "    return s\n"
)


@pytest.mark.parametrize(
    "told", [("set", "plant.x", "-0.3"), ("inject", "c", "1", "-2"), ("rate", "-1e-5")]
)
def test_a_negative_number_is_no_option(
    told: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    result = rtsim("ctl", *told)
    assert "no run can be reached" in result.output


def refused(*arguments: object) -> str:
    """The message of a command that must fail properly, with and without --json."""
    told = rtsim(*arguments, "--json")
    assert told.exit_code == 2, told.output
    message = json.loads(told.stdout)["error"]["message"]
    result = rtsim(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {message}\n"
    assert "Traceback" not in result.output
    return str(message)


def test_keys_without_an_address(tmp_path: Path) -> None:
    message = refused("run", "unstable", "--no-record", "--control-keys", tmp_path / "k")
    assert "works only with --control-at" in message


@pytest.mark.parametrize("options", [("--plain",), ()], ids=["plain", "compiled"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            HEAD + "def fall(t, x):\n    x[0] = 1.0\n" + LAW + END,
            "mine.py:2: derivative of model ball takes (t, x), but dx is missing.",
        ),
        (
            HEAD + FALL + "def law(t, u):\n    pass\n" + END,
            "function law of controller takes (t, u), but y is missing. "
            "The possible arguments are (t, u,",
        ),
        (
            HEAD + FALL + "def law(t, u, s, p, y):\n    y[0] = u[3]\n" + END,
            "mine.py:5); its array has the shape (1,)",
        ),
        (
            HEAD + FALL + "def law(t, u, s, p, y):\n    y[0] = {}['gain']\n" + END,
            "control function law of controller raised at 0.000000000 s: KeyError: 'gain' (",
        ),
        ("import nowhere_at_all\n" + END, "mine.py:1 import nowhere_at_all"),
        ("x = 1\ny = 1 / (x - 1)\n", "mine.py raised ZeroDivisionError: division by zero\n"),
        ("def scenario(:\n", "mine.py:1: invalid syntax"),
        ("def scenario(mass):\n    pass\n", "needs a value for mass"),
        ("def scenario():\n    return 3\n", "returned a int, not a Scenario; return a Scenario"),
        ("def scenario():\n    return {}['x']\n", "mine.py:2 return {}['x']"),
        ("import sys\nsys.exit(3)\n", "raised SystemExit: 3"),
    ],
)
def test_mistakes_in_the_users_file(
    tmp_path: Path, source: str, message: str, options: tuple[str, ...]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    found = refused("run", path, "--no-record", *options)
    assert message in found
    assert "importlib" not in found


def test_a_file_without_any_function(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    told = refused("run", tmp_path / "empty.py", "--no-record")
    assert told == f"unknown function 'scenario' in {tmp_path / 'empty.py'}; known: none"


def test_a_model_function_that_raises_at_the_start() -> None:
    def inverse(t: float, x: object, z: object, u: object, p: object, dx: object) -> None:  # noqa: ARG001
        raise ZeroDivisionError("float division by zero")

    where = (
        r"derivative of model a raised an error at the initial values: ZeroDivisionError.*"
        r"test_cli\.py:"
    )
    with pytest.raises(ModelError, match=where):
        bind(Model("a", Signals("x"), inverse), compile=False)


def test_an_update_that_raises_while_running_is_the_users(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        HEAD + FALL + "def tick(t, x, z, u, p):\n    z[0] = 1 / 0 if t > 0.1 else 0\n"
        "def scenario():\n"
        "    m = Model('ball', Signals('x'), fall, discrete=Signals('n'), update=tick)\n"
        "    s = Scenario('s', until=1)\n"
        "    s.plant('a', m, step=0.1, update_period=0.1)\n"
        "    return s\n"
    )
    found = refused("run", path, "--no-record", "--plain")
    assert "ZeroDivisionError: division by zero" in found
    assert "mine.py:5 in tick" in found


def test_the_full_stack_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.py"
    path.write_text("1 / 0\n")
    monkeypatch.setenv("RTSIM_TRACEBACK", "1")
    result = rtsim("run", path)
    assert (result.exit_code, "Traceback" in result.stderr) == (2, True)


def test_an_error_of_rtsim_is_reported_as_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    from rtsim.cli import describe

    def broken() -> dict[str, str]:
        return dict([1])  # type: ignore[list-item]

    broken.__code__ = broken.__code__.replace(co_filename=describe.__file__)
    monkeypatch.setattr(describe, "known_scenarios", broken)
    found = refused("scenarios")
    assert found.startswith("internal error: TypeError: ")
    assert found.endswith("RTSIM_TRACEBACK=1 shows the full stack")


def test_report_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "folder" in refused("report", ".")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "orbit", "--no-record", "-o", "x.mcap"), "exclude each other"),
        (("run", "orbit", "--seed", "-1"), "--seed -1 is negative; give a whole number >= 0"),
        (("run", "orbit", "--until", "1e300"), "until"),
        (("run", "orbit", "--until", "inf"), "until"),
        (("run", "orbit", "--set", "moon.x=nan"), "moon.x = nan is not a number"),
        (("run", "flight.mcap"), "flight.mcap is a recording; type rtsim replay flight.mcap"),
        (("run", "mine"), "to run the file, type rtsim run mine.py"),
        (("messages", "x.mcap", "--limit", "-1"), "--limit -1"),
    ],
)
def test_arguments_that_cannot_be_meant(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    assert message in refused(*arguments)


def test_an_unknown_command_suggests_the_nearest() -> None:
    result = rtsim("reply", "x.mcap")
    assert (result.exit_code, "did you mean 'replay'?" in result.stderr) == (2, True)
    assert "Exit status: 0" in rtsim("--help").stdout


SLOW_START = (
    HEAD + "import os, signal\n"
    "def scenario():\n    os.kill(os.getpid(), signal.{0})\n    import time; return Scenario('x')\n"
)


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_before_the_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.py").write_text(SLOW_START.format(name))
    done = command(tmp_path, "run", "mine.py", "-o", "a.mcap")
    assert (done.returncode, done.stderr) == (130, "Error: interrupted before the run began\n")
    assert not (tmp_path / "a.mcap").exists()


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_in_the_run_completes_the_recording(tmp_path: Path, name: str) -> None:
    kill = LAW + f"    if t > 0.45: os.kill(os.getpid(), signal.{name})\n"
    (tmp_path / "mine.py").write_text("import os, signal\n" + HEAD + FALL + kill + END)
    done = command(tmp_path, "run", "mine.py", "-o", "a.mcap")
    assert (done.returncode, "interrupted" in done.stdout) == (130, True)
    assert rtsim("messages", tmp_path / "a.mcap", "--json").exit_code == 0
    assert json.loads(rtsim("messages", tmp_path / "a.mcap", "--json").stdout)["truncated"] is None


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_messages_of_a_recording_without_rows_are_an_error(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "a.mcap"
    with FileRecorder(path, ticking()) as recorder:
        recorder.track("messages/c", STAMPS, Signals("force"))
        recorder.start({})
        recorder.finish({"reason": "interrupted"})
    done = rtsim("messages", path, *options)
    assert done.exit_code == 2
    assert f"{path} contains no rows of the trace" in done.stderr
    if options:
        assert json.loads(done.stdout)["outcome"] == "undecided"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_nohup_is_heard(tmp_path: Path) -> None:
    kill = LAW + "    if t > 0.45: os.kill(os.getpid(), signal.SIGHUP)\n"
    ignored = "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    (tmp_path / "mine.py").write_text(ignored + HEAD + FALL + kill + END)
    done = command(tmp_path, "run", "mine.py", "-o", "a.mcap")
    assert done.returncode == 0, "the scenario ignored SIGHUP, as nohup does"


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which may be sent signals, also under nohup."""
    heard = "import signal, sys; hasattr(signal, 'SIGHUP') and signal.signal(1, signal.SIG_DFL)"
    program = f"{heard}; from rtsim.cli import main; main(sys.argv[1:])"
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


EXTREME = (
    "0", "-1", "1e-320", "1e-12", "1e308", "-1e308", "1e400", "inf", "nan", "9223372036854775808",
    "1" + 400 * "0", "1/0", "1e999999999", "", "x",
)  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "option",
    ["--pace {}", "--until {}", "--seed {}", "--checkpoint-every {}", "--checkpoint-at {}",
     "--pace=10 --overrun=slip:{}", "--pace=10 --overrun=freeze:{}", "--set=controller.gain={}",
     "--latency=fixed:{}", "--latency=uniform:0,{}", "--latency=gamma:2,{}"],
)  # fmt: skip
def test_extreme_numbers_are_no_internal_errors(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    until = [] if "until" in option else ["--until", "0.01"]
    numbers = [n for n in EXTREME if n or "freeze" not in option]  # freeze alone waits for 30 s
    for number in numbers:
        words = option.format(number).split(" ")
        run = ["run", "unstable", "--plain", "--no-record", *until, *words]
        done = CliRunner().invoke(main, run)
        assert done.exception is None or isinstance(done.exception, SystemExit), number
        assert "internal error" not in done.output, number
        assert "your code" not in done.output, number


def test_a_rate_that_no_clock_keeps_is_refused() -> None:
    done = CliRunner().invoke(main, ["run", "unstable", "--plain", "--pace", "1e-12"])
    assert done.exit_code == 2
    assert "rate 1e-12 is out of range; give a rate from 1e-06 to 1e+09" in done.stderr


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EMFILE, "Too many open files; close other programs, or raise the limit"),
     (errno.ENOSPC, "No space left on device; free some space on the disk")],
)  # fmt: skip
@pytest.mark.parametrize("path", [None, "/a/file"])
def test_a_lack_of_files_or_disk_is_neither_internal_nor_the_users_error(
    number: int, said: str, path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it happens while the user's file is loaded."""
    monkeypatch.chdir(tmp_path)
    raised = f"raise OSError({number}, {os.strerror(number)!r}, {path!r})\n"
    Path("mine.py").write_text(raised)
    loaded = CliRunner().invoke(main, ["run", "mine.py"])

    def lacking(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr("rtsim.record.file.start_writer", lacking)
    run = CliRunner().invoke(main, ["run", "unstable", "--plain", "-o", "a.mcap"])
    for done in (loaded, run):
        assert done.exit_code == 2
        assert said in done.stderr
        assert ("cannot use /a/file: " in done.stderr) is (path is not None)
        assert "internal error" not in done.stderr
        assert "your code" not in done.stderr
    assert not Path("a.mcap").exists(), "a recording that was not begun leaves no file"


def test_a_path_that_is_too_long_is_named_by_its_beginning() -> None:
    done = CliRunner().invoke(main, ["run", 100_000 * "s" + ".py"])
    assert done.exit_code == 2
    assert "File name too long" in done.stderr
    assert "(100003 characters)" in done.stderr
    assert "internal error" not in done.stderr
    assert len(done.stderr) < 1000


def test_a_file_in_place_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = ["study", "start", "unstable", "--factor", "plant.stiffness=norm:2,0.1", "--runs=4",
             "--until", "0.1", "--keep", "1.0", "--workers", "0", "-o", "s",
             "--result", "peak=max_abs:plant.x"]  # fmt: skip
    assert CliRunner().invoke(main, study).exit_code == 0
    for one in Path("s/recordings").iterdir():
        one.unlink()
    Path("s/recordings").rmdir()
    Path("s/recordings").touch()
    done = CliRunner().invoke(main, ["study", "resume", "s"])
    assert done.exit_code == 2
    assert "cannot use s/recordings: File exists" in done.output
    assert "internal error" not in done.output
