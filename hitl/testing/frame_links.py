"""Conformance test for users' links that carry frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hitl.buses.contract import FrameLink, LinkError
from rtsim.components.frames import Frame

_PATIENCE_S = 5.0
_FRAMES = tuple(
    Frame(data, identifier, extended)
    for data, identifier, extended in (
        (b"", 0x0, False),
        (b"\x00", 0x7FF, False),
        (b"\x11\x13\xff\x00\n\r\x1a\x7f", 0x123, False),
        (bytes(8), 0x123, True),
        (b"\xff" * 8, 0x1FFFFFFF, True),
    )
)


def check_frame_link(
    make: Callable[[], tuple[FrameLink, FrameLink]],
    frames: Sequence[Frame] = _FRAMES,
    patience: float = _PATIENCE_S,
) -> None:
    """Check that both ends of a link, opened by ``make()``, obey the rules for links.

    Each of ``frames`` must arrive at the other end unchanged and in order, in both directions.
    ``patience`` is the longest time (s) to wait for a frame. An :class:`AssertionError` names the
    broken rule.
    """
    ends = make()
    try:
        for one, other in (ends, ends[::-1]):
            assert one.receive(0.0) is None, "receive(0) must return None while nothing has arrived"
            for frame in frames:
                one.send(frame)
                _arrives(other, one.addressed, frame, patience)
            assert one.receive(0.0) is None, "a link must not receive what it sends itself"
            for frame in frames:
                one.send(frame)
            for frame in frames:
                _arrives(other, one.addressed, frame, patience)
    finally:
        for end in ends:
            end.close()
    for end in ends:
        _closed(end)


def _arrives(link: FrameLink, addressed: bool, sent: Frame, patience: float) -> None:
    got = link.receive(patience)
    expected = sent if addressed else Frame(sent.data)
    assert got == expected, f"each frame must arrive unchanged and in order; sent {sent}, got {got}"
    assert isinstance(got.data, bytes), "the data of a frame must be bytes"


def _closed(link: FrameLink) -> None:
    link.close()  # a second call must have no effect
    calls: list[Callable[[], object]] = [lambda: link.send(Frame(b"x")), lambda: link.receive(0.0)]
    for call in calls:
        try:
            call()
        except LinkError:
            continue
        raise AssertionError("after close(), send and receive must raise LinkError")
