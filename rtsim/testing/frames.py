"""Conformance checks for codecs of frames."""

from __future__ import annotations

import numpy as np

from rtsim.components.frames import FrameCodec, FrameError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Vector


def check_frame_codec(codec: FrameCodec, samples: int = 200) -> None:
    """Assert the contract of :class:`rtsim.components.frames.FrameCodec`.

    - A frame with the initial values must have the declared length.
    - Values must survive encoding and decoding bit for bit.
    - A frame of a wrong length, and a value that is not finite, must raise ``FrameError``.
    - A malformed frame must not change any value.

    ``samples`` is the number of random frames.
    """
    assert " at 0x" not in repr(codec), f"repr {codec!r} changes with each run; define __repr__"
    start = codec.signals.initial()
    data = codec.encode(start)
    assert isinstance(data, bytes), f"encode() must return bytes, not {type(data).__name__}"
    assert len(data) == codec.length, f"encode() returns {len(data)} bytes, not {codec.length}"
    for wrong in (data + b"\0", data[:-1]) if data else (b"\0",):
        assert _refused(codec, wrong, start), f"decode() accepts {len(wrong)} bytes"
    for k in range(codec.signals.size):
        for value in (np.nan, np.inf):
            values = start.copy()
            values[k] = value
            assert not _encodes(codec, values) or _left_out(codec, k), (
                f"encode() accepts {value} for {codec.signals.columns[k]}"
            )
    stream = RandomStreams(1).stream("frames")
    for _ in range(samples):
        _round_trip(codec, stream.integers(0, 256, codec.length, np.uint8).tobytes(), start)
    assert _round_trip(codec, data, start), "decode() refuses what encode() returned"


def _round_trip(codec: FrameCodec, data: bytes, start: Vector) -> bool:
    if _refused(codec, data, start):
        return False
    values = start.copy()
    codec.decode(data, values)
    assert np.isfinite(values).all(), f"decode() gives values that are not finite for {data.hex()}"
    again = start.copy()
    coded = codec.encode(values)
    codec.decode(coded, again)
    assert again.tobytes() == values.tobytes(), (
        f"the values of frame {data.hex()} change when they are encoded and decoded again: "
        f"{values.tolist()} became {again.tolist()}"
    )
    assert codec.encode(again) == coded, "equal values give two different frames"
    return True


def _refused(codec: FrameCodec, data: bytes, start: Vector) -> bool:
    into = start.copy()
    try:
        codec.decode(data, into)
    except FrameError:
        assert into.tobytes() == start.tobytes(), "a malformed frame changes values"
        return True
    return False


def _encodes(codec: FrameCodec, values: Vector) -> bool:
    try:
        codec.encode(values)
    except FrameError:
        return False
    return True


def _left_out(codec: FrameCodec, k: int) -> bool:
    into = np.full(codec.signals.size, np.nan)
    codec.decode(codec.encode(codec.signals.initial()), into)
    return bool(np.isnan(into[k]))
