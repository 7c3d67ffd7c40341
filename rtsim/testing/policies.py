"""Conformance checks for overrun policies."""

from __future__ import annotations

from rtsim.core.errors import OverrunError
from rtsim.testing.clock import FakeClock
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import ACTIONS, POLICIES, Cause, LateTag, Policy, parse_policy

FRAME_NS = 1_000_000
MOST_LATE_FRAMES = 100_000
CAUSES: tuple[Cause, ...] = ("compute", "wake")


def check_overrun_policy(policy: Policy) -> None:
    """Check that a registered policy obeys the rules of ``rtsim.timing.policy.Policy``.

    The checks are:

    - Parsing ``str(policy)`` returns an equal policy.
    - The answer of a policy must be an action of the loop, and must depend only on the late tag.
    - A permanent overload must end or freeze the run within 100,000 late frames.
    - The final message contains the policy's remedy.
    """
    name = type(policy).name
    assert POLICIES.get(name) is type(policy), f"{name} is not registered; see docs/extending.md"
    assert parse_policy(str(policy)) == policy, f"{str(policy)!r} is not parsed as {policy!r}"
    assert hash(policy) == hash(parse_policy(str(policy))), (
        f"{policy} and the equal parsed policy have different hashes; use a frozen dataclass"
    )
    _check_answers(policy)
    _check_in_a_loop(policy)


def _check_answers(policy: Policy) -> None:
    for cause in CAUSES:
        tags = [LateTag(k * FRAME_NS, 1000 * k, cause, k, k) for k in (1, 2, 10, 1000)]
        first = [policy.answer(tag) for tag in tags]
        for answer in first:
            assert answer in ACTIONS, f"{policy} answers {answer!r}; expected one of {ACTIONS}"
        again = [policy.answer(tag) for tag in reversed(tags)]
        assert again[::-1] == first, (
            f"answers of {policy} depend on earlier tags; they must depend only on the late tag"
        )
        if "freeze" in first:
            assert policy.patience_ns > 0, f"{policy} freezes a run, but has no patience_ns > 0"


def _check_in_a_loop(policy: Policy) -> None:
    clock = FakeClock()
    pacer = Pacer(clock, policy, frame_ns=FRAME_NS)
    ended = _end_of(pacer, clock)
    assert ended, f"{policy} does not end after {MOST_LATE_FRAMES} late frames; give it a limit"
    remedy = policy.remedy(pacer.overrun.consecutive if pacer.overrun else 1)
    assert remedy, f"remedy() of {policy} is empty; return an option that the user can type"
    assert remedy in ended, f"the message {ended!r} does not contain the remedy {remedy!r}"


def _end_of(pacer: Pacer, clock: FakeClock) -> str:
    pacer.start(0)
    try:
        for k in range(1, MOST_LATE_FRAMES):
            clock.advance(2 * FRAME_NS)
            if not pacer.wait(k * FRAME_NS):
                assert pacer.frozen, "wait() returned False, but the loop is not frozen"
                pacer.wait(k * FRAME_NS)  # Advance past the timeout of the freeze.
    except OverrunError as error:
        return str(error)
    return ""
