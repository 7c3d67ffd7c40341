"""``--latency from:RUN``: what a controller took in one run is what the next one draws from.

What an exchange takes by the model, against what is counted in cycles on an emulated Uno.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from emulated_board_parts import need
from firmware_parts import random_inputs
from numpy.typing import NDArray
from stamped_parts import Stamping

from hitl.controllers.board import BoardController
from hitl.protocol.line import Budget
from rtsim.components.allowed_latency import from_plain, to_plain
from rtsim.components.latency import Empirical, Fixed
from rtsim.core.errors import LatencyError, RecordingError, ScenarioError
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.events import Event
from rtsim.record.measured import FEWEST, MOST, measured_latency
from rtsim.record.reading import Recording
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

MS = 1_000_000
PERIOD_S = 0.1


def scenario(latency: float = 0.0) -> Scenario:
    out = Scenario("stamped")
    stamping = Stamping([MS] * 1000)
    out.controller("law", stamping, period=PERIOD_S, inputs={"x": 0.0}, compute=Fixed(latency))
    return out


def recorded(
    took_ns: Sequence[int] | NDArray[np.int64],
    latency: float = 0.0,
    way_ns: int = 0,
    **about: object,
) -> Recording:
    """One answer for each of ``took_ns``."""
    out = scenario(latency)
    taken = [int(ns) for ns in took_ns]
    out.replace_controller("law", Stamping(taken, way_ns, **about))
    return trace_of(out, until=(len(taken) - 1) * PERIOD_S + latency)


def drawn(recording: Recording) -> NDArray[np.int64]:
    """The latency of each answer (ns), as the messages say."""
    track = recording.track("messages/law")
    return track.integer("completed") - track.rows.ns


def distance(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Of Kolmogorov and Smirnov: the largest gap between two cumulative distributions."""
    at = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


# -- the distribution


@pytest.mark.rule("measured-latency")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "made",
    [
        lambda rng, n: rng.gamma(2.0, 3.0 * MS, n),
        lambda rng, n: rng.uniform(1.0 * MS, 2.0 * MS, n),
        lambda rng, n: np.where(rng.random(n) < 0.9, 2.0 * MS, 30.0 * MS),
    ],
    ids=["gamma", "uniform", "two values"],
)
def test_the_next_run_has_the_distribution_that_was_measured(made: object, seed: int) -> None:
    assert callable(made)
    took = made(np.random.default_rng(seed), 600).astype(np.int64)
    found = measured_latency(recorded(took), "law")
    assert found.answers == 600
    assert sorted(found.model.samples) == sorted(took.tolist())
    desk = scenario()
    desk.allow("law", found.model)
    again = drawn(trace_of(desk, until=60, seed=seed))
    # Beyond 1.95 sqrt(1/n + 1/m), two samples of one distribution come in 1 of 1000.
    assert distance(took, again) < 1.95 * np.sqrt(2 / 600)
    assert distance(took + 2 * MS, again) > 0.25  # what another distribution gives


def test_of_many_answers_order_statistics_are_kept() -> None:
    took = np.random.default_rng(4).gamma(2.0, 3.0 * MS, 3 * MOST).astype(np.int64)
    found = measured_latency(recorded(took), "law")
    kept = np.array(found.model.samples)
    assert (found.answers, len(kept)) == (3 * MOST, MOST)
    assert (kept.min(), kept.max()) == (took.min(), took.max())
    assert distance(took, kept) <= 1 / MOST


def test_quantiles_are_of_what_was_measured() -> None:
    found = measured_latency(recorded([k * MS for k in range(1, 201)]), "law")
    assert (found.model.quantile(0.5), found.model.quantile(0.99)) == (100 * MS, 198 * MS)
    assert "n 200, median 100 ms, p99 198 ms, maximum 200 ms" in found.in_words


def test_who_was_waited_for_took_up_to_its_answer() -> None:
    found = measured_latency(recorded([MS] * FEWEST, way_ns=7), "law")
    assert set(found.model.samples) == {MS + 7}
    assert found.to == "answer"
    # Another machine's clock does not matter: sent and received are of this one.
    served = measured_latency(recorded([MS] * FEWEST, way_ns=7, stamps="of another clock"), "law")
    assert set(served.model.samples) == {MS + 7}


