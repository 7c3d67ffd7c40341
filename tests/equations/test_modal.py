"""Modal models: transitions, their actions, what they leave in a recording, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.compiling import compiled
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import Guard, Model
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario


def heats(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 2.0


@compiled
def cools(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -1.0


def above(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0] - p[0]  # type: ignore[no-any-return]


def below(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0]  # type: ignore[no-any-return]


def counts(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += 1.0


WARM = Transition("warm", above, "off", +1, counts)
COLD = Transition("cold", below, "on", -1, counts)


def heater(**other: Any) -> Model:
    """Up with 2/s to p[0], down with 1/s to 0."""
    given: dict[str, Any] = {
        "modes": (Mode("on", heats, (WARM,)), Mode("off", cools, (COLD,))),
        "discrete": Signals("switched"),
        "parameters": Signals("upper = 1"),
    }
    return modal("heater", Signals("warmth"), **(given | other))


def flown(model: Model, **how: Any) -> tuple[Recording, RunResult, Scenario]:
    scenario = Scenario("heater", until=4)
    scenario.plant("h", model, step=1, solver="dp54")
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome, scenario


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_modes_take_turns_and_are_named(compile: bool) -> None:
    recording, outcome, scenario = flown(heater(), compile=compile)
    told = [(e.tag.ns // 1_000_000, e.source, e.text) for e in recording.events]
    assert told == [
        (500, "h.warm", "on -> off"),
        (1500, "h.cold", "off -> on"),
        (2000, "h.warm", "on -> off"),
        (3000, "h.cold", "off -> on"),
        (3500, "h.warm", "on -> off"),
    ]
    assert outcome.system.plants[0].z.tolist() == [5.0, 1.0]
    assert recording.tracks["h"].signals["mode"].description == "0 on, 1 off"
    assert compare(recording, rerun(recording, scenario)).ok


def test_a_mode_without_a_derivative_stands_still() -> None:
    _, outcome, _ = flown(heater(modes=(Mode("on", heats, (WARM,)), Mode("off"))))
    assert outcome.system.plants[0].x[0] == pytest.approx(1.0, abs=1e-8)
    assert outcome.system.plants[0].z.tolist() == [1.0, 1.0]


@pytest.mark.rule("guards-after-writes")
def test_a_level_beyond_zero_as_its_mode_is_entered_fires_in_the_next_microstep() -> None:
    """From ``off`` it is cold at once, since cold is below 5 there; the mode ``on`` is another."""

    def far(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
        return x[0] - 5.0  # type: ignore[no-any-return]

    cold = Transition("cold", far, "done", -1)
    modes = (Mode("on", heats, (WARM,)), Mode("off", cools, (cold,)), Mode("done", heats))
    recording, outcome, _ = flown(heater(modes=modes))
    first, second = recording.events
    assert (first.text, second.text) == ("on -> off", "off -> done")
    assert (second.tag.ns, second.tag.step) == (first.tag.ns, first.tag.step + 1)
    assert outcome.system.plants[0].x[0] == pytest.approx(8.0)


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("first", ["leaves", "counts"])
def test_a_transition_of_a_mode_that_another_one_has_left_has_no_effect(
    first: str, compile: bool
) -> None:
    """Both happen at 1/2 s, in the order of their declaration."""
    both = {
        "leaves": Transition("leaves", above, "off", direction=1),
        "counts": Transition("counts", above, "on", direction=1, action=counts),
    }
    second = "counts" if first == "leaves" else "leaves"
    modes = [Mode("on", heats, (both[first], both[second])), Mode("off")]
    model = modal("switch", Signals("x"), modes, discrete=Signals("n"), parameters=Signals("p = 1"))
    scenario = Scenario("switch", until=1)
    scenario.plant("w", model, step="1/8")
    plant = simulate(scenario, compile=compile).system.plants[0]
    assert plant.z.tolist() == [0.0 if first == "leaves" else 1.0, 1.0]


def test_a_terminal_transition_ends_the_run() -> None:
    last = Transition("warm", above, "off", +1, terminal=True)
    _, outcome, _ = flown(heater(modes=(Mode("on", heats, (last,)), Mode("off"))))
    assert outcome.reason == "terminal"
    assert abs(outcome.ended.ns - 500_000_000) <= 1


def test_each_mode_may_have_its_own_output() -> None:
    def tells(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 10.0 + x[0]

    def silent(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 0.0

    modes = (Mode("on", heats, (WARM,), tells), Mode("off", cools, (COLD,), silent))
    recording, _, _ = flown(heater(modes=modes, outputs=Signals("told")))
    at = f"{recording.events[0].tag.ns / 1e9:.9f}"
    assert recording.at(at, "-")["h.told"] == pytest.approx(11.0)
    assert recording.at(at, "+")["h.told"] == 0.0
    with pytest.raises(ModelError, match="give one output for all modes, or one output for each"):
        heater(modes=(Mode("on", heats, (WARM,), tells), Mode("off")), outputs=Signals("told"))


def test_what_cannot_be_meant() -> None:
    with pytest.raises(ModelError, match="modes, each with another name, but got: on, on"):
        heater(modes=(Mode("on"), Mode("on")))
    with pytest.raises(UnknownName, match=r"unknown mode 'off'.*transition warm of heater"):
        heater(modes=(Mode("on", heats, (WARM,)),))
    with pytest.raises(ModelError, match="declares a discrete signal mode, but"):
        heater(discrete=Signals("mode"))
    with pytest.raises(UnknownName, match="unknown mode 'rest'"):
        heater(zeno="rest")
    with pytest.raises(ModelError, match="zeno='on' but no transitions"):
        heater(modes=(Mode("on"),), zeno="on")
    with pytest.raises(ModelError, match="two guards with the same name"):
        heater(modes=(Mode("on", heats, (WARM,)), Mode("off", cools, (WARM,))))


def silent(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] - 1.0


A_TRANSITION: Any = Transition
A_MODE: Any = Mode


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: A_TRANSITION("too low", below, "on"), "transition name 'too low' is not an ident"),
        (
            lambda: A_TRANSITION("low", below, -1),
            "to=-1 of transition low is not a text; give the name of a mode",
        ),
        (
            lambda: A_TRANSITION("low", below, "on", "down"),
            "transition low has direction 'down'; gi",
        ),
        (lambda: A_TRANSITION("low", silent, "on"), "level of transition low can end without a v"),
        (lambda: A_TRANSITION("low", 0.5, "on"), "level of transition low is 0.5; give a function"),
        (
            lambda: A_TRANSITION("low", heats, "on"),
            "level of transition low takes .* returns a num",
        ),
        (
            lambda: A_TRANSITION("low", below, "on", 1, heats),
            "action of transition low takes .* sets x and z in place",
        ),
        (lambda: A_MODE("on", heats, WARM), r"mode on needs a tuple .*write \(Transition\(…\),\)"),
        (
            lambda: A_MODE("on", below),
            "derivative of mode on takes .* but dx is missing. .* fills dx in place",
        ),
        (lambda: A_MODE("on", heats, (), below), "output of mode on takes"),
        (lambda: heater(modes=A_MODE("on")), r"heater needs a list of modes; write \[Mode"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(make: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


# -- a level that is beyond zero at the start


def falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -0.5


def rises(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def lower(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0] - p[0]  # type: ignore[no-any-return]


def upper(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0] - p[0] - 2.0  # type: ignore[no-any-return]


THERMOSTAT = modal(
    "thermostat",
    Signals("T [degC] = 20"),
    [
        Mode("off", falls, (Transition("cold", lower, "on", -1),)),
        Mode("on", rises, (Transition("warm", upper, "off", +1),)),
    ],
    parameters=Signals("set [degC] = 19"),
)


def thermostat(*at: tuple[Any, str, float], **plant: Any) -> Scenario:
    out = Scenario("thermostat", until=10)
    out.plant("room", THERMOSTAT, step=1, **plant)
    for change in at:
        out.at(*change)
    return out


def told(scenario: Scenario, **how: Any) -> list[tuple[int, int, str]]:
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, **how)
    events = [e for e in recorder.recording().events if e.kind == "Crossed"]
    return [(e.tag.ns // 1_000_000, e.tag.step, e.text) for e in events]


ON, OFF = "off -> on", "on -> off"


@pytest.mark.rule("guards-after-writes")
@pytest.mark.parametrize("how", [{"engine": "interpreted"}, {"engine": "compiled"}, {"compile": 0}])
@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"states": {"T": 18.0}}, [(0, 0, ON), (3000, 0, OFF), (7000, 0, ON), (9000, 0, OFF)]),
        ({"parameters": {"set": 25.0}}, [(0, 0, ON), (7000, 0, OFF)]),
        ({"states": {"T": 19.0}}, [(0, 0, ON), (2000, 0, OFF), (6000, 0, ON), (8000, 0, OFF)]),
        ({"states": {"T": 22.0}}, [(6000, 0, ON), (8000, 0, OFF)]),
    ],
    ids=["beyond by a state", "beyond by a parameter", "exactly at it", "not yet"],
)
def test_a_level_beyond_zero_at_the_start_fires_at_the_start(
    given: dict[str, Any], first: list[tuple[int, int, str]], how: dict[str, Any]
) -> None:
    found = told(thermostat(**given), **how)
    if given == {"states": {"T": 19.0}}:  # it leaves zero 1 ns later, and is late by as much
        assert [text for *_, text in found] == [text for *_, text in first]
        assert [ms for ms, *_ in found] == [0, 2000, 6000, 8000]
    else:
        assert found == first


FILE = """\
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.core.signals import Signals
from rtsim.scenario.scenario import Scenario

