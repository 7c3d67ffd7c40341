"""A page in the browser with data of its own, and browsers made of WebSocket clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import PageAddress, open_port
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.web.guard import Guard, guarded_server
from rtsim.gateway.web.source import About, Look, Past
from rtsim.record.jobs import ProcessorHistory

ANGLES = ("p.r", "p.p", "p.y")


class Made:
    """A source whose values a test sets."""

    def __init__(self, names: Sequence[str], value: float = 1.0, **about: Any) -> None:
        kinds = dict.fromkeys(names, "state")
        units = {name: "rad" if name in ANGLES else "m" for name in names}
        self.about = About("made", units, kinds, **about)
        self.ns, self.value, self.told = 0, value, list[Any]()
        self.asked: Sequence[str] = ()
        self.refused = ""
        self.watched: Sequence[Mapping[str, Any]] = ()
        self.histories: Sequence[ProcessorHistory] = ()

    def look(self, names: Sequence[str]) -> Look | None:
        self.asked = names
        self.ns += 50_000_000
        stamps = dict.fromkeys(self.about.topics, (self.ns, self.ns + 1, self.ns + 2))
        state = StateTable(self.ns, rate=1.0)
        return Look(state, dict.fromkeys(names, self.value), stamps, self.watched)

    def past(self, names: Sequence[str], span_s: float) -> Past:
        seconds = np.linspace(0.0, span_s, 600)
        values = np.where(seconds < span_s / 2, self.value, 1.0)
        return Past(seconds, dict.fromkeys(names, values))

    def schedules(self) -> Sequence[ProcessorHistory]:
        return self.histories

    def tell(self, kind: str, **arguments: Any) -> str:
        if self.refused:
            raise ScenarioError(self.refused)
        self.told.append((kind, arguments))
        return "at 1 s"

    def close(self) -> None:
        pass


@contextmanager
def served() -> Iterator[tuple[Any, PageAddress, Guard]]:
    """Give viser's server behind a guard, its address and the guard."""
    listener = open_port(None)
    address = PageAddress.of(listener)
    guard = Guard(address.token)
    server = guarded_server(listener, guard, "test")
    try:
        yield server, address, guard
    finally:
        server.stop()


def browser(address: PageAddress, **how: Any) -> ClientConnection:
    """Connect as the page in a browser does."""
    import viser

    url = address.url.replace("http", "ws", 1).rstrip("/")
    protocol: Any = f"viser-v{viser.__version__}"
    how = {"max_size": None, "proxy": None, **how}
    return connect(url, subprotocols=[protocol], **how)


def handles(page: Any) -> Mapping[str, Any]:
    """Return the inputs of a page by their labels."""
    found = page._server.gui._gui_input_handle_from_uuid.values()
    return {handle.label: handle for handle in found}


NOT_FINITE = (math.nan, math.inf, -math.inf)
