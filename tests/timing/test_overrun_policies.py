"""What each policy allows, how it is written, and what an overrun says of itself.

An overrun policy that rtsim does not ship: one class, one registration, no other file.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar, Self

import pytest
from click.testing import CliRunner
from pacing_parts import MS, fly, make

from rtsim.cli import main
from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.testing.policies import check_overrun_policy
from rtsim.timing.policy import (
    OWN_POLICIES,
    POLICIES,
    Abort,
    Action,
    CatchUp,
    Freeze,
    LateTag,
    Overrun,
    Policy,
    Slip,
    add_policy,
    advice,
    parse_policy,
)


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


@dataclass(frozen=True)
class SlipInAll(Policy):
    """Slip, at most ``most`` times in the whole run."""

    most: int = 3
    name: ClassVar[str] = "slip_in_all"
    usage: ClassVar[str] = "slip_in_all:3 (overruns in all)"

    @classmethod
    def parse(cls, argument: str) -> Self:
        return cls(int(argument)) if argument else cls()

    def answer(self, late: LateTag) -> Action:
        return "slip" if late.total <= self.most else "abort"

    def remedy(self, consecutive: int) -> str:  # noqa: ARG002
        return f"--overrun {self.name}:{2 * self.most} allows more"

    def __str__(self) -> str:
        return f"{self.name}:{self.most}"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> type[SlipInAll]:
    monkeypatch.setattr(POLICIES, "_added", {})
    return add_policy(SlipInAll)


@pytest.mark.parametrize(
    "policy", [CatchUp(), CatchUp(0), Slip(7), Freeze(), Freeze(0.5), Abort()], ids=str
)
def test_rtsims_own_policies_pass_the_checks(policy: Policy) -> None:
    check_overrun_policy(policy)


def test_another_one_is_read_checked_and_applied(added: type[SlipInAll]) -> None:
    assert parse_policy("slip_in_all") == added(3)
    policy = parse_policy("slip_in_all:2")
    check_overrun_policy(policy)
    pacer, clock = make(policy)
    found = fly(pacer, clock, [2 * MS, 0, 2 * MS, 0])
    assert [o.action for o in found] == ["slip", "slip"]
    assert pacer.slipped_ns == 2 * MS
    clock.advance(2 * MS)
    with pytest.raises(OverrunError, match=r"--overrun slip_in_all:4 allows more, --pace 0\.5"):
        pacer.wait(5 * MS)


def test_messages_and_help_name_what_is_registered(added: type[SlipInAll]) -> None:
    with pytest.raises(ScenarioError, match=f"abort or {added.name}:3 .overruns in all"):
        parse_policy("stop")
    told = CliRunner().invoke(
        main, ["run", "unstable", "--until", "1", "--no-record", "--overrun", "slip_in_all:x"]
    )
    assert told.exit_code == 2
    assert "cannot read overrun policy 'slip_in_all:x'" in told.output
    done = CliRunner().invoke(
        main, ["run", "unstable", "--until", "1", "--no-record", "--overrun", "slip_in_all:9"]
    )
    assert done.exit_code == 0, done.output


def test_only_the_four_that_it_ships_are_known_here() -> None:
    assert set(OWN_POLICIES) == {"catch_up", "slip", "freeze", "abort"}


class Nameless(Policy):
    def answer(self, late: LateTag) -> Action:  # noqa: ARG002
        return "slip"

    def remedy(self, consecutive: int) -> str:  # noqa: ARG002
        return "x"


class Unfinished(Policy):
    name = "unfinished"
    usage = "unfinished"


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("x", Nameless, "Nameless needs the attributes name = 'x' and usage"),
        ("unfinished", Unfinished, "has no method answer, remedy; write it in Unfinished"),
        ("x", 3, "is 3; expected a subclass of rtsim.timing.policy.Policy"),
        ("slip", Slip, "'slip' is rtsim's own"),
    ],
)
def test_an_incomplete_policy_is_refused_when_it_is_registered(
    name: str, made: Any, said: str
) -> None:
    with pytest.raises(ScenarioError, match=said):
        POLICIES.add(name, made)
    assert name not in POLICIES or name in OWN_POLICIES


class Odd(SlipInAll):
    name: ClassVar[str] = "odd"

    def answer(self, late: LateTag) -> Any:  # noqa: ARG002
        return "sleep"


class Endless(SlipInAll):
    name: ClassVar[str] = "endless"

    def answer(self, late: LateTag) -> Action:  # noqa: ARG002
        return "catch_up"


class Remembering(SlipInAll):
    name: ClassVar[str] = "remembering"
    asked: ClassVar[list[int]] = []

    def answer(self, late: LateTag) -> Action:
        self.asked.append(late.tag_ns)
        return "slip" if len(self.asked) % 3 else "abort"


class Impatient(SlipInAll):
    name: ClassVar[str] = "impatient"

    def answer(self, late: LateTag) -> Action:  # noqa: ARG002
        return "freeze"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Odd, "answers 'sleep'"),
        (Endless, "does not end after 100000 late frames"),
        (Remembering, "depend on earlier tags"),
        (Impatient, "has no patience_ns"),
    ],
)
def test_the_checks_find_a_broken_policy(
    monkeypatch: pytest.MonkeyPatch, kind: type[SlipInAll], said: str
) -> None:
    monkeypatch.setattr(POLICIES, "_added", {})
    add_policy(kind)
    with pytest.raises(AssertionError, match=said):
        check_overrun_policy(kind())


def test_an_answer_that_the_loop_does_not_know_names_the_policy() -> None:
    pacer, clock = make(Odd())
    pacer.start(0)
    clock.advance(3 * MS)
    with pytest.raises(ScenarioError, match="overrun policy odd returned 'sleep'; expected one of"):
        pacer.wait(MS)


@pytest.mark.parametrize("text", ["catch_up:3", "slip:3", "freeze:3", "abort"])
def test_a_policy_cannot_be_changed_while_it_is_used(text: str) -> None:
    policy = parse_policy(text)
    with pytest.raises(FrozenInstanceError):
        policy.limit = 5  # type: ignore[attr-defined]
