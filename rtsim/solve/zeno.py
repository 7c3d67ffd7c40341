"""Detection of Zeno behaviour and chatter from the times at which the guards of a plant fire."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

ZENO_NS = 100
"""Crossings are Zeno behaviour if their intervals become ever shorter and fall below this time
(ns)."""
ZENO_IN_A_ROW = 4
"""The number of such intervals in a row that counts as Zeno behaviour."""
CHATTER_IN_A_ROW = 100
"""The number of intervals below :data:`ZENO_NS` in a row, of any lengths, that counts as chatter;
also the number of crossings of one guard at one time that counts as Zeno behaviour."""


class Crossings:
    """The latest times (ns) at which each guard of a plant fired, and what they show."""

    def __init__(self, guards: int) -> None:
        self._times: list[deque[int]] = [deque(maxlen=ZENO_IN_A_ROW + 1) for _ in range(guards)]
        """Times, each of them once."""
        self._at_once = [0] * guards
        """How often each guard fired at the last of its times."""
        self._close = [0] * guards
        """The number of intervals below :data:`ZENO_NS` in a row, up to the last time."""
        self._began_ns = [0] * guards
        """The time (ns) at which the first of these intervals began."""
        self._stopped_ns = [-ZENO_NS] * guards
        """For each guard, the last time (ns) at which the stop mode was applied."""

    def add(self, i: int, ns: int) -> None:
        """Note that guard ``i`` fires at ``ns``."""
        times = self._times[i]
        if times and times[-1] == ns:
            self._at_once[i] += 1
            return
        self._at_once[i] = 1
        if times and ns - times[-1] < ZENO_NS:
            self._close[i] += 1
        else:
            self._close[i], self._began_ns[i] = 0, ns
        times.append(ns)

    def accumulate(self, i: int) -> str:
        """Return what shows that the crossings of guard ``i`` accumulate; "" if they do not."""
        times = self._times[i]
        if self._at_once[i] >= CHATTER_IN_A_ROW:
            return f"crosses zero {CHATTER_IN_A_ROW} times at one instant,"
        if self._close[i] >= CHATTER_IN_A_ROW:
            return (
                f"chatters: {CHATTER_IN_A_ROW} intervals in a row between its crossings are "
                f"shorter than {ZENO_NS} ns,"
            )
        if len(times) <= ZENO_IN_A_ROW or times[1] - times[0] >= ZENO_NS:
            return ""
        gaps = [b - a for a, b in pairwise(times)]  # equal, because times are rounded to ns
        return "crosses zero ever faster" if all(b <= a for a, b in pairwise(gaps)) else ""

    def stop(self, i: int, ns: int) -> bool:
        """Forget guard ``i``, because its stop mode is applied at ``ns``.

        Returns False if its crossings accumulate since the stop mode was applied before.
        """
        chatters = self._close[i] >= CHATTER_IN_A_ROW
        began = self._began_ns[i] if chatters else self._times[i][0]
        first = began - self._stopped_ns[i] >= ZENO_NS
        self._times[i].clear()
        self._at_once[i] = self._close[i] = 0
        self._stopped_ns[i] = ns
        return first

    def save(self) -> dict[str, Any]:
        return {
            "times": [list(times) for times in self._times],
            "stopped": self._stopped_ns.copy(),
            "close": self._close.copy(),
            "began": self._began_ns.copy(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the data that :meth:`save` returned; old checkpoints lack some of the entries."""
        for times, said in zip(self._times, saved["times"], strict=True):
            times.clear()
            times.extend(said)
        self._stopped_ns[:] = saved.get("stopped", self._stopped_ns)
        self._close[:] = saved.get("close", [0] * len(self._close))
        self._began_ns[:] = saved.get("began", self._began_ns)
