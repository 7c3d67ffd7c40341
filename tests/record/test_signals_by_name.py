"""Signals of a run by name: one way for results and recordings, and for all that has a name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import rtsim as rt
from rtsim.cli.main import main
from rtsim.components.latency import Loss
from rtsim.core.errors import NotRecorded, RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.tag import START, Tag
from rtsim.discrete import Processes
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.result import RunResult
from rtsim.scenario.handles import RESULT_ATTRIBUTES

S = 10**9


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N")
    gust = rt.input("N")
    mass = rt.parameter("kg", 2)

    def derivative(self, d: Any) -> None:
        d.x = self.v
        d.v = (self.force + self.gust) / self.mass


class Brake(rt.Controller):
    x = rt.input("m")
    goal = rt.input("m")
    force = rt.output("N")
    gain = rt.parameter("N/m", 4)

    def step(self) -> None:
        self.force = self.gain * (self.goal - self.x)


class Stick:
    """An input device: 0.25 at first, and -0.5 from its 100th tag on."""

    def __init__(self) -> None:
        self.polls = 0

    def poll(self) -> Any:
        self.polls += 1
        return {1: np.array([0.25]), 100: np.array([-0.5])}.get(self.polls)


def named() -> tuple[rt.Scenario, Any, Any, Any]:
    """Return a scenario with a component of each kind, and three of its handles."""
    loop = rt.Scenario("cart", until=2)
    cart = loop.plant(Cart(), step=0.01)
    brake = loop.controller(Brake(), period=0.1, transport=0.02)
    wanted = loop.source("wanted", rt.Signals("x [m] = 0.5", Signal("turn", "1", shape=(2, 2))))
    loop.noise("air", rt.Signals("gust [N]"), deviation=0.01, period=0.05)
    loop.sensor("eye", {"place": "cart.x"}, period=0.25)
    loop.external_input("stick", rt.Signals("pitch"), Stick())
    loop.connect(cart.x, brake.x)
    loop.connect(wanted.x, brake.goal)
    loop.connect(brake.force, cart.force)
    loop.connect("air.gust", cart.gust)
    loop.at(1, wanted.x, 2.0)
    loop.at(1.5, wanted.turn, [[1.0, 2.0], [3.0, 4.0]])
    loop.at(1.25, cart.mass, 3.0)
    return loop, cart, brake, wanted


Run = RunResult | Recording


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The result of one run, its recording in memory, and the recording in a file."""
    path = tmp_path_factory.mktemp("run") / "run.mcap"
    rt.simulate(named()[0], compile=False, seed=3, recorder=FileRecorder(path))
    result = rt.simulate(named()[0], compile=False, seed=3)
    return {"result": result, "memory": result.recording(), "file": Recording.open(path)}


@pytest.mark.rule("read-by-name")
def test_a_result_and_a_recording_read_signals_in_one_way(runs: dict[str, Run]) -> None:
    _, cart, brake, wanted = named()
    result = runs["result"]
    assert np.all(np.diff(result.time) > 0)
    assert (result.time[0], result.time[-1]) == (0.0, 2.0)
    for run in runs.values():
        assert run.time.tolist() == result.time.tolist()
        assert run.time_ns.tolist() == np.rint(1e9 * result.time).astype(int).tolist()
        for name in (cart.x, brake.force, wanted.x, brake.goal, cart.mass, "air.gust", "eye.place"):
            owner, _, signal = name.partition(".")
            assert run[name].shape == run.time.shape, name
            assert run[name].tobytes() == result[str(name)].tobytes(), name
            assert getattr(getattr(run, owner), signal).tobytes() == run[name].tobytes(), name
            assert getattr(run, owner)[signal].tobytes() == run[name].tobytes(), name


def test_a_value_is_the_last_row_at_its_time(runs: dict[str, Run]) -> None:
    recording = runs["file"]
    assert isinstance(recording, Recording)
    track = recording.track("cart")
    last = np.r_[np.flatnonzero(np.diff(track.ns)), len(track) - 1]
    assert len(last) < len(track), "the brake moves the cart: some instants have two values"
    assert recording["cart.force"].tobytes() == track.column("force")[last].tobytes()
    sent = recording.messages["brake"]
    at = np.searchsorted(recording.time_ns, sent["arrival"][3])
    assert recording["brake.force"][at] == sent["force"][3] != recording["brake.force"][at - 1]


