"""What became of the tags that began too late: by cause, in a row, and what the policy says."""

from __future__ import annotations

from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.timing.overrun import ACTIONS, Action, Cause, Overrun
from rtsim.timing.policy import LateTag, Policy, advice


class Ledger:
    """Of one run.  Several tags within ``frame_ns`` count as one towards the policy's limit."""

    def __init__(self, policy: Policy, frame_ns: int) -> None:
        self.overruns: dict[Cause, int] = {"compute": 0, "wake": 0}
        self.blamed: dict[str, int] = {}
        """Overruns by ``compute``, by the job that is named for them."""
        self.in_line: int | None = None
        """Overruns by ``wake`` of which the loop stood in line for a processor most of the time;
        None: the system has not said it of any."""
        self._policy, self._frame_ns = policy, frame_ns
        self.on_time()

    def on_time(self) -> None:
        """The loop was ready for a tag before it was due: it does not fall behind."""
        self._consecutive, self._counted_ns = 0, 0

    def judge(
        self, ns: int, late: int, cause: Cause, job: str = "", stood_ns: int | None = None
    ) -> Overrun:
        """The tag at ``ns`` is ``late``; ``job`` took longest, ``stood_ns`` in line."""
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
        """What ends the run where the ``action`` is to abort."""
        return OverrunError(f"{overrun}; {advice(self._policy, overrun.consecutive)}")

    def _action(self, ns: int, late: int, cause: Cause) -> Action:
        """The policy's answer; :class:`ScenarioError` if the loop does not know it."""
        total = sum(self.overruns.values())
        action = self._policy.answer(LateTag(ns, late, cause, self._consecutive, total))
        if action not in ACTIONS:
            raise ScenarioError(
                f"overrun policy {self._policy.name} answered {action!r}; expected one of "
                f"{', '.join(ACTIONS)}"
            )
        return action