def falls(t, x, z, u, p, dx):
    dx[0] = -0.5

def rises(t, x, z, u, p, dx):
    dx[0] = 1.0

def lower(t, x, z, u, p):
    return x[0] - p[0]

def upper(t, x, z, u, p):
    return x[0] - p[0] - 2.0

def scenario():
    modes = [
        Mode("off", falls, (Transition("cold", lower, "on", -1),)),
        Mode("on", rises, (Transition("warm", upper, "off", +1),)),
    ]
    room = modal("room", Signals("T = 20"), modes, parameters=Signals("set = 19"))
    out = Scenario("thermostat", until=9.5)
    out.plant("room", room, step=1)
    return out
"""


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ((), [(2000, ON), (4000, OFF), (8000, ON)]),
        (("--set", "room.set=25"), [(0, ON), (7000, OFF)]),
        (("--set", "room.set=17"), [(6000, ON), (8000, OFF)]),
        (("--set", "room.T=18"), [(0, ON), (3000, OFF), (7000, ON), (9000, OFF)]),
    ],
    ids=["as declared", "raised beyond its start", "lowered", "a state below it"],
)
def test_a_level_that_the_command_line_moves(
    settings: tuple[str, ...],
    first: list[tuple[int, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thermostat.py").write_text(FILE, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "thermostat.py", "-o", "run.mcap", *settings])
    assert done.exit_code == 0, done.output
    events = [e for e in Recording.open(Path("run.mcap")).events if e.kind == "Crossed"]
    assert [(round(e.tag.ns / 1e6), e.text) for e in events] == first


@pytest.mark.parametrize(
    ("start", "at", "first"),
    [
        (20.0, (0, "room.set", 25.0), [(0, 0, ON)]),  # the change moves the level across zero
        (18.0, (0, "room.set", 10.0), []),  # it is no longer beyond zero as the run begins
        (26.0, (1, "room.set", 28.0), [(1000, 0, ON)]),
        (18.0, (1, "room.set", 10.0), [(0, 0, ON), (1000, 0, OFF)]),
    ],
)
def test_changes_at_0_s_come_before_what_fires_at_the_start(
    start: float, at: tuple[Any, str, float], first: list[tuple[int, int, str]]
) -> None:
    found = told(thermostat(at, states={"T": start}))
    assert [one for one in found if one[0] <= 1500] == first


def test_a_run_that_is_resumed_does_not_fire_at_its_start() -> None:
    """The mode ``on`` is kept; what was beyond zero at 0 s fired there."""
    scenario, ring = thermostat(states={"T": 18.0}), Ring(10)
    whole = told(scenario, checkpoints=CheckpointSchedule(ring, every="1/2"))
    for ms in (0, 500, 2500):
        kept = ring.before(ms * 1_000_000)
        if kept is not None:
            assert told(scenario, start=kept) == [e for e in whole if e[0] * 1_000_000 > kept.ns]
    assert told(scenario) == whole


def test_a_run_that_begins_again_fires_at_its_start_again() -> None:
    prepared = thermostat(states={"T": 18.0})
    assert told(prepared) == told(prepared)


def test_a_guard_that_fires_at_the_start_needs_a_direction() -> None:
    with pytest.raises(ModelError, match="direction"):
        Guard("g", at_start=True)
    assert Guard("g", -1, at_start=True).at_start


@pytest.mark.parametrize(("at_start", "count"), [(True, 1), (False, 0)])
def test_a_guard_of_a_plain_model_fires_at_the_start_only_if_it_says_so(
    at_start: bool, count: int
) -> None:
    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 19.0

    def counts(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[0] += 1.0

    model = Model(
        "plain", Signals("T = 18"), falls, discrete=Signals("n"), guard=level, reset=counts,
        guards=(Guard("cold", -1, at_start=at_start),),
    )  # fmt: skip
    scenario = Scenario("plain", until=1)
    scenario.plant("p", model, step="1/4")
    assert [ms for ms, *_ in told(scenario)] == [0] * count


def test_a_terminal_transition_that_is_beyond_zero_at_the_start_ends_the_run_there() -> None:
    modes = [Mode("on", falls, (Transition("cold", lower, "on", -1, terminal=True),))]
    model = modal("ends", Signals("T"), modes, parameters=Signals("set = 19"))
    scenario = Scenario("ends", until=5)
    scenario.plant("p", model, step="1/4")
    ended = simulate(scenario, recorder=MemoryRecorder()).ended
    assert ended is not None
    assert ended.ns == 0


@pytest.mark.rule("guards")
@pytest.mark.parametrize("solver", ["rk4", "dp54", "rodas5p"])
@pytest.mark.parametrize("step", ["1/10", "3/10"])
def test_a_transition_to_its_own_mode_happens_once(step: str, solver: str) -> None:
    """At a step of 1/10 s, 1 s is a grid point, at which the level is 0 to the last bit."""

    def decays(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -x[0]

    def due(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
        return t - 1.0

    def dose(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] += 1.0

    modes = [Mode("run", decays, (Transition("dose", due, "run", +1, dose),))]
    scenario = Scenario("dose", until=2)
    scenario.plant("p", modal("body", Signals("x"), modes), step=step, solver=solver)
    outcome = simulate(scenario, recorder=MemoryRecorder())
    assert outcome.system.plants[0].x[0] == pytest.approx(0.36788, abs=1e-4)
    assert len(told(scenario)) == 1
