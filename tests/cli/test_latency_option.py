"""``--latency`` on the command line: seconds, by name, from a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import rtsim

from rtsim.cli.run_options import parse_latencies
from rtsim.components.allowed_latency import latency_in_words
from rtsim.components.latency import Empirical
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.record.measured import MeasuredLatency
from rtsim.record.reading import Recording

MS = 1_000_000

# -- what is typed


def test_seconds_hold_for_all_controllers_or_for_a_named_controller() -> None:
    assert parse_latencies(["0.005"], ["a", "b"]) == {"a": "0.005", "b": "0.005"}
    assert parse_latencies(["a=0.005", "b=1/50"], ["a", "b"]) == {"a": "0.005", "b": "1/50"}
    assert parse_latencies([], ["a"]) == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["c=0.1"], "unknown controller 'c'"),
        (["0.1", "a=0.2"], "the latency of a is given twice"),
        (["much"], "'much' is not a number of seconds"),
        (["-0.1"], "negative"),
        (["a=from:"], "name of the recording is missing"),
        (["from:nowhere.mcap"], "nowhere.mcap"),
    ],
)
def test_wrong_latencies_are_refused(
    values: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RtsimError, match=text):
        parse_latencies(values, ["a", "b"])


def test_for_which_controller() -> None:
    with pytest.raises(
        ScenarioError, match=r"\(a, b\); give the name of one controller: --latency a=0.1"
    ):
        parse_latencies(["0.1"], ["a", "b"], of_all=False)


def test_a_latency_in_words() -> None:
    measured = Empirical.of([1], "law in live.mcap")
    assert latency_in_words(None) == latency_in_words({}) == "as declared"
    assert latency_in_words("1/50") == latency_in_words({"a": "1/50", "b": "1/50"}) == "1/50 s"
    assert latency_in_words({"a": 0.1, "b": measured}) == (
        "a: 0.1 s, b: measured: law in live.mcap"
    )


# -- on the command line


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's folder, with a recording of its C in real time."""
    folder = tmp_path_factory.mktemp("flown")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert rtsim("sil", "init").exit_code == 0
        told = rtsim(
            "sil", "run", "scenario.py", "-c", "motor.toml", "--until", "1.2", "--pace", "1.0",
            "--latency", "0.009", "-o", "live.mcap",
        )  # fmt: skip
        assert told.exit_code == 0, told.output
    return folder


@pytest.fixture
def folder(flown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("scenario.py", "motor.toml", "motor.c", "motor.h", "live.mcap"):
        (tmp_path / name).write_bytes((flown / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


SLOW = """
from rtsim import Model, PythonController, Scenario, Signals

def motion(t, x, z, u, p, dx):
    dx[0] = u[0]

def law(t, u, s, p, y):
    y[0] = -u[0]

def scenario():
    out = Scenario("cart", until=1)
    states, force = Signals("x [m] = 1"), Signals("force [m/s]")
    cart = Model(name="cart", states=states, inputs=force, derivative=motion)
    out.plant("cart", cart, step=0.1, inputs={"force": "brake.force"})
    brake = PythonController(law, inputs=Signals("x [m]"), outputs=force)
    out.controller("brake", brake, period=0.1, inputs={"x": "cart.x"})
    return out
"""


@pytest.mark.parametrize(
    ("latency", "noted"), [("0.3", True), ("0.1", False), ("gamma:2,0.3", False)]
)
def test_a_latency_beyond_the_period_is_noted(
    latency: str, noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(SLOW)
    done = rtsim("run", "cart.py", "--latency", latency, "--no-record", "--plain", "--json")
    assert done.exit_code == 0, done.output
    note = (
        "note: --latency is longer than a sample period (brake: 0.3 s exceeds the period of "
        "0.1 s), so ticks will be Missed; give a shorter latency\n"
    )
    assert (note in done.stderr) == noted
    assert done.stderr.count("note:") == noted
    json.loads(done.stdout)


@pytest.mark.realtime
def test_the_design_flies_with_latencies_measured_on_live_c(folder: Path) -> None:
    told = rtsim("run", "scenario.py", "--latency", "from:live.mcap", "-o", "desk.mcap")
    assert told.exit_code == 0, told.output
    assert "latency of controller: n " in told.output
    found = parse_latencies(["from:live.mcap"], ["controller"])["controller"]
    assert isinstance(found, MeasuredLatency)
    assert found.answers + found.late >= 115
    assert 0 < max(found.model.samples) <= 9 * MS * 2
    track = Recording.open("desk.mcap").track("messages/controller")
    took = track.integer("completed") - track.rows.ns
    assert set(took.tolist()) <= set(found.model.samples)
    assert len(set(took.tolist())) > 30
    (folder / "live.mcap").unlink()
    again = rtsim("replay", "desk.mcap")
    assert again.exit_code == 0, again.output
    assert "equal bit for bit" in again.output


@pytest.mark.realtime
def test_c_flies_with_measured_latencies_and_replays_without_its_source(folder: Path) -> None:
    told = rtsim(
        "sil", "run", "scenario.py", "-c", "motor.toml", "-o", "c.mcap", "--json",
        "--latency", "controller=from:live.mcap:controller",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["latency"]["controller"]["n"] >= 100
    for name in ("live.mcap", "motor.c", "motor.toml"):
        (folder / name).unlink()
    assert rtsim("replay", "c.mcap").exit_code == 0


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("cut", "text"),
    [(40, "no recording"), (2000, ""), (None, "of controller, but not of autopilot")],
)
def test_a_recording_without_the_latency_is_a_single_error(
    folder: Path, cut: int | None, text: str
) -> None:
    data = (folder / "live.mcap").read_bytes()
    (folder / "live.mcap").write_bytes(data if cut is None else data[:cut])
    which = "from:live.mcap" if cut else "from:live.mcap:autopilot"
    told = rtsim("run", "scenario.py", "--latency", which, "--no-record")
    assert told.exit_code == 2
    assert told.stderr.startswith("Error: ")
    assert told.stderr.count("\n") == 1
    assert text in told.stderr


@pytest.mark.realtime
def test_design_and_c_are_held_together_under_the_same_draws(folder: Path) -> None:
    told = rtsim(
        "sil", "test", "scenario.py", "-c", "motor.toml", "--latency", "from:live.mcap",
        "--abs", "0", "-o", "c.mcap", "--html", "page.html",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "latency of controller: n " in told.output
    assert "measured: controller in live.mcap" in (folder / "page.html").read_text()
    track = Recording.open("c.mcap").track("messages/controller")
    assert len(set((track.integer("completed") - track.rows.ns).tolist())) > 30
