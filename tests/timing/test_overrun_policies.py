"""What each policy allows, how it is written, and what an overrun says of itself."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.timing.policy import Abort, CatchUp, Freeze, Overrun, Policy, Slip, advice, parse_policy


@pytest.mark.parametrize("kind", [CatchUp, Slip])
def test_frames_in_a_row(kind: type[CatchUp | Slip]) -> None:
    for frames in (0, 1, 7, 10**9):
        policy = kind(frames)
        assert policy.allowed == policy.max_frames == frames
        assert str(policy) == f"{kind.name}:{frames}"
        assert parse_policy(str(policy)) == policy
    for frames in (-1, 10**9 + 1):
        with pytest.raises(ScenarioError, match=f"{kind.name}:{frames} is not .* 0 to {10**9} "):
            kind(frames)


def test_defaults_and_those_that_allow_none() -> None:
    assert (CatchUp().allowed, Slip().allowed) == (100, 1000)
    assert (Freeze().allowed, Abort().allowed) == (0, 0)
    assert (str(Freeze()), str(Abort())) == ("freeze:30", "abort")
    assert Freeze(0.25).patience_ns == 250_000_000


@pytest.mark.parametrize("patience", [0.0, -1.0, math.nan, math.inf, 1.1e9])
def test_a_patience_that_is_none(patience: float) -> None:
    with pytest.raises(
        ScenarioError, match=f"freeze:{patience} is not a valid timeout".replace("+", ".")
    ):
        Freeze(patience)
    assert Freeze(1e9).patience_s == 1e9
    assert Freeze(1e-9).patience_ns == 1


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("catch_up", CatchUp()), ("catch_up:5", CatchUp(5)), ("catch_up:0", CatchUp(0)),
        ("slip", Slip()), ("slip:5", Slip(5)), ("freeze", Freeze()), ("freeze:0.5", Freeze(0.5)),
        (" abort ", Abort()), (Slip(3), Slip(3)),
    ],
)  # fmt: skip
def test_how_they_are_read(text: Any, policy: Policy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize("text", ["", "abort:1", "catch_up:x", "slip:1.5", "freeze:x", "stop"])
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"cannot read overrun policy .*; type catch_up:100"):
        parse_policy(text)


@pytest.mark.parametrize(
    ("policy", "consecutive", "said"),
    [
        (CatchUp(100), 3, "--overrun catch_up:200 allows more late frames"),
        (CatchUp(100), 101, "--overrun catch_up:202 allows more late frames"),
        (Slip(0), 0, "--overrun slip:2 allows more late frames"),
        (Freeze(), 1, "--overrun freeze:300 waits longer"),
        (Abort(), 1, "--overrun catch_up or --overrun slip continues"),
    ],
)
def test_what_to_type_after_one_ended_a_run(policy: Policy, consecutive: int, said: str) -> None:
    text = advice(policy, consecutive)
    assert said in text
    assert text.startswith("type `rtsim doctor`")
    assert text.endswith("--pace 0.5 gives each frame twice the time")


def overrun(**given: Any) -> str:
    about: dict[str, Any] = {
        "tag_ns": 1_234_567_891, "cause": "compute", "amount_ns": 2_500_000, "job": "",
        "action": "slip", "consecutive": 3, "allowed": 10, **given,
    }  # fmt: skip
    return str(Overrun(**about))


def test_an_overrun_in_words() -> None:
    end = "; consecutive late frames: 3, allowed: 10"
    at = "overrun at 1.234567891 s: "
    assert overrun() == f"{at}computing took 2.500 ms too long{end}"
    assert overrun(job="law") == f"{at}computing took 2.500 ms too long, most of it in law{end}"
    assert overrun(cause="wake", job="law") == f"{at}the loop woke 2.500 ms late{end}"
    for stood, shown in ((0, "0.000"), (1_234_500, "1.234"), (9_999_999, "2.500")):
        line = f", of which it waited {shown} ms for a CPU in use by others"
        said = overrun(cause="wake", stood_ns=stood)
        assert said in (
            f"{at}the loop woke 2.500 ms late{line}{end}",
            f"{at}the loop woke 2.500 ms late{line.replace('1.234', '1.235')}{end}",
        )
    assert Overrun(0, "wake", 1, "", "slip", 1, 1).stood_ns is None
    assert overrun(cause="wake", amount_ns=10**15, stood_ns=10**15).count("1000000000.000 ms") == 2
