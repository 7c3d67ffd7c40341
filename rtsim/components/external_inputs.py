"""External inputs: signals that a person, a device or a network decides during a run.

rtsim reads an external input at each tag, holds the value until the next tag, and records it.  A
replay feeds the recorded values.  An external input does not make a tag of its own, except an event
input (for example an edge on a rig's pin): that interrupts the wait and inserts a tag.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Protocol

from rtsim.core.clock import Wake
from rtsim.core.signals import Signals, Vector


class InputDevice(Protocol):
    """What stands behind an external input; asked once at each tag, must not block.

    One with an attribute ``stamps`` has these recorded with each of its values; see
    :attr:`ExternalInput.stamps`.
    """

    def poll(self) -> Vector | None:
        """New values (n,), or ``None`` where nothing changed."""
        ...


class ExternalInput:
    """A named outside input; ``wake`` makes it an event input that inserts a tag."""

    def __init__(
        self, name: str, signals: Signals, device: InputDevice, wake: Wake | None = None
    ) -> None:
        self.name = name
        self.signals = signals
        self.wake = wake
        """Set by the device's side; all event inputs of one scenario share one."""
        self._device = device

    @property
    def stamped(self) -> bool:
        """Its device says when it was read, decoded and asked."""
        return hasattr(self._device, "stamps")

    @property
    def stamps(self) -> tuple[int, int, int]:
        """Of what was read last: ns of :data:`rtsim.core.clock.stopwatch`; only where it is
        stamped."""
        stamps: tuple[int, int, int] = self._device.stamps  # type: ignore[attr-defined]
        return stamps

    def read(self, ns: int) -> Vector | None:  # noqa: ARG002
        """What to latch at the tag at ``ns``."""
        return self._device.poll()

    def go_to(self, ns: int) -> None:
        """The run goes on from ``ns``; what a device outside says then is its own affair."""


class FedInput(ExternalInput):
    """Says again what a recording holds, at the same tags; it makes none itself."""

    def __init__(self, name: str, signals: Signals, values: Mapping[int, Vector]) -> None:
        super().__init__(name, signals, _Silent())
        self._at = sorted(values)
        self._values = values
        self._next = 0

    def read(self, ns: int) -> Vector | None:
        if self._next >= len(self._at) or ns < self._at[self._next]:
            return None
        self._next += 1
        return self._values[self._at[self._next - 1]]

    def go_to(self, ns: int) -> None:
        self._next = bisect_right(self._at, ns)


class _Silent:
    def poll(self) -> Vector | None:
        return None
