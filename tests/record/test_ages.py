"""Data age and reaction time along chains: tables by hand, a loop over events, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from chain_parts import MS, Body, Drive, Pass, by_hand, random_loop, run

from rtsim import Signals
from rtsim.components.latency import ZERO, Loss
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.record.ages import Ages, ages
from rtsim.scenario.scenario import Scenario

CHAIN = ("sensor.y", "pilot.u", "body.u")


def simple(
    sensor: str, controller: str, *, transport: str = "0", compute: str = "0", until: str
) -> Scenario:
    """Return a loop of a sensor and a controller with the given periods, s."""
    loop = Scenario("simple", until=until)
    loop.plant("body", Body(), step=0.1, inputs={"u": "pilot.u"})
    loop.sensor("sensor", {"y": "body.x"}, period=sensor, transport=transport)
    loop.controller("pilot", Drive(), period=controller, inputs={"y": "sensor.y"}, compute=compute)
    return loop


def table(found: Ages) -> list[tuple[float, float, float]]:
    """Return sample, start and end of each value, ms."""
    columns = (found.samples, found.begins, found.ends)
    return [tuple(ns / MS for ns in row) for row in zip(*columns, strict=True)]


def figures(found: Ages) -> tuple[float, float, float]:
    """Return the worst age, the worst reaction and the open reaction, ms."""
    assert found.worst_age is not None
    assert found.worst_reaction is not None
    return found.worst_age.ns / MS, found.worst_reaction.ns / MS, found.open_ns / MS


@pytest.mark.rule("chain-reads-the-latest")
@pytest.mark.rule("data-age")
@pytest.mark.rule("reaction-time")
def test_a_controller_that_undersamples_its_sensor() -> None:
    """The tick at 20 ms reads the sample of 10 ms, because that of 20 ms arrives at 22 ms."""
    loop = simple("0.01", "0.02", transport="0.002", compute="0.005", until="0.1")
    found = ages(run(loop), CHAIN)
    assert table(found) == [(10, 25, 45), (30, 45, 65), (50, 65, 85), (70, 85, 100)]
    assert figures(found) == (35, 35, 30)
    assert found.worst_age is not None
    assert [(one.stage, one.sequence) for one in found.worst_age.path] == [
        ("sensor", 1), ("pilot", 1),
    ]  # fmt: skip
    assert found.worst_reaction is not None
    assert [(one.stage, one.sequence) for one in found.worst_reaction.path] == [
        ("sensor", 3), ("pilot", 2),
    ]  # fmt: skip
    assert (found.worst_reaction.from_ns, found.worst_reaction.until_ns) == (10 * MS, 45 * MS)


def test_quantiles_and_histogram_count_the_time_for_which_an_age_was_in_use() -> None:
    """Ages of 15 to 30 ms are in use in four intervals, and ages up to 35 ms in three."""
    loop = simple("0.01", "0.02", transport="0.002", compute="0.005", until="0.1")
    found = ages(run(loop), CHAIN)
    assert found.least == 15 * MS
    assert found.quantile(50) == 15 * MS + Fraction(75, 8) * MS
    assert found.quantile(99) == 34.75 * MS
    assert found.quantile(100) == 35 * MS
    edges, shares = found.histogram(4)
    assert edges.tolist() == [15 * MS, 20 * MS, 25 * MS, 30 * MS, 35 * MS]
    assert shares == pytest.approx([20 / 75, 20 / 75, 20 / 75, 15 / 75])


@pytest.mark.rule("chain-reads-the-latest")
@pytest.mark.rule("data-age")
@pytest.mark.rule("reaction-time")
def test_a_controller_that_oversamples_its_sensor() -> None:
    """A sample without latency arrives a microstep later, so the tick at 20 ms does not read it."""
    found = ages(run(simple("0.02", "0.005", compute="0.001", until="0.06")), CHAIN)
    assert table(found) == [
        *((0, begin, begin + 5) for begin in (6, 11, 16, 21)),
        *((20, begin, begin + 5) for begin in (26, 31, 36, 41)),
        (40, 46, 51), (40, 51, 56), (40, 56, 60),
    ]  # fmt: skip
    assert figures(found) == (26, 26, 20)
    assert found.least == 6 * MS


@pytest.mark.rule("chain-reads-the-latest")
@pytest.mark.rule("data-age")
@pytest.mark.rule("reaction-time")
def test_a_triggered_filter_before_a_slower_controller() -> None:
    loop = Scenario("three", until="0.06")
    loop.plant("body", Body(), step=0.1, inputs={"u": "guidance.u"})
    loop.sensor("gps", {"y": "body.x"}, period="0.01", offset="0.003", transport="0.001")
    loop.controller("filter", Pass(), on="gps", inputs={"y": "gps.y"}, compute="0.002")
    loop.controller(
        "guidance", Drive(), period="0.015", inputs={"y": "filter.z"}, transport="0.004"
    )
    found = ages(run(loop), ("body.x", "gps.y", "filter.z", "guidance.u", "body.u"))
    assert table(found) == [(3, 19, 34), (23, 34, 49), (33, 49, 60)]
    assert figures(found) == (31, 31, 27)


@pytest.mark.rule("chain-reads-the-latest")
@pytest.mark.parametrize(
    ("orders", "age"),
    [
        ([], 20),
        (["first second"], 10),
        (["first third second"], 10),
        (["first third"], 20),
        (["first third", "second third"], 20),
    ],
)
def test_a_declared_order_saves_a_period(orders: list[str], age: int) -> None:
    loop = Scenario("ordered", until="0.05")
    loop.plant("body", Body(), step=0.1, inputs={"u": "second.u"})
    loop.controller("first", Pass(), period="0.01", inputs={"y": "body.x"})
    loop.controller("second", Drive(), period="0.01", inputs={"y": "first.z"})
    loop.controller("third", Drive(), period="0.01", inputs={"y": "first.z"})
    for order in orders:
        loop.order(*order.split())
    assert figures(ages(run(loop), ("first.z", "second.u")))[0] == age


@pytest.mark.parametrize("seed", range(40))
def test_ages_equal_those_of_a_loop_over_events(seed: int) -> None:
    loop, elements = random_loop(seed)
    recording = run(loop, seed)
    stages = [one.partition(".")[0] for one in elements[1:-1]]
    values, reactions = by_hand(recording, stages, bool(loop._orders))
    found = ages(recording, elements)
    assert [
        *zip(*(a.tolist() for a in (found.samples, found.begins, found.ends)), strict=True)
    ] == (values)
    if values:
        assert found.worst_age is not None
        assert found.worst_age.ns == max(end - sample for sample, _, end in values)
        lived = np.concatenate([np.arange(b - s, e - s, 1000) for s, b, e in values])
        if len(lived):
            assert found.quantile(50) == pytest.approx(np.quantile(lived, 0.5), abs=20_000)
    else:
        assert "no message" in found.reason
    longest = None if found.worst_reaction is None else found.worst_reaction.ns
    assert longest == max(reactions, default=None)


def test_random_runs_cover_lost_copied_and_overtaken_messages() -> None:
    """The comparison with the loop over events is empty if these cases never occur."""
    statuses: set[int] = set()
    overtaken = 0
    for seed in range(40):
        recording = run(random_loop(seed)[0], seed)
        for name, track in recording.tracks.items():
            if name.startswith("messages/") and not name.endswith(".inputs"):
                statuses |= set(track.integer("status").tolist())
                arrived = track.integer("arrival")[track.integer("status") == 0]
                overtaken += int((np.diff(arrived) < 0).sum())
    assert statuses == {0, 1, 2}
    assert overtaken > 5


@pytest.mark.parametrize(
    ("elements", "problem"),
    [
        (["sensor.y"], "two or more"),
        (["sensor.x", "pilot.u"], "unknown signal 'x' in sensor; known: y"),
        (["senor.y", "pilot.u"], "did you mean sensor"),
        (["sensor", "pilot.u"], "write component.signal"),
        (["body.x", "pilot.u"], "pilot does not read body.x, .* pilot reads sensor.y"),
        (["sensor.y", "pilot.u", "body.x"], "body.x is not an input of the plant body.*body.u"),
        (["sensor.y", "body.u"], "body.u reads pilot.u, not sensor.y"),
        (["pilot.u", "body.u", "sensor.y"], "body.u is within the chain"),
        (["wanted.y", "pilot.u"], "pilot does not read wanted.y"),
        (["sensor.y", "wanted.y"], "wanted.y is not an input of the source wanted"),
    ],
)  # fmt: skip
def test_an_error_names_the_element_and_its_neighbour(
    elements: Sequence[str], problem: str
) -> None:
    loop = simple("0.01", "0.02", until="0.05")
    loop.source("wanted", Signals("y [m]"))
    with pytest.raises(ScenarioError, match=problem):
        ages(run(loop), elements)


def test_a_chain_of_plants_has_no_messages() -> None:
    loop = Scenario("plants", until="0.05")
    loop.plant("first", Body(), step=0.01, inputs={"u": 1.0})
    loop.plant("second", Body(), step=0.01, inputs={"u": "first.u"})
    with pytest.raises(ScenarioError, match="no component of the chain"):
        ages(run(loop), ["first.u", "second.u"])


def test_a_chain_in_which_nothing_arrives_has_no_figure() -> None:
    loop = simple("0.01", "0.02", until="0.05")
    loop.sensor("deaf", {"y": "body.x"}, period="0.01", transport=Loss(ZERO, 1.0))
    loop.controller("echo", Pass(), period="0.01", inputs={"y": "deaf.y"})
    found = ages(run(loop), ["deaf.y", "echo.z"])
    assert len(found) == 0
    assert found.worst_age is None
    assert found.worst_reaction is None
    assert found.open_ns == 50 * MS
    assert found.reason == "no message of deaf arrived"
    late = ages(run(simple("0.01", "0.02", transport="0.06", until="0.05")), CHAIN)
    assert len(late) == 0
    assert "no message of pilot that took effect depends on a message of sensor" in late.reason


def test_a_recording_without_the_track_of_a_stage_is_refused() -> None:
    recording = run(simple("0.01", "0.02", until="0.05"))
    tracks = {n: t for n, t in recording.tracks.items() if n != "messages/pilot"}
    with pytest.raises((RecordingError, UnknownName), match="pilot"):
        ages(replace(recording, tracks=tracks), CHAIN)