def test_an_answer_that_was_taken_when_due_took_up_to_the_end_of_its_step() -> None:
    """``received`` is then the due time, whatever the controller took."""
    found = measured_latency(recorded([MS] * FEWEST, latency=0.005, way_ns=9 * MS), "law")
    assert set(found.model.samples) == {MS}
    assert "to the end of the step" in found.in_words


def test_a_controller_may_know_when_its_answers_arrived() -> None:
    """A board in lockstep: its own time says it, whatever was allowed."""
    run = recorded([MS] * FEWEST, latency=0.005, way_ns=7, received="arrived")
    found = measured_latency(run, "law")
    assert (set(found.model.samples), found.to) == ({MS + 7}, "answer")


def test_a_controller_may_know_how_long_its_replies_are() -> None:
    """A board by the wall's clock: its bytes lay in a buffer until they were due."""
    run = recorded([MS] * FEWEST, latency=0.005, way_ns=9 * MS, reply_ns=1000)
    found = measured_latency(run, "law")
    assert (set(found.model.samples), found.to) == ({MS + 1000}, "wire")
    assert "by execution and wire time" in found.in_words


def test_a_board_takes_time_beside_its_step() -> None:
    """1.10 ms were counted on a board whose line and step alone take 0.93 ms."""
    about = {"reply_ns": 440_000, "handling_ns": 169_000}
    run = recorded([491_000] * FEWEST, latency=0.005, way_ns=9 * MS, **about)
    found = measured_latency(run, "law")
    assert (set(found.model.samples), found.to) == ({1_100_000}, "firmware")
    assert "by execution, firmware and wire time" in found.in_words


def test_late_answers_are_told() -> None:
    run = recorded([MS] * FEWEST, latency=0.005)
    run.events.append(Event(Tag(5), "Late", "law", "", {}))
    run.events.append(Event(Tag(5), "Late", "other", "", {}))
    found = measured_latency(run, "law")
    assert found.late == 1
    assert "1 more were Late and are not included" in found.in_words


# -- what is refused


def test_a_run_without_measurements() -> None:
    from rtsim.models.unstable import scenario as unstable

    with pytest.raises(RecordingError, match="contains no measured latencies: only external con"):
        measured_latency(trace_of(unstable(), until=1), "controller")


def test_too_few_answers() -> None:
    with pytest.raises(RecordingError, match=r"contains 99 measured answers of law; at least 100"):
        measured_latency(recorded([MS] * (FEWEST - 1)), "law")


def test_a_controller_of_another_name() -> None:
    with pytest.raises(RecordingError, match=r"of law, but not of guidance; type from:.*:law"):
        measured_latency(recorded([MS] * FEWEST), "guidance")


def test_stamps_that_run_backwards() -> None:
    took = [MS] * FEWEST
    took[7] = -5
    with pytest.raises(RecordingError, match=r"row 7 of measured/law .* damaged"):
        measured_latency(recorded(took), "law")


def test_taken_when_due_and_stamped_by_another_clock() -> None:
    run = recorded([MS] * FEWEST, latency=0.005, stamps="of another clock")
    with pytest.raises(RecordingError, match="another machine"):
        measured_latency(run, "law")


# -- in a recording


@pytest.mark.rule("measured-latency")
def test_what_is_drawn_is_the_latency_and_no_bound_of_it() -> None:
    """A design that answers at once is due as drawn: never Late, Missed beyond a period."""
    desk = scenario()
    desk.allow("law", Empirical.of([50 * MS, 250 * MS]))
    run = trace_of(desk, until=10)
    assert set(drawn(run).tolist()) == {50 * MS, 250 * MS}
    long = int((drawn(run) == 250 * MS).sum())
    kinds = [e.kind for e in run.events]
    assert set(kinds) == {"Missed"}
    assert 2 * long <= len(kinds) <= 2 * long + 2  # one may be under way at the end


