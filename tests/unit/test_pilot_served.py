"""Who is served at another machine, who is not and hears why, and how that ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pilot_line import Line, Served

from rtsim.pilot import relay
from rtsim.pilot.shared import Schema, Shared
from rtsim.pilot.wire import RECORDS, Format, Head
from rtsim.signals import Signals
from rtsim.sockets import keys_of

MOON = Schema((("moon", Signals("x [m]", "v [m/s]")),), Signals("pitch", "roll"), {"pid": 0})


class Closed(Served):
    """A socket of which nothing is real but what it was opened with."""

    opened: tuple[object, ...] = ()

    def __call__(self, *arguments: object) -> Closed:
        self.opened = arguments
        return self

    def wait(self, milliseconds: int) -> None: ...

    def close(self) -> None: ...


def test_of_a_run_that_was_killed_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay from its first line to its last: its input is closed, which is all it notices."""
    over, line, keys = threading.Event(), Closed(), tmp_path / "keys"
    over.set()
    keys_of(keys)
    shared = Shared.create(MOON, tmp_path)
    Line(line, b"a").send(Format(MOON).records(Head(RECORDS, 1), {})[0])
    monkeypatch.setattr(relay, "ends_with_input", lambda: over)
    monkeypatch.setattr(relay, "Listener", line)
    assert relay.main([str(shared.path), "tcp://127.0.0.1:1", "--keys", str(keys)]) == 0
    assert not shared.path.exists()
