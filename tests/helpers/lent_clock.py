"""A scripted clock that compiled code can wait on."""

from __future__ import annotations

import ctypes

from rtsim.core.clock import Calls, Wait
from rtsim.testing import FakeClock

_TIMES = ctypes.POINTER(ctypes.c_int64)
_NS = 1_000_000_000
Late = tuple[int, ...]
"""Wake-up latencies, ns: one for each wait."""


class LentClock(FakeClock):
    """A clock of a test that compiled code can wait on: its C functions are this clock's."""

    def __init__(self, rate: float = 1.0, late: Late = ()) -> None:
        super().__init__(rate, late=late)
        self.sleeps = 0
        """Number of waits in compiled code."""
        telling = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _TIMES)
        waiting = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_int, _TIMES, ctypes.c_void_p
        )
        self._functions = telling(self._tell), waiting(self._wait)

    def _tell(self, _clock: int, into: ctypes._Pointer[ctypes.c_int64]) -> int:
        into[0], into[1] = divmod(self.now(), _NS)
        return 0

    def _wait(
        self, _clock: int, flags: int, until: ctypes._Pointer[ctypes.c_int64], _rest: object
    ) -> int:
        assert flags == 1  # until a time, not for a time
        self.sleeps += 1
        self.advance(
            until[0] * _NS + until[1] + (self._late.popleft() if self._late else 0) - self.now()
        )
        return 0

    def lend(self) -> Wait:
        time, sleep = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        return Wait(Calls(time, sleep, 0, 0), 0, *self._line.words, 0, 0, 0, 0)

    def returned(self, spin_ns: int, most_spin_ns: int) -> None:
        assert spin_ns == most_spin_ns == 0  # no sleep lengthens a window of 0
