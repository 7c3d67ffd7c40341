"""Convert the signals of a rig to raw values of the I/O node's pins, and back; no I/O."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hitl.protocol.codec import Codec
from hitl.protocol.line import wire_ns
from hitl.rigs.pins import ADC_PINS, CLOCK_HZ, MOST_PULSES, NUMBER, PINS
from hitl.rigs.rig import Channel, Rig
from hitl.worker.ending import refusal
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

TAKING_CYCLES = 800
"""Cycles from the last byte of a request to the node's time stamp of this request.

The delay of an edge's time stamp is subtracted.  The value was measured on the emulator, and
``test_rig_illumination.py`` checks it.
"""
_WRAP = 1 << 32
_COUNTS = 1 << 16
_EDGES = ("rises", "falls")


def delay_ns(size: int, baud: int) -> int:
    """Return the time from a tag to the node's time stamp of its request, ns.

    The request has ``size`` bytes and is sent at the tag with ``baud`` bit/s.
    """
    return wire_ns(size, baud) + TAKING_CYCLES * NS_PER_S // CLOCK_HZ


class NodeWriter:
    """The conversion of the signals in ``[to_pins]`` to the raw values of the pins."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._channels = rig.to_pins
        self._fields = tuple(c.field for c in rig.to_pins)
        self._signals = Signals(*(f.signal for f in self._fields))
        self._codec = Codec(self._fields)  # a byte each
        self._pins = [NUMBER[c.pin] for c in rig.to_pins]

    def drive(self, values: Vector) -> Vector:
        """Convert ``values`` (n,) to the raw values of all pins (18,).

        Raises :class:`ControllerError` for a value outside the limits of its signal or pin, unless
        the signal saturates.
        """
        limited = [self._limited(c, float(v)) for c, v in zip(self._channels, values, strict=True)]
        data, refused = self._codec.pack(np.array(limited))
        if refused:
            text = refusal(self._rig.name, refused, self._signals, values, self._signals)
            raise ControllerError(text)
        out = np.zeros(len(PINS))
        out[self._pins] = np.frombuffer(data, np.uint8)
        return out

    def _limited(self, channel: Channel, value: float) -> float:
        signal = channel.field.signal
        if signal.low <= value <= signal.high:
            return value
        if channel.field.overflow == "saturate" and value == value:
            return min(max(value, signal.low), signal.high)
        raise ControllerError(
            f"{channel.name} = {value:g} {signal.unit} is outside its limits at "
            f"{channel.pin}, {signal.low:g} to {signal.high:g}; correct its source, or let it "
            "saturate (overflow = 'saturate')"
        )


class NodeReader:
    """The conversion of the node's answers to the signals in ``[from_pins]``.

    Times of edges are converted to simulated time, s.  The node stamps each edge and each request
    with its own clock.  A request is sent at its tag and takes ``request_ns`` on the line, so the
    simulated time of its stamp is known.  The time of an edge is computed from the difference of
    the two stamps, so the node's clock must be accurate only from one request to the next.  If a
    request was repeated, one copy or its answer may be lost.  The node's clock then shows which
    copy the node has stamped.
    """

    def __init__(self, rig: Rig, outputs: Signals, request_ns: int) -> None:
        self._channels = rig.from_pins
        self._pulse = {pin: k for k, pin in enumerate(rig.pulse_pins)}
        self._at = {s.name: outputs.slice(s.name) for s in outputs}
        self._request_ns = request_ns
        self._seen: dict[str, list[int]] = {}
        self._counts = [0] * MOST_PULSES
        self._taken: tuple[int, int] | None = None
        """Latest time stamp of a request: simulated time, ns, and the node's cycles."""
        self._times = {c.name: float(c.field.signal.initial) for c in rig.from_pins}  # type: ignore[arg-type]
        self.silences = 0

    def values(self, tag: Tag, found: Vector, begun_ns: Sequence[int] = (0,)) -> Vector:
        """Return the signals (n,) from ``found``, the node's answer to the request of ``tag``.

        ``begun_ns`` are the times at which the request and its repetitions began on the line, ns
        since the tag.
        """
        node = {name: found[where].astype(np.int64).tolist() for name, where in self._at.items()}
        self.silences += (node["silences"][0] - self.silences) % 256
        taken_ns = self._taken_ns(node["now"][0], [tag.ns + self._request_ns + b for b in begun_ns])
        if not self._seen:  # edges before the start of the run do not count
            self._seen = {edge: node[edge] for edge in _EDGES}
        for edge in _EDGES:
            for k in range(MOST_PULSES):
                self._counts[k] += (node[edge][k] - self._seen[edge][k]) % _COUNTS
        out = [self._value(c, taken_ns, node) for c in self._channels]
        self._seen = {edge: node[edge] for edge in _EDGES}
        return np.array(out)

    def _taken_ns(self, cycles: int, copies_ns: list[int]) -> int:
        """Return the simulated time at which the node stamped the request, ns.

        If the request was repeated, the copy is used whose time fits the node's clock best.
        """
        taken_ns = copies_ns[-1]
        if self._taken is not None:
            ns, before = self._taken
            expected = ns + (cycles - before) % _WRAP * NS_PER_S / CLOCK_HZ
            taken_ns = min(copies_ns, key=lambda copy_ns: abs(copy_ns - expected))
        self._taken = taken_ns, cycles
        return taken_ns

    def _value(self, channel: Channel, taken_ns: int, node: dict[str, list[int]]) -> float:
        place = channel.field
        if channel.kind == "digital_in":
            number = NUMBER[channel.pin]
            return float(node["levels"][number // 6] >> number % 6 & 1)
        if channel.kind == "adc_in":
            return node["analog"][ADC_PINS.index(channel.pin)] * place.scale + place.bias
        k = self._pulse[channel.pin]
        if channel.measure == "count":
            return float(self._counts[k])
        if channel.measure == "width":
            return node["width"][k] * place.scale
        edges = f"{channel.measure}s"
        if node[edges][k] != self._seen[edges][k]:
            age = (node["now"][0] - node[channel.measure][k] + _WRAP // 2) % _WRAP - _WRAP // 2
            self._times[channel.name] = (taken_ns - age * NS_PER_S / CLOCK_HZ) / NS_PER_S
        return self._times[channel.name]