@pytest.mark.rule("measured-latency")
def test_a_replay_needs_the_recording_alone() -> None:
    found = measured_latency(recorded([k * 1000 for k in range(200)]), "law")
    desk = scenario()
    desk.allow("law", found.model)
    run = trace_of(desk, until=20, seed=5)
    assert len(set(drawn(run).tolist())) > 50
    header = json.loads(json.dumps(run.header))
    again = scenario()
    again.allow("law", from_plain(header["scenario"]["origin"]["latencies"]["law"]))
    assert rerun(run, again).digest() == run.digest()
    assert again.describe() == desk.describe()


def test_other_samples_are_described_otherwise() -> None:
    one, other = Empirical.of([1, 2, 4], "x"), Empirical.of([1, 3, 4], "x")
    assert repr(one) != repr(other)
    assert len(repr(Empirical.of(range(4096)))) < 100


@pytest.mark.parametrize("latency", ["1/3", Empirical.of([1, 2, 3], "law in live.mcap")])
def test_plain_and_back(latency: str | Empirical) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(latency)))) == latency


@pytest.mark.parametrize("data", [7, None, {}, {"samples": "x"}, {"samples": [1, "2"]}])
def test_what_is_no_latency_in_a_header(data: object) -> None:
    with pytest.raises(LatencyError, match="neither"):
        from_plain(data)


@pytest.mark.parametrize("samples", [[2**62], [-1], []])
def test_samples_that_no_run_has(samples: list[int]) -> None:
    with pytest.raises(ScenarioError, match="Empirical latency"):
        from_plain({"samples": samples})


def test_only_controllers_take_time() -> None:
    out = scenario()
    out.source("wanted", Signals("x [1]"))
    with pytest.raises(ScenarioError, match="not a controller"):
        out.allow("wanted", 0.1)


STEPS = 120
MODEL = 0.02
"""What it may be away from what is counted."""
SHIPPED = [
    ("hitl/starter/motor.toml:float", 500_000),
    ("hitl/examples/processor/level.toml", 500_000),
    ("firmware/core/pid.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 115_200),
]


@cache
def counted(reference: str, baud: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Budget]:
    """In lockstep, ns of the board's cycles: exchanges, steps, and what the budget says."""
    need("avr8js")
    url = f"board:uno?baud={baud}"
    controller = BoardController(reference, url=url, cases=None).fresh()
    try:
        for k, inputs in enumerate(random_inputs(controller.inputs, STEPS)):
            tag = Tag(controller.interface.period.tick(2 * k))
            controller.send(tag, inputs)
            assert controller.receive(tag, 1.0) is not None
        budget = controller.budget
    finally:
        controller.close()
    return np.array(controller.exchange_ns), np.array(controller.took_ns), budget


@pytest.mark.sample(2)
@pytest.mark.parametrize(("reference", "baud"), SHIPPED)
def test_the_model_is_near_what_is_counted(reference: str, baud: int) -> None:
    exchanges, took, budget = counted(reference, baud)
    modelled = took + budget.request_ns + budget.handling_ns + budget.reply_ns
    assert np.abs(modelled / exchanges - 1.0).max() < MODEL
    assert budget.answered_ns == modelled.max()


@pytest.mark.parametrize(("reference", "baud"), SHIPPED)
def test_a_run_in_real_time_lends_the_latency_that_is_counted(reference: str, baud: int) -> None:
    """Its recording says what a paced board says of itself: sent, and the end of the step."""
    exchanges, took, budget = counted(reference, baud)
    about = BoardController(reference, url=f"board:uno?baud={baud}", paced=True).describe()
    said = {key: about[key] for key in ("received", "reply_ns", "handling_ns") if key in about}
    ended = (took + budget.request_ns).tolist()
    run = recorded(ended, latency=0.05, way_ns=30_000_000, **said)
    model = measured_latency(run, "law").model
    for share in (0.5, 0.99):
        real = float(np.quantile(exchanges, share))
        assert model.quantile(share) == pytest.approx(real, rel=MODEL)
