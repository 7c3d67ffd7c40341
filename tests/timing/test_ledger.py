"""What became of tags that began too late, and what two of a design do not share, in words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hitl.comparison.verdict import mismatches, reservation, too_slow
from rtsim.components.latency import Empirical, Fixed
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.timing.pacing import Ledger
from rtsim.timing.policy import Abort, CatchUp, Freeze

MS = 1_000_000
TENTH = Period.of("0.1")


def test_tags_within_a_frame_count_once_towards_the_limit() -> None:
    ledger = Ledger(CatchUp(), 10)
    counted = [ledger.judge(ns, 5, "compute").consecutive for ns in (0, 0, 9, 10, 19, 20, 31)]
    assert counted == [1, 1, 1, 2, 2, 3, 4]
    ledger.on_time()
    assert ledger.judge(32, 5, "compute").consecutive == 1
    assert ledger.judge(41, 5, "compute").consecutive == 1
    assert ledger.judge(42, 5, "wake").consecutive == 2
    assert ledger.overruns == {"compute": 9, "wake": 1}


def test_a_frame_begins_with_the_tag_that_was_late_first() -> None:
    ledger = Ledger(CatchUp(), 10)
    assert [ledger.judge(ns, 5, "wake").consecutive for ns in (7, 16, 17)] == [1, 1, 2]


def test_jobs_are_blamed_by_name_and_none_where_none_is_named() -> None:
    ledger = Ledger(CatchUp(), 0)
    for job in ("law", "", "plant", "law"):
        ledger.judge(0, 5, "compute", job)
    assert ledger.blamed == {"law": 2, "plant": 1}


def test_who_stood_in_line_for_more_than_half_of_the_lateness_is_counted() -> None:
    ledger = Ledger(CatchUp(), 0)
    ledger.judge(0, 10, "wake")
    assert ledger.in_line is None, "the system has not said"
    counted: list[int | None] = []
    for stood in (0, 5, 6, None, 10):
        found = ledger.judge(0, 10, "wake", stood_ns=stood)
        assert found.stood_ns == stood
        counted.append(ledger.in_line)
    assert counted == [0, 0, 1, 1, 2]


def test_a_run_ends_beyond_what_its_policy_allows() -> None:
    assert Ledger(Abort(), 0).judge(0, 5, "compute").action == "abort"
    ledger = Ledger(CatchUp(2), 0)
    found = [ledger.judge(ns, 5, "compute") for ns in (1, 2, 3)]
    assert [one.action for one in found] == ["catch_up", "catch_up", "abort"]
    assert [one.allowed for one in found] == [2, 2, 2]
    assert (found[2].tag_ns, found[2].amount_ns, found[2].cause) == (3, 5, "compute")
    assert str(found[2]) in str(ledger.limit(found[2]))
    freeze = Ledger(Freeze(), 0)
    assert {freeze.judge(ns, 5, "compute").action for ns in range(50)} == {"freeze"}


# -- mismatches


def one(*parameters: str, interface: Any = None) -> Any:
    return SimpleNamespace(parameters=Signals(*parameters), interface=interface)


def declared(period: str) -> Any:
    return SimpleNamespace(period=Period.of(period), any_period=False, path=Path("law.toml"))


def told(design: Any, translation: Any, period: Period | None = None) -> list[str]:
    return list(mismatches("law", design, translation, period))


def test_parameters_that_only_one_has_are_named() -> None:
    assert told(one("a", "b"), one("b", "a")) == []
    assert told(one("a", "b", "c"), one("b")) == [
        "law: only the reference model has the parameters a, c"
    ]
    assert told(one("a"), one("a", "d")) == ["law: only the interface file has the parameters d"]
    assert len(told(one("a"), one("b"))) == 2
    assert told(SimpleNamespace(), SimpleNamespace()) == []


def test_another_period_is_told_where_both_are_known() -> None:
    fine, other = one(interface=declared("0.1")), one(interface=declared("0.2"))
    assert told(one(), fine, TENTH) == []
    (text,) = told(one(), other, TENTH)
    assert "declares a period of 0.2 s, but the scenario samples the controller every 0.1 s" in text
    assert told(one(), other) == []
    assert told(one(), one(), TENTH) == []


@pytest.mark.parametrize(("seconds", "slow"), [(0.1, False), (0.100000001, True), (0.25, True)])
def test_a_latency_longer_than_the_period_is_told(seconds: float, slow: bool) -> None:
    assert bool(list(too_slow("law", Fixed(seconds), TENTH))) is slow
    assert not list(too_slow("law", Fixed(seconds), None))
    if seconds == 0.25:
        (text,) = too_slow("law", Fixed(seconds), TENTH)
        assert text.startswith(
            "law: a latency of 0.25 s is longer than its period of 0.1 s, so most"
        )
    assert not list(too_slow("law", Empirical((300 * MS, 400 * MS)), TENTH)), (
        "one that varies may be short"
    )


def test_what_a_good_verdict_has_to_add_is_added_once() -> None:
    assert reservation([]) == ""
    assert reservation(["a", "b", "a"]) == "; but a; b"
