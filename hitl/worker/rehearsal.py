"""A rehearsal of an exchange with a worker over shared memory, shortly before the exchange.

After a sleep of the loop, the code of an exchange is no longer in the CPU's caches, and the worker
sleeps, too.  The exchange then takes several times as long as the next one would.
"""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path

import numpy as np

from hitl.interface import Interface
from hitl.worker.messages import Speaker, WorkerMessageKind, longest
from hitl.worker.shared import SharedLink, SharedSteps
from rtsim.components.request_log import RequestLog
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

_WORKER = 1
_TAG, _SEQUENCE, _AT_ONCE = Tag(0), 1, 0.0


class ExchangeRehearsal:
    """A function that wakes the worker of ``link``, and exchanges one step over another link.

    It has both ends of this other link, which has the sizes of ``interface``.  The worker gets no
    message, and the steps that its controller keeps do not change.  ``library`` is ``link.so`` of
    the worker's build.  Raises :class:`ControllerError` if the other link cannot be made.
    """

    def __init__(self, link: SharedLink, library: Path, interface: Interface) -> None:
        self._announce = link.announce
        m, n, schema = interface.inputs.size, interface.outputs.size, interface.schema
        most = longest(m, n, 0)
        self._link = SharedLink(library, most)
        own = self._link.library
        self._send, self._receive = own.rtsim_link_send, own.rtsim_link_receive
        end = own.rtsim_link_open(self._link.descriptor, _WORKER, 0)
        if not end:
            self._link.close()
            raise ControllerError("cannot map the shared memory of a rehearsal")
        self._end = ctypes.c_void_p(end)
        self._close = weakref.finalize(self, own.rtsim_link_close, self._end)
        self._link.hide()
        self._buffer, self._most = ctypes.create_string_buffer(most), most
        self._steps = SharedSteps(self._link, schema, m, n)
        speaker = Speaker(n, schema)
        self._answer = bytes(
            speaker.message(WorkerMessageKind.ANSWER, _SEQUENCE, _TAG, np.zeros(n))
        )
        self._inputs, self._log = np.zeros(m), RequestLog(m)

    def __call__(self) -> bool:
        """Wake the worker, and run one exchange without it; return whether its answer came.

        Does nothing and returns False once :meth:`close` was called: the run may go on without
        the controller, and the pacer still has its rehearsal.
        """
        if not self._close.alive:
            return False
        self._announce()
        steps, log = self._steps, self._log
        self._send(self._end, self._answer, len(self._answer))
        sent = steps.request(_SEQUENCE, _TAG, self._inputs)
        log.add(_TAG, self._inputs)
        took_ns = steps.answer(_AT_ONCE)
        log.heard(steps.values)
        log.steps = 1  # the next rehearsal writes the same row, so the log does not grow
        self._receive(self._end, self._buffer, self._most, 0)
        return sent and took_ns >= 0

    def close(self) -> None:
        """Release the memory of the link.  A second call does nothing."""
        self._close()
        self._link.close()
