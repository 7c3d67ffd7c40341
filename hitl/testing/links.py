"""What every :class:`hitl.boards.contract.BoardLink` keeps, checked on one that anybody brings."""

from __future__ import annotations

from collections.abc import Callable

from hitl.boards.contract import BoardError, BoardLink

_PATIENCE_S = 5.0
_CHUNKS = (b"\x00", b"\x11\x13", b"\xff\xfe\n\r\x1a\x03\x04\x7f\x80", bytes(range(256)))
"""What terminals eat or translate, among others: flow control, line ends, end of file."""


def check_link(make: Callable[[], BoardLink], patience: float = _PATIENCE_S) -> None:
    """Assert the contract on a link from ``make()`` whose far end sends back what it receives.

    ``patience``: seconds, in the link's time, for an answer.  Raises :class:`AssertionError`.
    """
    link = make()
    try:
        _quiet(link)
        for chunk in _CHUNKS:
            _echoed(link, chunk, patience)
        _in_order(link, patience)
        _quiet(link)
    finally:
        link.close()
    _closed(link)


def _quiet(link: BoardLink) -> None:
    """Nothing comes that was not asked for, and neither call waits for it."""
    assert link.wait(0.0) is False, "wait(0) answers at once: there is nothing yet"
    assert link.receive() == b"", "receive() is empty where nothing has arrived"


def _echoed(link: BoardLink, sent: bytes, patience: float) -> None:
    link.send(sent)
    got = _collect(link, len(sent), patience)
    assert got == sent, f"every byte arrives, unchanged and in order; sent {sent!r}, got {got!r}"


def _in_order(link: BoardLink, patience: float) -> None:
    """What is sent in parts arrives as one stream, and an empty part is none."""
    parts = [bytes([k, 255 - k]) for k in range(20)]
    for part in parts:
        link.send(part)
        link.send(b"")
    got = _collect(link, 2 * len(parts), patience)
    assert got == b"".join(parts), f"parts arrive in the order they were sent; got {got!r}"


def _collect(link: BoardLink, count: int, patience: float) -> bytes:
    got = b""
    while len(got) < count:
        assert link.wait(patience), (
            f"wait() ended after {patience:g} s without a byte; {len(got)} of {count} had arrived"
        )
        assert link.wait(0.0), "wait() is True until what has arrived is taken"
        part = link.receive()
        assert isinstance(part, bytes), f"receive() returns bytes, not {type(part).__name__}"
        assert part, "after wait() was True receive() has at least one byte"
        got += part
    return got


def _closed(link: BoardLink) -> None:
    link.close()  # a second time
    calls: list[Callable[[], object]] = [
        lambda: link.send(b"x"),
        link.receive,
        lambda: link.wait(0.0),
    ]
    for call in calls:
        try:
            call()
        except BoardError:
            continue
        raise AssertionError("after close() send, receive and wait raise BoardError")
