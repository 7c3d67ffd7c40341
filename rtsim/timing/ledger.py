"""Count overruns, by cause and in a row, and decide on the action of the overrun policy."""

from __future__ import annotations

from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.timing.overrun import ACTIONS, UNKNOWN_NS, Action, CaughtUp, Cause, Overrun
from rtsim.timing.policy import LateTag, Policy, advice


class Ledger:
    """The overruns of one run; for the limit, several tags within ``frame_ns`` count as one."""

    def __init__(self, policy: Policy, frame_ns: int) -> None:
        self.overruns: dict[Cause, int] = {"compute": 0, "wake": 0}
        self.blamed: dict[str, int] = {}
        """Number of overruns by ``compute`` for each job that caused them."""
        self.in_line: int | None = None
        """Number of overruns by ``wake`` in which the loop mostly waited for a CPU; None if the
        system reported the waiting for none of them."""
        self._policy, self._frame_ns = policy, frame_ns
        self.on_time()

    def on_time(self) -> None:
        """Reset the number of consecutive late frames, because the loop was ready in time."""
        self._consecutive, self._counted_ns = 0, 0

    @property
    def in_a_row(self) -> tuple[int, int, int]:
        """Late frames in a row, the tag of the last one counted [ns], and the frame [ns]."""
        return self._consecutive, self._counted_ns, self._frame_ns

    def caught_up(self, overruns: CaughtUp, consecutive: int, counted_ns: int) -> None:
        """Count ``overruns`` of compiled code, after which :attr:`in_a_row` is as given."""
        for _, late, by_wake, job, stood, _ in overruns.rows.tolist():
            self.overruns["wake" if by_wake else "compute"] += 1
            if overruns.jobs[job]:
                self.blamed[overruns.jobs[job]] = self.blamed.get(overruns.jobs[job], 0) + 1
            if stood != UNKNOWN_NS:
                self.in_line = (self.in_line or 0) + (2 * stood > late)
        self._consecutive, self._counted_ns = consecutive, counted_ns

    def judge(
        self, ns: int, late: int, cause: Cause, job: str = "", stood_ns: int | None = None
    ) -> Overrun:
        """Count the tag at ``ns``, which is ``late`` [ns], and return its overrun.

        ``job`` is the longest job of the frame; the loop waited ``stood_ns`` for a CPU.
        """
        if self._consecutive == 0 or ns - self._counted_ns >= self._frame_ns:
            self._consecutive += 1
            self._counted_ns = ns
        self.overruns[cause] += 1
        if job:
            self.blamed[job] = self.blamed.get(job, 0) + 1
        if stood_ns is not None:
            self.in_line = (self.in_line or 0) + (2 * stood_ns > late)
        return Overrun(
            tag_ns=ns,
            cause=cause,
            amount_ns=late,
            job=job,
            action=self._action(ns, late, cause),
            consecutive=self._consecutive,
            allowed=self._policy.allowed,
            stood_ns=stood_ns,
        )

    def limit(self, overrun: Overrun) -> OverrunError:
        """Return the error that ends the run after ``overrun``, whose action is ``abort``."""
        return OverrunError(f"{overrun}; {advice(self._policy, overrun.consecutive)}")

    def _action(self, ns: int, late: int, cause: Cause) -> Action:
        """Return the policy's action; raises :class:`ScenarioError` for an unknown action."""
        total = sum(self.overruns.values())
        action = self._policy.answer(LateTag(ns, late, cause, self._consecutive, total))
        if action not in ACTIONS:
            raise ScenarioError(
                f"overrun policy {self._policy.name} returned {action!r}; expected one of "
                f"{', '.join(ACTIONS)}"
            )
        return action
