"""Local workers of Dask that it does not start again.

A nanny of Dask starts a worker again whose process has ended, but not if the process ends while it
starts.  Such a worker would be missing until the end of the study.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from rtsim.core.clock import stopwatch

_PATIENCE_NS = 5_000_000_000
"""A worker that has no process for longer than this is replaced."""


class Nannies:
    """The workers of a local cluster, of which there should be ``count``."""

    def __init__(self, cluster: Any, count: int) -> None:
        """``cluster``: a ``LocalCluster`` of Dask."""
        self._cluster, self._count = cluster, count
        self._scaled = stopwatch()
        self._since: dict[Any, int] = {}
        """When a nanny was first seen without a process, for nannies that still have none, ns."""

    def look(self) -> None:
        """Replace workers that have no process; to be called about once per second."""
        now = stopwatch()
        nannies = list(self._cluster.workers.values())
        missing = [nanny for nanny in nannies if not nanny.is_alive()]
        self._since = {nanny: self._since.get(nanny, now) for nanny in missing}
        lost = {one for one, since in self._since.items() if now - since > _PATIENCE_NS}
        few = len(nannies) < self._count and now - self._scaled > _PATIENCE_NS
        if lost or few:
            self._scaled = now
            self._since = {one: since for one, since in self._since.items() if one not in lost}
            self._cluster.loop.add_callback(self._replace, lost)

    async def _replace(self, lost: set[Any]) -> None:
        """Forget ``lost`` and start what is missing; runs in the thread of the cluster."""
        for name, nanny in list(self._cluster.workers.items()):
            if nanny in lost and not nanny.is_alive():
                del self._cluster.workers[name]
        self._cluster.scale(self._count)
        for nanny in (one for one in lost if not one.is_alive()):
            with suppress(Exception):  # whatever a nanny without a process says at its end
                await asyncio.wait_for(nanny.close(), _PATIENCE_NS * 1e-9)
