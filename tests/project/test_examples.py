"""The scenarios of docs/examples run as their gallery page says, and do what theory says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
GALLERY = (FOLDER / "README.md").read_text(encoding="utf-8")
LONGEST = 50
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def rtsim(*arguments: object) -> str:
    """Run a command in this process; return what it printed."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Recording:
    """The recording of ``rtsim run`` of the example whose number is in the test's name.

    Only the first example is compiled: compiling all of them takes 20 s on a machine that has never
    run them.
    """
    (number,) = re.findall(r"test_(\d\d)_", request.node.name)
    (example,) = FOLDER.glob(f"{number}_*.py")
    faults = example.with_suffix(".toml")
    more = ("--faults", faults) if number == "09" else ()
    how = () if number == "01" else ("--plain",)
    rtsim("run", example, "-o", tmp_path / "run.mcap", *more, *how)
    return Recording.open(tmp_path / "run.mcap")


def test_01_the_ball_falls_as_galileo_said(run: Recording) -> None:
    time = run.track("ball").ns / 1e9
    assert np.abs(run.track("ball").column("height") - (100 - 9.81 / 2 * time**2)).max() < 1e-9
    assert run["ball.height"][-1] == pytest.approx(21.52)


def test_02_each_sample_is_nine_tenths_of_the_sample_before(run: Recording) -> None:
    for k in range(51):
        assert run.at(f"{k}/50", "-")["cart.x"] == pytest.approx(0.9**k, rel=1e-12)


def test_03_the_cart_follows_commands_that_are_five_samples_old(run: Recording) -> None:
    x = [1.0] * 6
    while len(x) < 201:
        x.append(x[-1] - 0.1 * x[-6])
    assert [run.at(f"{k}/50", "-")["cart.x"] for k in range(201)] == pytest.approx(x, abs=1e-12)
    assert -0.2 < min(x) < -0.01


def test_03_the_oscillation_grows_with_a_latency_of_350_ms() -> None:
    late = load_scenario(str(FOLDER / "03_latency.py"), {"latency": "0.35"})
    x = trace_of(late, compile=False)["cart.x"]
    assert np.abs(x[len(x) // 2 :]).max() > np.abs(x[: len(x) // 2]).max()


def test_04_the_motor_settles(run: Recording) -> None:
    assert run["rotor.speed"][-1] == pytest.approx(60.0, rel=1e-3)
    assert run["coil.current"][-1] == pytest.approx(6.0, rel=1e-3)
    assert [len(np.unique(run.track(name).ns)) for name in ("coil", "rotor")] == [1001, 101]


def test_05_the_ball_comes_to_rest(run: Recording) -> None:
    first, last = run.events[0], run.events[-1]
    fall = math.sqrt(2 / 9.81)
    assert first.tag.ns / 1e9 == pytest.approx(fall, abs=2e-9)
    assert last.kind == "Stopped"
    assert last.tag.ns / 1e9 == pytest.approx(fall * 1.7 / 0.3, abs=1e-5)


def test_06_the_position_overshoots(run: Recording) -> None:
    overshoot = math.exp(-math.pi * 0.25 / math.sqrt(1 - 0.25**2))
    assert run["loop.motor"].max() == pytest.approx(1 + overshoot, abs=1e-4)
    assert overshoot == pytest.approx(0.44, abs=0.005)


def test_07_the_rate_has_its_standard_deviation(run: Recording) -> None:
    """1000 s hold some 500 independent values: the estimate is within 15 % almost surely."""
    example = str(FOLDER / "07_noise.py")

    def rates(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return trace_of(load_scenario(example), until=1000, seed=seed, compile=False)["boat.rate"]

    first = rates(1)
    assert first.std() == pytest.approx(0.2 / math.sqrt(2), rel=0.15)
    assert (rates(1) == first).all()
    assert (rates(2) != first).any()
    assert len(run["boat.rate"]) > 600


def test_08_each_customer_waits_for_the_customers_before(run: Recording) -> None:
    waited = run.messages["customers"]["waited"]
    came = run.track("messages/customers").ns / 1e9 - waited
    longer = np.maximum(0, waited[:-1] + 45 - np.diff(came))
    assert np.abs(waited[1:] - longer).max() < 1e-6
    assert len(waited) > 400


def test_09_the_oven_is_too_cold_during_the_fault(run: Recording) -> None:
    oven = {t: run.at(t, "-")["oven.temperature"] for t in (99, 199, 300)}
    assert oven == pytest.approx({99: 200, 199: 180, 300: 200}, abs=0.3)
    assert [e.tag.seconds for e in run.events] == [100.0, 200.0]


def test_10_the_motor_reaches_its_speed(run: Recording) -> None:
    assert run.at(1, "-")["motor.speed"] == pytest.approx(100, abs=1)
    assert run["motor.speed"][-1] == pytest.approx(-100, abs=1)


def test_11_a_command_waits_for_more_important_frames(run: Recording) -> None:
    """Worst case: two others and the command begin together (135, 135 and 132 bits)."""
    track = run.track("messages/driver")
    latency = track.integer("arrival") - track.integer("completed")
    assert latency.max() == (2 * 135 + 132) * 100_000
    assert latency.min() >= 132 * 100_000


def test_11_an_overloaded_bus_makes_the_loop_unstable() -> None:
    """A constant latency of pi / 10 s is the limit of stability of x' = -5 x."""
    example = load_scenario(str(FOLDER / "11_can_bus.py"), {"others": "4"})
    recording = trace_of(example, compile=False)
    track = recording.track("messages/driver")
    latency = track.integer("arrival") - track.integer("completed")
    assert latency[-1] > math.pi / 10 * 1e9
    assert np.abs(recording["cart.x"][-200:]).max() > 1.0


def test_10_the_c_does_what_its_reference_does() -> None:
    example = FOLDER / "10_controller_in_c.py"
    printed = rtsim("sil", "test", example, "-c", example.with_suffix(".toml"))
    assert "voltage" in printed


def test_there_are_eleven() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{k:02}" for k in range(1, 12)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_is_short_and_says_what_to_try(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert "\n\nTry next: " in text.split('"""')[1]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_gallery_shows_each(path: Path) -> None:
    assert f"]({path.name})" in GALLERY
    assert f"rtsim run docs/examples/{path.name}" in GALLERY
    assert f"](../pictures/examples/{path.stem}.svg)" in GALLERY
    assert (ROOT / f"docs/pictures/examples/{path.stem}.svg").is_file()


def test_the_gallery_names_files_that_are_there() -> None:
    named = set(re.findall(r"docs/examples/\S+\.\w+", GALLERY))
    assert len(named) >= len(EXAMPLES)
    assert not [name for name in named if not (ROOT / name).is_file()]
