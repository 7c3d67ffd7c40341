"""An overrun policy that rtsim does not ship: one class, one registration, no other file."""

from __future__ import annotations

from dataclasses import dataclass
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
    Policy,
    Slip,
    add_policy,
    parse_policy,
)


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
