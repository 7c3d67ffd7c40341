"""The checks that every overrun policy passes, one of rtsim's or one of another package."""

from __future__ import annotations

from rtsim.core.errors import OverrunError
from rtsim.testing.clock import FakeClock
from rtsim.timing.overrun import ACTIONS, Cause
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import POLICIES, LateTag, Policy, parse_policy

FRAME_NS = 1_000_000
MOST_LATE_FRAMES = 100_000
CAUSES: tuple[Cause, ...] = ("compute", "wake")


def check_overrun_policy(policy: Policy) -> None:
    """Assert the contract of :class:`rtsim.timing.policy.Policy` on one policy.

    The policy must be registered.  The checks: its text is read again as an equal policy; each
    answer is an action of the loop and depends on nothing but the late tag; a lasting overload ends
    the run within 100,000 late frames or freezes it, and the message of the end says what to type.
    """
    name = type(policy).name
    assert POLICIES.get(name) is type(policy), f"{name} is not registered; see docs/extending.md"
    assert parse_policy(str(policy)) == policy, f"{str(policy)!r} is not read as {policy!r}"
    assert hash(policy) == hash(parse_policy(str(policy))), "a policy is immutable, and hashable"
    _check_answers(policy)
    _check_in_a_loop(policy)


def _check_answers(policy: Policy) -> None:
    for cause in CAUSES:
        tags = [LateTag(k * FRAME_NS, 1000 * k, cause, k, k) for k in (1, 2, 10, 1000)]
        first = [policy.answer(tag) for tag in tags]
        for answer in first:
            assert answer in ACTIONS, f"{policy} answers {answer!r}; expected one of {ACTIONS}"
        again = [policy.answer(tag) for tag in reversed(tags)]
        assert again[::-1] == first, f"{policy} remembers what it was asked before"
        if "freeze" in first:
            assert policy.patience_ns > 0, f"{policy} freezes a run, and has no patience_ns"


def _check_in_a_loop(policy: Policy) -> None:
    """Each frame takes twice its time, so that every tag is late."""
    clock = FakeClock()
    pacer = Pacer(clock, policy, frame_ns=FRAME_NS)
    ended = _end_of(pacer, clock)
    assert ended, f"{policy} goes on after {MOST_LATE_FRAMES} late frames; give it a limit"
    remedy = policy.remedy(pacer.overrun.consecutive if pacer.overrun else 1)
    assert remedy, f"{policy} does not say what to type after it ended a run"
    assert remedy in ended, f"{ended!r} does not say what to type: {remedy!r}"


def _end_of(pacer: Pacer, clock: FakeClock) -> str:
    """The message with which the policy ends the run; empty if it does not."""
    pacer.start(0)
    try:
        for k in range(1, MOST_LATE_FRAMES):
            clock.advance(2 * FRAME_NS)
            if not pacer.wait(k * FRAME_NS):
                assert pacer.frozen, "the loop waits again, though it is not frozen"
                pacer.wait(k * FRAME_NS)  # until the patience is over
    except OverrunError as error:
        return str(error)
    return ""
