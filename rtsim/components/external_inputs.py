"""External inputs: signals from a person, a device or a network.

rtsim reads an external input at each tag, holds the value until the next tag, and records it.  A
replay uses the recorded values. An event input, such as an edge at a pin of a rig, inserts a tag.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Protocol

from rtsim.core.clock import Wake
from rtsim.core.signals import Signals, Vector


class InputDevice(Protocol):
    """Source of an external input, which the run polls at each tag; ``poll`` must not wait.

    If the source has an attribute ``stamps``, its time stamps are recorded with each value (see
    :attr:`ExternalInput.stamps`).
    """

    def poll(self) -> Vector | None:
        """Return new values (n,), or ``None`` without a change."""
        ...


class ExternalInput:
    """An external input; with ``wake``, its events insert tags."""

    def __init__(
        self, name: str, signals: Signals, device: InputDevice, wake: Wake | None = None
    ) -> None:
        self.name = name
        self.signals = signals
        self.wake = wake
        """Object that the device sets at an event; all event inputs of a scenario share it."""
        self._device = device

    @property
    def stamped(self) -> bool:
        """True if the device provides time stamps."""
        return hasattr(self._device, "stamps")

    @property
    def stamps(self) -> tuple[int, int, int]:
        """Times (ns) at which the last values were read, decoded and sampled.

        The clock is :data:`rtsim.core.clock.stopwatch`.  The times are available only if
        :attr:`stamped`.
        """
        stamps: tuple[int, int, int] = self._device.stamps  # type: ignore[attr-defined]
        return stamps

    def read(self, ns: int) -> Vector | None:  # noqa: ARG002
        """Return new values for the tag at ``ns``, or ``None``."""
        return self._device.poll()

    def go_to(self, ns: int) -> None:
        """Continue at the time ``ns``, in a replay."""


class FedInput(ExternalInput):
    """External input of a replay, which repeats the recorded values."""

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