def test_a_source_and_a_parameter_have_their_value_until_it_changes(runs: dict[str, Run]) -> None:
    for run in runs.values():
        t = run.time
        assert run["wanted.x"].tolist() == np.where(t < 1, 0.5, 2.0).tolist()
        assert run["cart.mass"].tolist() == np.where(t < 1.25, 2.0, 3.0).tolist()
        assert run["brake.gain"].tolist() == [4.0] * len(t)
        assert run["wanted.turn"].shape == (len(t), 4)
        assert run["wanted.turn"][t >= 1.5][0].tolist() == [1.0, 2.0, 3.0, 4.0]
        assert run["wanted.turn_0_1"].tolist() == np.where(t < 1.5, 0.0, 2.0).tolist()


def test_an_input_of_a_controller_is_what_it_sampled(runs: dict[str, Run]) -> None:
    run = runs["file"]
    assert run["brake.x"].tobytes() == run["brake.inputs.x"].tobytes()
    ticks = np.searchsorted(run.time_ns, np.arange(21) * 100_000_000)
    assert run["brake.goal"][ticks].tolist() == [0.5] * 10 + [2.0] * 11
    assert run["brake.x"][ticks].tolist() == run["cart.x"][ticks].tolist()


def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 10.0 * t


def test_an_output_comes_before_an_input_of_the_same_name() -> None:
    loop = rt.Scenario("twins", until=0.3)
    loop.source("set", rt.Signals("x = 7"))
    both = rt.PythonController(law, rt.Signals("x"), rt.Signals("x"))
    loop.controller("c", both, period=0.1, inputs={"x": "set.x"})
    run = rt.simulate(loop, compile=False)
    assert run["c.x"].tolist() == [0.0, 1.0, 2.0, pytest.approx(3.0)]
    assert run["c.inputs.x"].tolist() == [7.0] * 4


def test_noise_and_external_inputs_have_the_values_that_were_read(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert run["air.gust"].tobytes() == run["cart.gust"].tobytes()
        assert len(np.unique(run["air.gust"])) > 30
        recording = run if isinstance(run, Recording) else run.recording()
        first, second = recording.track("inputs/stick").ns
        assert (first, second > S // 2) == (0, True)
        assert run["stick.pitch"].tolist() == np.where(run.time_ns < second, 0.25, -0.5).tolist()


def test_a_run_without_a_plant_is_read_by_name() -> None:
    def setup(a: Any) -> None:
        def work() -> Any:
            while True:
                yield a.timeout(1)
                a.write(made=a.now)

        a.process(work())

    out = rt.Scenario("shop", until=5)
    out.processes("shop", Processes(setup, outputs=rt.Signals("made")))
    run = rt.simulate(out)
    assert run.time.tolist() == [0, 1, 2, 3, 4, 5]
    assert run["shop.made"].tolist() == run.shop.made.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.to_pandas()["shop.made"].tolist() == [0, 1, 2, 3, 4, 5]
    (line,) = run.plot("shop.made").data
    assert line.y.tolist() == [1, 2, 3, 4, 5]


def test_a_table_without_names_has_all_that_others_can_read(runs: dict[str, Run]) -> None:
    wanted = [
        "cart.x", "cart.v", "cart.force", "cart.gust", "brake.force", "eye.place", "stick.pitch",
        "wanted.x", *(f"wanted.turn_{i}_{j}" for i in (0, 1) for j in (0, 1)), "air.gust",
    ]  # fmt: skip
    for run in runs.values():
        assert list(run.table().columns) == wanted
        assert run.table().time.tolist() == run.time.tolist()
        assert run.to_pandas()["wanted.x"].iloc[-1] == 2.0
    assert runs["file"].table().units["wanted.x"] == runs["file"].table().units["eye.place"] == "m"


def test_names_patterns_and_handles_choose_signals(runs: dict[str, Run]) -> None:
    _, cart, brake, wanted = named()
    for run in runs.values():
        assert list(run.table(cart).columns) == list(run.table("cart").columns)
        assert list(run.table(wanted.x, cart.x, brake).columns) == [
            "cart.x", "brake.force", "wanted.x",
        ]  # fmt: skip
        assert list(run.table("*.x").columns) == ["cart.x", "brake.inputs.x", "wanted.x"]
        assert list(run.table(brake.x, brake.gain, "brake.inputs.x").columns) == [
            "brake.x", "brake.inputs.x", "brake.gain",
        ]  # fmt: skip
        with pytest.raises(ScenarioError, match=r"3\.5 is not the name of a signal"):
            run.table(3.5)


def test_a_source_alone_has_the_times_of_the_run(runs: dict[str, Run]) -> None:
    table = runs["file"].table("wanted.x")
    assert table.time.tolist() == runs["file"].time.tolist()
    at = runs["file"].table("wanted.x", span=(1, 1), side="minus")
    assert at["wanted.x"].tolist() == [0.5], "before the change at 1 s"
    assert runs["file"].table("wanted.x", span=(1, 1))["wanted.x"].tolist() == [2.0]


def test_a_message_on_its_way_at_the_end_has_no_value() -> None:
    loop = rt.Scenario("late", until=0.25)
    loop.controller("c", rt.PythonController(law, rt.Signals(), rt.Signals("y")), period=0.1,
                    transport=0.12)  # fmt: skip
    run = rt.simulate(loop, compile=False)
    assert len(run.messages["c"]) == 3
    assert run.time.tolist() == [0, 0.12, 0.22, 0.25]
    assert run["c.y"].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_lost_messages_leave_no_time_and_the_initial_value() -> None:
    loop = rt.Scenario("lost", until=0.25)
    loop.controller("c", rt.PythonController(law, rt.Signals(), rt.Signals("y")), period=0.1,
                    transport=Loss(rt.Fixed(0.0), 1.0))  # fmt: skip
    run = rt.simulate(loop, compile=False)
    assert run.time.tolist() == [0, 0.25]
    assert run["c.y"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda run: run["crat.x"], "did you mean cart.x"),
        (
            lambda run: run["cart.sped"],
            r"unknown signal 'cart.sped' in .*did you mean cart.x, cart.v",
        ),
        (lambda run: run["cart"], "did you mean cart"),
        (lambda run: run["*.x"], "unknown signal"),
        (lambda run: run["messages/brake.force"], "did you mean brake.force"),
        (lambda run: run[0], "0 is not the name of a signal"),
    ],
)
def test_a_wrong_name_shows_its_neighbours(
    runs: dict[str, Run], read: Callable[[Run], Any], says: str
) -> None:
    for run in runs.values():
        with pytest.raises(ScenarioError, match=says):
            read(run)


