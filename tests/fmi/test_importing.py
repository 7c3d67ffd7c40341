"""FMUs as plants: values, events, checkpoints, and what an FMU can do wrong."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
import pytest
from fmu_parts import HERE2, HERE3, LINUX, binary, description, folder, packed, tank

import rtsim as rt
from rtsim.core.cache import cache_folder
from rtsim.core.errors import CheckpointError, ModelError, ScenarioError, UnknownName
from rtsim.fmi import Fmu
from rtsim.fmi.instance import FmuInstance
from rtsim.fmi.reading import Description
from rtsim.linear import linearise
from rtsim.runs import prepare
from rtsim.testing import trace_of

pytestmark = [
    pytest.mark.system("gcc"),
    pytest.mark.skipif(not LINUX, reason="the tests compile FMUs for Linux"),
]
CS, ME = "co-simulation", "model-exchange"


class Filling(rt.Controller):
    """Fills the tank until the level is 3 m."""

    y = rt.input("m")
    flow = rt.output("m/s", initial=2.0)

    def step(self) -> None:
        self.flow = 2.0 * (3.0 - self.y)


def filled(fmu: Fmu, until: float = 1.0, **options: Any) -> rt.Scenario:
    """Return a loop of the tank and its controller, whose messages arrive between two steps."""
    loop = rt.Scenario("filled", until=until)
    loop.plant("tank", fmu, step=0.01, inputs={"inflow": "filling.flow"}, **options)
    loop.controller("filling", Filling(), period=0.1, inputs={"y": "tank.out_y"}, transport=0.013)
    return loop


def plain(fmu: Fmu, until: float = 1.0, flow: float = 2.0, **options: Any) -> rt.Scenario:
    out = rt.Scenario("plain", until=until)
    out.plant("tank", fmu, step=0.01, inputs={"inflow": flow}, **options)
    return out


def exact(t: Any, k: float = 0.5, flow: float = 2.0, first: float = 1.0) -> Any:
    return flow / k + (first - flow / k) * np.exp(-k * t)


@pytest.mark.parametrize("fmi", [2, 3])
def test_signals_have_the_names_units_types_and_starts_of_the_variables(fmi: int) -> None:
    model = Fmu(tank(fmi)).model()
    assert model.inputs["inflow"].unit == "m/s"
    assert model.inputs["valve"].type == "bool"
    assert model.inputs["valve"].initial == 1.0
    assert model.outputs.names == ("out_y", "count", "timed", "from_file")
    assert model.parameters["k"].low == 0.0
    assert model.parameters["mode"].initial == 1.0
    if fmi == 3:
        assert model.parameters["factors"].shape == (3,)
    assert "table" not in model.parameters, "a text is no number"


@pytest.mark.parametrize("fmi", [2, 3])
def test_co_simulation_equals_fmpy(fmi: int) -> None:
    run = rt.simulate(plain(Fmu(tank(fmi), in_process=True)))
    start = {"inflow": 2.0}
    theirs = fmpy.simulate_fmu(
        str(tank(fmi)), stop_time=1.0, output_interval=0.01, start_values=start,
        fmi_type="CoSimulation", output=["out.y", "count", "timed"],
    )  # fmt: skip
    assert run["tank.out_y"] == pytest.approx(theirs["out.y"], rel=1e-13, abs=0)
    assert (run["tank.count"] == theirs["count"]).all()
    assert run["tank.count"][-1] == 1
    assert (run["tank.timed"] == theirs["timed"]).all()


@pytest.mark.parametrize("fmi", [2, 3])
def test_model_exchange_has_its_events_at_the_exact_times(fmi: int) -> None:
    run = rt.simulate(plain(Fmu(tank(fmi), kind=ME, in_process=True), solver="dp54"))
    assert run["tank.level"] == pytest.approx(exact(run.time), abs=1e-7)
    crossing = -math.log((2 - 4) / (1 - 4)) / 0.5
    (event,) = run.events
    assert event.tag.ns / 1e9 == pytest.approx(crossing, abs=1e-9)
    assert run["tank.count"][-1] == 1
    timed = run["tank.timed"]
    assert run.time[int(np.argmax(timed))] == 0.5, "the time event is a tag of its own"
    assert run["tank.events"][-1] == 2


@pytest.mark.parametrize("fmi", [2, 3])
def test_a_model_exchange_is_initialised_once(fmi: int, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Any] = []
    start = FmuInstance.start

    def noted(one: FmuInstance, numbers: Any) -> Any:
        starts.append(numbers)
        return start(one, numbers)

    monkeypatch.setattr(FmuInstance, "start", noted)
    rt.simulate(plain(Fmu(tank(fmi), kind=ME, in_process=True), until=0.3, solver="dp54"))
    assert [list(numbers[-3:-1]) for numbers in starts] == [[1.0, 2.0]]  # level and inflow


def test_an_event_that_moves_its_own_indicator_back_happens_once() -> None:
    drained = Fmu(tank(2, "DRAIN"), kind=ME, in_process=True)
    run = rt.simulate(plain(drained, until=3.0, solver="dp54"))
    period = 2 * math.log(3 / 2)
    times = [event.tag.ns / 1e9 for event in run.events]
    assert times == pytest.approx([period, 2 * period, 3 * period], abs=1e-8)
    assert run["tank.count"][-1] == 3


def test_a_look_between_two_steps_changes_nothing() -> None:
    def loop() -> rt.Scenario:
        return filled(Fmu(tank(2), in_process=True))

    whole = trace_of(loop())
    with rt.Simulation(loop()) as stepped:
        stepped.advance(0.405)
        between = stepped["tank.out_y"]
        stepped.advance(until=1)
        assert stepped.result().recording().digest() == whole.digest()
    alone = loop()
    alone.until_ns = 405_000_000
    assert rt.simulate(alone)["tank.out_y"][-1] == between


def test_in_real_time_a_discarded_step_is_undone_and_without_states_none_is_taken() -> None:
    levels = []
    for saves in (True, False):
        system = plain(Fmu(tank(2, saves=saves), in_process=True)).build()
        (plant,) = system.plants
        plant.begin_run(lambda: None, paced=True)
        for limit in (10_000_000, 20_000_000):
            plant.propagate(10**9)
            plant.discard()
            plant.propagate(limit - 4_000_000)
            plant.commit()
            plant.propagate(10**9)
            plant.commit()
            assert plant.ns == limit
        levels.append(float(plant.y[0]))
        system.close()
    assert levels[0] == levels[1] == pytest.approx(exact(0.02), rel=1e-4)


@pytest.mark.parametrize(("fmi", "kind"), [(2, CS), (3, ME)])
def test_a_process_of_its_own_gives_the_same_bits(fmi: int, kind: str) -> None:
    one, other = (trace_of(filled(Fmu(tank(fmi), kind=kind, in_process=w))) for w in (True, False))
    assert one.digest() == other.digest()


@pytest.mark.parametrize("kind", [CS, ME])
def test_a_text_an_item_an_array_and_a_start_value_are_set(kind: str) -> None:
    given = {"table": "flow.csv", "mode": "Double", "factors": [1, 2, 3]}
    fmu = Fmu(tank(3), kind=kind, parameters=given, in_process=True)
    own: dict[str, Any] = (
        {"states": {"level": 0.25}} if kind == ME else {"parameters": {"level": 0.25}}
    )
    run = rt.simulate(plain(fmu, until=0.1, **own))
    assert run["tank.out_y"][0] == pytest.approx(0.25 * 2 * 6)
    assert run["tank.from_file"][0] == 1.0
    with pytest.raises(UnknownName, match=r"unknown item 'Triple'.*Double"):
        Fmu(tank(3), parameters={"mode": "Triple"})
    with pytest.raises(UnknownName, match=r"unknown variable 'levl'.*level"):
        Fmu(tank(3), parameters={"levl": 1.0})


@pytest.mark.parametrize("kind", [CS, ME])
def test_a_tunable_parameter_changes_in_the_run_and_a_fixed_one_does_not(kind: str) -> None:
    loop = plain(Fmu(tank(2), kind=kind, in_process=True), flow=0.0, until=2)
    loop.at(1, "tank.k", 0.0)
    y = rt.simulate(loop)["tank.out_y"]
    assert y[100] == pytest.approx(math.exp(-0.5), rel=1e-3)
    assert y[-1] == y[100]
    with pytest.raises(ScenarioError, match="mode"):
        loop.at(1, "tank.mode", 2)


@pytest.mark.parametrize("kind", [CS, ME])
def test_a_discrete_input_of_an_fmu_acts_at_its_tag(kind: str) -> None:
    loop = rt.Scenario("valve", until=1)
    loop.source("hand", rt.Signals("open [1] = 1"))
    inputs: dict[str, Any] = {"inflow": 2.0, "valve": "hand.open"}
    loop.plant("tank", Fmu(tank(3), kind=kind, in_process=True), step=0.01, inputs=inputs)
    loop.at(0.255, "hand.open", 0.0)
    y = rt.simulate(loop)["tank.out_y"]
    assert y[-1] == pytest.approx(exact(0.255) * math.exp(-0.5 * 0.745), rel=2e-3)


@pytest.mark.parametrize("kind", [CS, ME])
@pytest.mark.parametrize("fmi", [2, 3])
def test_a_run_returns_to_an_earlier_state(fmi: int, kind: str) -> None:
    whole = trace_of(filled(Fmu(tank(fmi), kind=kind, in_process=True)))
    with rt.Simulation(filled(Fmu(tank(fmi), kind=kind, in_process=True))) as stepped:
        stepped.advance(0.3)
        kept = stepped.save()
        stepped.advance(0.4)
        stepped.restore(kept)
        stepped.advance(0.7)
        result = stepped.result()
    for name in ("tank.out_y", "tank.count", "filling.flow"):
        ours, theirs = result.recording()[name], whole[name]
        assert ours[-70:].tolist() == theirs[-70:].tolist()


def test_prepared_runs_reset_the_fmu_and_equal_new_runs() -> None:
    prepared = prepare(filled(Fmu(tank(2))))
    assert prepared.rebuilt == ()
    for k in (0.5, 2.0, 0.5):
        new = filled(Fmu(tank(2), in_process=True))
        new.set("tank.k", k)
        again = prepared.run(set={"tank.k": k})
        assert again.recording().digest() == trace_of(new).digest()


def test_without_saved_states_the_step_is_computed_at_its_tag_and_named() -> None:
    without = Fmu(tank(2, saves=False), in_process=True)
    assert "canGetAndSetFMUstate" in without.interface.limits[0]
    assert trace_of(filled(without)).digest()
    with pytest.raises(CheckpointError, match=r"plant tank: tank cannot save its state"):
        rt.Simulation(filled(without)).save()


def test_an_fmu_with_one_step_length_takes_inputs_at_its_steps() -> None:
    fixed = Fmu(tank(2, variable=False), in_process=True)
    assert "canHandleVariableCommunicationStepSize" in fixed.interface.limits[-1]
    y = rt.simulate(filled(fixed))["tank.out_y"]
    assert y[0] == 1.0


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("CRASH", r"tank \(tank\) crashed in the operation step: .* SIGSEGV"),
        ("HANG", r"did not finish the operation step within 0\.5 s"),
        ("DISCARD", r"fmi2DoStep returned Discard.* up to 0\.4\d* s; try a shorter step="),
        ("CRASH_AT_START", r"crashed in the operation its loading: .* SIGSEGV"),
    ],
)
def test_a_crash_a_hang_and_a_discard_end_the_run_with_their_reason(flag: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        rt.simulate(plain(Fmu(tank(2, flag), patience=0.5 if flag == "HANG" else 20.0)))


def test_ten_thousand_variables_cost_only_those_that_are_used() -> None:
    fmu = Fmu(tank(2, more=10_000), in_process=True)
    assert fmu.model().parameters.size < 10
    assert len(fmu.description.variables) > 10_000
    assert rt.simulate(plain(fmu, until=0.1))["tank.out_y"][-1] > 1


def before(name: str, files: dict[str, str | bytes], said: str) -> None:
    there = set((cache_folder() / "fmu").glob("*"))
    with pytest.raises(ScenarioError, match=said):
        Fmu(packed(name, files))
    assert set((cache_folder() / "fmu").glob("*")) == there


@pytest.mark.parametrize(
    "inner", ["../evil.so", "binaries/../../evil", "/etc/evil", "C:/evil", "a\\b"]
)
def test_nothing_is_unpacked_outside_of_the_folder(inner: str) -> None:
    files: dict[str, str | bytes] = {"modelDescription.xml": description(2), inner: "evil"}
    before("evil.fmu", files, "outside of the FMU's own folder")


@pytest.mark.parametrize("name", ["modelDescription.xml", "sources/buildDescription.xml"])
def test_an_xml_bomb_is_not_read(name: str) -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><b>&b;</b>'
    files: dict[str, str | bytes] = {"modelDescription.xml": description(3), name: bomb}
    before("bomb.fmu", files, f"{name} of .* declares a document type")


def test_a_binary_outside_of_the_folder_is_not_loaded() -> None:
    inside = 'modelIdentifier="tank"'
    text = description(2).replace(inside, 'modelIdentifier="../../../evil"')
    with pytest.raises(ScenarioError, match=r"'\.\./\.\./\.\./evil' is not an identifier of C"):
        Fmu(packed("outside.fmu", {"modelDescription.xml": text}))


def test_sizes_that_fill_the_memory_are_refused_before_use() -> None:
    array = description(3).replace('<Dimension start="3"/>', '<Dimension start="100000000000"/>')
    with pytest.raises(ScenarioError, match="largest variable is factors with 100000000000"):
        Fmu(packed("array.fmu", {"modelDescription.xml": array}))
    indicators = 'numberOfEventIndicators="{}"'
    text = description(2).replace(indicators.format(1), indicators.format(4_000_000_000))
    with pytest.raises(ScenarioError, match="4000000000 values are event indicators"):
        Fmu(packed("indicators.fmu", {"modelDescription.xml": text}), kind=ME)


def test_a_damaged_archive_is_named() -> None:
    files: dict[str, str | bytes] = {"modelDescription.xml": description(2), "twice": ""}
    with zipfile.ZipFile(packed("twice.fmu", files), "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("twice", "")
    with pytest.raises(ScenarioError, match="contains two files with the name twice"):
        Fmu(folder() / "twice.fmu")
    sound = packed("sound.fmu", {"modelDescription.xml": description(2)}, compress=True)
    data = bytearray(sound.read_bytes())
    for i in range(200, 260):
        data[i] ^= 0x5A
    damaged = sound.with_name("damaged.fmu")
    damaged.write_bytes(data)
    with pytest.raises(
        ScenarioError, match=r"damaged\.fmu, because a file in the archive is damaged"
    ):
        Fmu(damaged)


def test_an_incomplete_folder_of_the_cache_is_replaced() -> None:
    path = tank(2, more=1)
    unpacked = Description(path).folder
    (unpacked / "modelDescription.xml").unlink()
    assert Description(path).folder == unpacked
    assert (unpacked / "modelDescription.xml").is_file()


@pytest.mark.parametrize("kind", [CS, ME])
def test_an_alias_does_not_overwrite_its_variable(kind: str) -> None:
    text = description(3).replace(
        'unit="m/s" start="0"/>', 'unit="m/s" start="0"><Alias name="flow"/></Float64>'
    )
    text = text.replace('min="0"/>', 'min="0"><Alias name="loss"/></Float64>')
    library = f"binaries/{HERE3}/tank.so"
    path = packed("alias.fmu", {"modelDescription.xml": text, library: binary(3).read_bytes()})
    fmu = Fmu(path, kind=kind, observe=["flow"], in_process=True)
    assert fmu.interface.inputs.names == ("inflow", "valve")
    loop = plain(fmu, flow=1.0, until=1.0)
    loop.at(0.5, "tank.k", 0.0)
    run = rt.simulate(loop)
    assert run["tank.flow"][-1] == 1.0
    assert run["tank.out_y"][-1] == pytest.approx(exact(0.5, flow=1.0) + 0.5, rel=1e-3)


def test_an_fmu_of_fmi_2_is_asked_after_each_step_only_if_it_wants_that() -> None:
    assert not Fmu(tank(2), kind=ME).interface.completes
    wants = description(2).replace(' completedIntegratorStepNotNeeded="true"', "")
    library = f"binaries/{HERE2}/tank.so"
    files: dict[str, str | bytes] = {
        "modelDescription.xml": wants,
        library: binary(2).read_bytes(),
    }
    assert Fmu(packed("wants.fmu", files), kind=ME).interface.completes


@pytest.mark.parametrize("patience", [0.0, math.nan, math.inf])
def test_the_timeout_is_a_positive_finite_time(patience: float) -> None:
    with pytest.raises(ScenarioError, match="give a time > 0 s"):
        Fmu(tank(2), patience=patience)


def test_files_that_are_no_fmu_say_why(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there is no FMU"):
        Fmu(tmp_path / "none.fmu")
    with pytest.raises(ScenarioError, match=str(Path.cwd() / "none.fmu")):
        Fmu("none.fmu")
    (tmp_path / "text.fmu").write_text("text")
    with pytest.raises(ScenarioError, match="not an FMU, which is a ZIP archive"):
        Fmu(tmp_path / "text.fmu")
    whole = tank(2).read_bytes()
    (tmp_path / "cut.fmu").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ScenarioError, match=r"cut\.fmu is damaged .*copy the FMU again"):
        Fmu(tmp_path / "cut.fmu")
    with pytest.raises(ScenarioError, match="contains neither binaries nor sources"):
        Fmu(packed("bare.fmu", {"modelDescription.xml": description(2)}))
    with pytest.raises(ScenarioError, match=r"tank2.*\.fmu has no name; give it first"):
        rt.Scenario("loop", until=1).plant(Fmu(tank(2)), step=0.01)  # type: ignore[call-overload]
    before("empty.fmu", {"readme.txt": ""}, "contains no modelDescription.xml")
    before("broken.fmu", {"modelDescription.xml": "<a>"}, "is not XML")
    with pytest.raises(ScenarioError, match=r"modelDescription\.xml is not valid"):
        Fmu(packed("wrong.fmu", {"modelDescription.xml": description(2).replace("guid", "gid")}))
    library = {f"binaries/{HERE2}/tank.so": binary(2).read_bytes()}
    for good, bad, said in (
        (
            'modelIdentifier="tank"',
            'modelIdentifier="tnak"',
            r"contains tank\.so, .* needs tnak\.so",
        ),
        ('index="4"', 'index="40"', "ModelStructure is greater than the number of variables"),
        (
            'derivative="1"',
            'derivative="7"',
            r"derivative of valve, .* no state \(Boolean, input\)",
        ),
        ('derivative="1"', 'derivative="5"', r"derivative of k, .* no state \(Real, parameter\)"),
    ):
        text = description(2).replace(good, bad)
        with pytest.raises(ScenarioError, match=said):
            Fmu(packed("bad.fmu", {"modelDescription.xml": text, **library}), kind=ME)
    with pytest.raises(ScenarioError, match=r"no binary for this computer.*built for win64"):
        Fmu(tank(2, system="win64"))
    with pytest.raises(UnknownName, match="unknown kind"):
        Fmu(tank(2), kind="cosim")


def test_a_binary_that_does_not_load_leaves_the_working_folder() -> None:
    files: dict[str, str | bytes] = {
        "modelDescription.xml": description(2),
        f"binaries/{HERE2}/tank.so": b"text",
    }
    here = os.getcwd()
    with pytest.raises(ModelError, match="cannot load the FMU's binary"):
        rt.simulate(plain(Fmu(packed("text.fmu", files), in_process=True)))
    assert os.getcwd() == here


@pytest.mark.parametrize("value", [None, "0.5", [], ["a"], -1, math.nan])
def test_a_value_that_is_no_number_or_out_of_bounds_is_named(value: object) -> None:
    with pytest.raises(ScenarioError, match="k"):
        plain(Fmu(tank(2), parameters={"k": value})).build()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"solver": "dp54"}, 'has its own solver; omit solver=, or choose kind="model-exchange"'),
        ({"priority": 1}, "has no events of its own; omit priority="),
        ({"states": {"level": 2.0}}, "keeps its states itself; give start values as parameters="),
        ({"discrete": {"count": 2.0}}, "keeps its discrete states itself"),
        ({"algebraic": {"y": 2.0}}, "solves its equations itself; omit algebraic="),
        ({"update_period": 0.1}, "has no update function; omit update_period="),
        ({"update_offset": 0.1}, "has no update function; omit update_offset="),
    ],
)
def test_an_option_without_effect_on_a_co_simulation_is_an_error(
    option: dict[str, Any], said: str
) -> None:
    with pytest.raises(ScenarioError) as raised:
        plain(Fmu(tank(2)), **option)
    assert said in str(raised.value)
    if set(option) & {"solver", "priority", "states"}:
        plain(Fmu(tank(2), kind=ME), **option)


def test_an_argument_of_an_fmu_without_effect_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="patience= has no effect with in_process=True"):
        Fmu(tank(2), patience=3, in_process=True)
    with pytest.raises(ScenarioError, match=r"k is a parameter, .* omit k from observe="):
        Fmu(tank(2), observe=["k"])
    with pytest.raises(ScenarioError, match=r"observe is the text .* \['level'\]"):
        Fmu(tank(2), observe="level")
    with pytest.raises(ScenarioError, match="give a mapping"):
        Fmu(tank(2), parameters="k=1")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"level .* states=\{'level': "):
        Fmu(tank(2), kind=ME, parameters={"level": 2})
    with pytest.raises(ScenarioError, match=r"inflow .* inputs=\{'inflow': "):
        Fmu(tank(2), parameters={"inflow": 2})
    for kind in (CS, ME):
        outputs = Fmu(tank(2), kind=kind, observe=["inflow", "out.y", "level", "level"]).interface
        assert outputs.outputs.names.count("level") == (kind == CS)
        assert outputs.outputs.names.count("out_y") == 1
        assert "inflow" not in outputs.outputs


@pytest.mark.parametrize("kind", [CS, ME])
def test_an_fmu_has_no_linear_model(kind: str) -> None:
    with pytest.raises(ScenarioError, match="the equations of tank are in another program"):
        linearise(plain(Fmu(tank(2), kind=kind)))


def test_the_name_of_a_file_is_no_plant() -> None:
    with pytest.raises(ScenarioError, match=r"is a str; give rtsim\.fmi\.Fmu\('tank\.fmu'\)"):
        rt.Scenario("loop", until=1).plant("tank", "tank.fmu", step=0.1)  # type: ignore[call-overload]
