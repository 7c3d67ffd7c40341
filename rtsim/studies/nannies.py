"""Local workers of Dask that it does not start again.

A nanny of Dask starts a worker again whose process has ended, but not if the process ends while it
starts.  Such a worker would be missing until the end of the study.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from rtsim.core.clock import stopwatch

_LOOK_NS = 5_000_000_000
"""Time between two looks.  A worker without a process at both of them is replaced."""


class Nannies:
    """The workers of a local cluster, of which there should be ``count``."""

    def __init__(self, cluster: Any, count: int) -> None:
        """``cluster``: a ``LocalCluster`` of Dask."""
        self._cluster, self._count = cluster, count
        self._looked = stopwatch()
        self._missing: set[Any] = set()

    def look(self) -> None:
        """Replace workers that have no process; does nothing if the last look was just before."""
        now = stopwatch()
        if now - self._looked < _LOOK_NS:
            return
        self._looked = now
        missing = {
            nanny for nanny in list(self._cluster.workers.values()) if not nanny.is_alive()
        }  # fmt: skip
        lost = missing & self._missing
        self._missing = missing - lost
        if lost or len(self._cluster.workers) < self._count:
            self._cluster.loop.add_callback(self._replace, lost)

    async def _replace(self, lost: set[Any]) -> None:
        """Forget ``lost`` and start what is missing; runs in the thread of the cluster."""
        for name, nanny in list(self._cluster.workers.items()):
            if nanny in lost:
                del self._cluster.workers[name]
        self._cluster.scale(self._count)
        for nanny in lost:
            with suppress(Exception):  # whatever a nanny without a process says at its end
                await asyncio.wait_for(nanny.close(), _LOOK_NS * 1e-9)