def test_a_wrong_attribute_shows_its_neighbours(runs: dict[str, Run]) -> None:
    for run in runs.values():
        with pytest.raises(AttributeError, match=r"unknown component 'crat'.*did you mean cart"):
            _ = run.crat
        with pytest.raises(AttributeError, match="did you mean table"):
            _ = run.tabel
        with pytest.raises(
            AttributeError, match=r"unknown signal 'cart.forse'.*did you mean cart.force"
        ):
            _ = run.cart.forse
        assert not hasattr(run, "_repr_png_")
        assert not hasattr(run, "__array__")


def test_notebooks_complete_components_and_signals(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert {"cart", "brake", "wanted", "air", "eye", "stick", "time", "plot"} <= set(dir(run))
        assert dir(run.cart) == ["force", "gust", "mass", "v", "x"]
        assert dir(run.brake) == ["force", "gain", "goal", "x"]
        assert repr(run.cart) == "<signals of cart: x, v, force, gust, mass>"
        assert "cart.mass" in run
        assert "cart.q" not in run


def test_a_run_that_was_not_recorded_has_no_signals() -> None:
    run = rt.simulate(named()[0], compile=False, record=False)
    with pytest.raises(RecordingError, match="leave out record=False"):
        run["cart.x"]
    with pytest.raises(AttributeError, match="leave out record=False"):
        _ = run.cart
    assert not hasattr(run, "_repr_png_")
    assert "time" in dir(run)


def test_a_component_with_the_name_of_an_attribute_is_read_by_index() -> None:
    loop = rt.Scenario("hidden", until=0.1)
    with pytest.warns(UserWarning, match=r"read its signals as run\['table.SIGNAL'\]") as caught:
        loop.source("table", rt.Signals("x = 2"))
    assert Path(caught[0].filename) == Path(__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cart = loop.plant("car", Cart(), step=0.05, inputs={"force": "table.x", "gust": 0})
    run = rt.simulate(loop, compile=False)
    assert run["table.x"].tolist() == [2.0] * 3 == run[cart.force].tolist()
    assert list(run.table("table").columns) == ["table.x"]


def test_each_public_attribute_of_results_is_known_to_declarations() -> None:
    found: set[str] = set()
    for kind in (RunResult, Recording):
        found |= {n for n in (*dir(kind), *kind.__dataclass_fields__) if not n.startswith("_")}
    assert found == RESULT_ATTRIBUTES


def test_a_part_of_a_recording_keeps_the_values_of_earlier_changes(runs: dict[str, Run]) -> None:
    whole = runs["file"]
    assert isinstance(whole, Recording)
    late = whole.between(1.1, 1.4)
    assert late.time[0] == pytest.approx(1.1)
    assert late["wanted.x"].tolist() == [2.0] * len(late.time)
    assert late["cart.mass"].tolist() == np.where(late.time < 1.25, 2.0, 3.0).tolist()
    assert [e.source for e in late.events if e.kind == "Change"] == ["cart.mass"]
    early = whole.up_to(S // 2)
    assert early["wanted.x"].tolist() == [0.5] * len(early.time)
    rest = late.since({"cart": 0}, len(whole.events))
    assert set(rest["wanted.x"].tolist()) == {2.0}


def test_a_continued_run_begins_with_the_values_of_its_checkpoint() -> None:
    loop = rt.Scenario("cart", until=2)
    cart = loop.plant(Cart(), step=0.1, inputs={"gust": 0})
    wanted = loop.source("wanted", rt.Signals("x [N] = 0.5"))
    loop.connect(wanted.x, cart.force)
    loop.at(0.5, wanted.x, 2.0)
    loop.at(0.75, cart.mass, 3.0)
    loop.at(1.5, wanted.x, 4.0)
    ring = Ring(1)
    whole = rt.simulate(loop, compile=False, checkpoints=CheckpointSchedule(ring, at=["1"]))
    start = ring.before(2 * S)
    assert start is not None
    rest = rt.simulate(loop, compile=False, start=start)
    assert rest.began == Tag(S) != START
    shared = np.isin(whole.time_ns, rest.time_ns)
    assert shared.sum() == len(rest.time) > 5
    for name in ("wanted.x", "cart.mass", "cart.force"):
        assert rest[name].tolist() == whole[name][shared].tolist(), name
    assert set(rest["wanted.x"].tolist()) == {2.0, 4.0}


def test_plots_take_names_and_draw_what_is_held_as_stairs(runs: dict[str, Run]) -> None:
    _, cart, brake, wanted = named()
    figure = runs["result"].plot(cart.x, brake, "*.force", wanted.x)
    drawn = {line.name: (line.yaxis, line.line.shape) for line in figure.data}
    assert drawn == {
        "cart.x": ("y", "linear"),
        "cart.force": ("y2", "linear"),
        "brake.force": ("y2", "hv"),
        "wanted.x": ("y", "hv"),
    }


def test_sources_change_no_digest(runs: dict[str, Run]) -> None:
    """The values of sources and parameters are no rows: the tracks are those of the components."""
    recording = runs["memory"]
    assert isinstance(recording, Recording)
    assert set(recording.tracks) == {
        "cart", "messages/brake", "messages/brake.inputs", "messages/eye", "inputs/stick",
    }  # fmt: skip


def test_an_export_has_sources_and_controllers(tmp_path: Path) -> None:
    path, out = tmp_path / "run.mcap", tmp_path / "run.csv"
    rt.simulate(named()[0], compile=False, recorder=FileRecorder(path))
    done = CliRunner().invoke(main, ["export", str(path), "-o", str(out)])
    assert done.exit_code == 0, done.output
    head = out.read_text().splitlines()[0].split(",")
    assert {"brake.force [N]", "wanted.x [m]", "eye.place [m]", "air.gust [N]"} <= set(head)
    some = ["export", str(path), "-o", str(out), "--force", "-s", "wanted.x", "-s", "cart.mass"]
    done = CliRunner().invoke(main, some)
    assert done.exit_code == 0, done.output
    lines = out.read_text().splitlines()
    assert lines[0] == "time [s],time_ns,cart.mass [kg],wanted.x [m]"
    assert lines[-1] == "2.0,2000000000,3.0,2.0"


def test_a_result_and_a_recording_write_the_same_file(runs: dict[str, Run], tmp_path: Path) -> None:
    for name, run in runs.items():
        run.export(tmp_path / f"{name}.csv", "cart.x", rate=10.0)
    first, *others = [(tmp_path / f"{name}.csv").read_text() for name in runs]
    assert first.splitlines()[0] == "time [s],time_ns,cart.x [m]"
    assert others
    assert all(text == first for text in others)
    with pytest.raises(UnknownName, match="unknown export format 'xls'"):
        run.export(tmp_path / "run.xls")


def test_a_recording_of_an_older_version_has_sources_as_they_were_read(
    runs: dict[str, Run],
) -> None:
    new = runs["file"]
    assert isinstance(new, Recording)
    header = {key: value for key, value in new.header.items() if key != "changeable"}
    old = Recording(new.source, header, new.footer, new.tracks, new.events)
    assert old["wanted.x"].tobytes() == new["brake.goal"].tobytes()
    with pytest.raises(UnknownName, match="mass"):
        old["cart.mass"]


def test_noise_has_the_values_of_the_plant_that_reads_it_first() -> None:
    loop = rt.Scenario("read", until=0.2)
    cart = loop.plant(Cart(), step=0.01, inputs={"force": 0})
    loop.noise("air", rt.Signals("gust [N]"), deviation=0.01, period=0.02)
    loop.sensor("slow", {"heard": "air.gust"}, period=0.1)
    loop.connect("air.gust", cart.gust)
    run = rt.simulate(loop, compile=False)
    assert len(np.unique(run["air.gust"])) == 11
    table = run.table()
    assert table["air.gust"].tobytes() == table["cart.gust"].tobytes()
    assert list(table.columns).count("air.gust") == 1


engines = pytest.mark.parametrize("engine", ["interpreted", "compiled"])


class Sender(rt.Controller, compile=True):
    """Sends its step number; what it counts in is not recorded."""

    count = rt.memory("1", name="count")
    u = rt.input("1", optional=True)
    y = rt.output("1", initial=-7)

    def step(self) -> None:
        self.count += 1
        self.y = self.count


def sending(transport: float = 0.25, **faults: Any) -> rt.Scenario:
    """Return a cart that is pushed by a controller with late messages, and by noise."""
    loop = rt.Scenario("cart", until=3)
    cart = loop.plant(Cart(), step=0.01)
    sender = loop.controller(Sender(), period=0.1, transport=transport)
    loop.noise("air", rt.Signals("gust [N]"), deviation=0.01, period=0.05)
    loop.connect("air.gust", cart.gust)
    loop.connect(sender.y, cart.force)
    if faults:
        loop.faults({"name": "off", "kind": "offset", "amount": 100.0, **faults})
    return loop


@pytest.mark.rule("held-before-arrival")
@engines
def test_a_result_and_a_run_in_steps_agree_before_the_first_message(engine: str) -> None:
    run = rt.simulate(sending(), engine=engine)
    assert run["sender.y"][[0, 24]].tolist() == [-7.0, -7.0]
    assert run["cart.force"][[0, 24, 25]].tolist() == [-7.0, -7.0, 1.0]
    first = np.flatnonzero(run["sender.y"] != -7.0)[0]
    assert run.time[first] == 0.25
    assert run.table("sender.y", rate=10.0)["sender.y"].tolist()[:2] == [1.0, 2.0]
    table = run.table("sender.y", "cart.x")
    assert table["sender.y"].tobytes() == run["sender.y"].tobytes()
    with rt.Simulation(sending(), engine=engine) as s:
        assert s["sender.y"] == run["sender.y"][0]
        s.advance(0.2)
        assert s["sender.y"] == -7.0
        s.advance(0.1)
        assert s["sender.y"] == 1.0


def test_a_part_of_a_recording_does_not_know_what_came_before_it() -> None:
    recording = rt.simulate(sending()).recording()
    assert np.isnan(recording.between(0.1, 0.3)["sender.y"]).any()
    assert not np.isnan(recording.between(0, 0.3)["sender.y"]).any()
    assert not np.isnan(recording.up_to(S // 5)["sender.y"]).any()
    assert np.isnan(recording.since({"cart": 1})["sender.y"][0])


@pytest.mark.parametrize("where", ["air.gust", "cart.gust"])
@pytest.mark.rule("read-by-name")
def test_a_signal_is_what_its_component_gave_and_an_input_what_was_read(
    where: str, tmp_path: Path
) -> None:
    """Also of noise, whose values are recorded only if a fault changes what others read."""
    path = tmp_path / "run.mcap"
    plain = rt.simulate(sending(), seed=4)
    rt.simulate(sending(where=where), seed=4, recorder=FileRecorder(path))
    run = rt.simulate(sending(where=where), seed=4)
    assert "values/air" not in plain.recording().tracks
    for one in (run, run.recording(), Recording.open(path)):
        same = np.isin(one.time_ns, plain.time_ns)
        assert one["air.gust"][same].tolist() == plain["air.gust"].tolist()
        assert one["cart.gust"].tolist() == pytest.approx((one["air.gust"] + 100.0).tolist())
        table = one.table()
        assert table["air.gust"].tobytes() == one["air.gust"].tobytes()
        assert list(table.columns).count("air.gust") == 1
    recording = Recording.open(path)
    assert compare_exact(recording, rerun(recording, sending(where=where))) is None


def test_a_source_with_a_fault_has_its_own_value() -> None:
    loop = rt.Scenario("cart", until=1)
    cart = loop.plant(Cart(), step=0.01, inputs={"gust": 0})
    wanted = loop.source("wanted", rt.Signals("force [N] = 1"))
    loop.connect(wanted.force, cart.force)
    loop.faults({"name": "off", "kind": "offset", "amount": 100.0, "where": "wanted.force"})
    run = rt.simulate(loop)
    assert set(run["wanted.force"]) == {1.0}
    assert set(run["cart.force"][1:]) == {101.0}


def test_a_run_of_sources_has_the_times_of_its_changes() -> None:
    loop = rt.Scenario("sources", until=3)
    wanted = loop.source("wanted", rt.Signals("x [m] = 0.5"))
    loop.at(1, wanted.x, 2.0)
    run = rt.simulate(loop)
    for one in (run, run.recording()):
        assert one.time.tolist() == [0, 1, 3]
        assert one["wanted.x"].tolist() == [0.5, 2.0, 2.0]
        assert one.table()["wanted.x"].tolist() == [0.5, 2.0, 2.0]
        assert one.table("wanted.x").time.tolist() == [0, 1, 3]
    assert run.recording().between(0.5, 2).time.tolist() == [0.5, 1, 2]


def test_a_run_of_a_controller_has_the_times_from_its_begin_to_its_end() -> None:
    loop = rt.Scenario("alone", until=0.45)
    wanted = loop.source("wanted", rt.Signals("x = 0.5"))
    sender = loop.controller(Sender(), period=0.2, transport=0.1)
    loop.connect(wanted.x, sender.u)
    loop.at(0.25, wanted.x, 2.0)
    run = rt.simulate(loop)
    assert run.time.tolist() == [0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.45]
    assert run["sender.y"].tolist() == [-7, 1, 1, 1, 2, 2, 2]
    assert run["sender.u"].tolist() == [0.5, 0.5, 0.5, 0.5, 0.5, 2.0, 2.0]
    assert run.table().time.tolist() == run.time.tolist()


def test_memory_of_a_controller_says_how_to_show_it(tmp_path: Path) -> None:
    says = (
        r"sender.count is memory of a controller.*declare an output, such as shown = "
        r"rtsim.output\('1'\), and assign it in step: self.shown = self.count"
    )
    path = tmp_path / "run.mcap"
    run = rt.simulate(sending(), recorder=FileRecorder(path))
    reads: list[Callable[[], object]] = [
        lambda: run["sender.count"],
        lambda: run.recording()["sender.count"],
        lambda: Recording.open(path).table("sender.count"),
        lambda: run.final("sender.count"),
        lambda: rt.Simulation(sending())["sender.count"],
    ]
    for read in reads:
        with pytest.raises(NotRecorded, match=says):
            read()
    with pytest.raises(AttributeError, match="declare an output"):
        _ = run.sender.count


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cart.mass", r"cart.mass is a parameter.*use result\['cart.mass'\]\[-1\]"),
        ("sender.u", r"sender.u is an input of a controller.*use result\['sender.u'\]\[-1\]"),
        ("cart.mas", r"unknown signal 'mas' in cart"),
        ("crat.x", "did you mean cart"),
    ],
)
def test_a_last_value_that_final_does_not_have_says_where_it_is(name: str, says: str) -> None:
    run = rt.simulate(sending())
    with pytest.raises(UnknownName, match=says):
        run.final(name)
    assert run["cart.mass"][-1] == 2.0
