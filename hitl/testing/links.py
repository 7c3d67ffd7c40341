"""The conformance suite of :class:`hitl.boards.contract.BoardLink`, for users' own links."""

from __future__ import annotations

from collections.abc import Callable

from hitl.boards.contract import BoardError, BoardLink

_PATIENCE_S = 5.0
_CHUNKS = (b"\x00", b"\x11\x13", b"\xff\xfe\n\r\x1a\x03\x04\x7f\x80", bytes(range(256)))
"""Test bytes, including bytes that terminals drop or translate, such as line ends."""


def check_link(make: Callable[[], BoardLink], patience: float = _PATIENCE_S) -> None:
    """Check that the link which ``make()`` returns fulfils the contract of a link.

    The other end of the link has to send back every byte that it receives.  ``patience`` is the
    longest time to wait for a byte, s of the link's time.  Raises :class:`AssertionError` with the
    rule that the link breaks.
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
    """Check that no byte has arrived, and that neither ``wait(0)`` nor ``receive`` waits."""
    assert link.wait(0.0) is False, "wait(0) must return False at once while no byte has arrived"
    assert link.receive() == b"", "receive() must return b'' while no byte has arrived"


def _echoed(link: BoardLink, sent: bytes, patience: float) -> None:
    link.send(sent)
    got = _collect(link, len(sent), patience)
    assert got == sent, (
        f"every byte must arrive, unchanged and in order; sent {sent!r}, got {got!r}"
    )


def _in_order(link: BoardLink, patience: float) -> None:
    """Check that bytes sent in parts arrive as one stream, and that an empty part adds nothing."""
    parts = [bytes([k, 255 - k]) for k in range(20)]
    for part in parts:
        link.send(part)
        link.send(b"")
    got = _collect(link, 2 * len(parts), patience)
    assert got == b"".join(parts), (
        f"parts must arrive in the order in which they were sent; got {got!r}"
    )


def _collect(link: BoardLink, count: int, patience: float) -> bytes:
    got = b""
    while len(got) < count:
        assert link.wait(patience), (
            f"wait() ended after {patience:g} s without a byte; {len(got)} of {count} had arrived"
        )
        assert link.wait(0.0), "wait() must return True until the arrived bytes were taken"
        part = link.receive()
        assert isinstance(part, bytes), f"receive() must return bytes, not {type(part).__name__}"
        assert part, "after wait() returned True, receive() must return at least one byte"
        got += part
    return got


def _closed(link: BoardLink) -> None:
    link.close()  # a second call must do nothing
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
        raise AssertionError("after close(), send, receive and wait must raise BoardError")
