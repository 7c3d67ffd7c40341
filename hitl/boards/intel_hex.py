"""Read Intel HEX, the format of a firmware image: one record ``:LLAAAATTDD...CC`` per line."""

from __future__ import annotations

from pathlib import Path

from hitl.boards.contract import BoardError

_DATA, _END, _SEGMENT, _START_SEGMENT, _LINEAR, _START_LINEAR = range(6)
_MOST_FILE_BYTES = 1 << 20
_WINDOW = 1 << 16
"""Bytes that the addresses of records reach, from the last segment or linear address on."""
_BYTES_OF_TEXT = 16
"""Most characters that a file may have for one byte of flash: each byte in a record of its own."""


def read_image(path: Path, flash: int, begins: int = 0) -> bytes:
    """Read the image in the file ``path``.

    Returns its bytes from the address ``begins``, at most ``flash`` of them; gaps are 0xff.  Raises
    :class:`BoardError` if the file cannot be read or is not a valid image (see :func:`parse`).
    """
    most = max(_MOST_FILE_BYTES, _BYTES_OF_TEXT * flash)
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise BoardError(f"cannot read the firmware file {path}: {error.strerror}") from None
    if len(text) > most:
        raise BoardError(
            f"{path} is larger than {most} bytes, the limit for firmware; give an Intel HEX file"
        )
    return parse(text.decode("ascii", "replace"), flash, str(path), begins)


def parse(text: str, flash: int, name: str = "image", begins: int = 0) -> bytes:
    """Parse the Intel HEX records in ``text``.

    Returns the bytes from the address ``begins``, at most ``flash`` of them; gaps are 0xff.  Raises
    :class:`BoardError` with ``name`` and the line number for a malformed record, a wrong checksum,
    a byte outside of the flash, an address that occurs twice, or a missing end record.
    """
    image, given = bytearray(), bytearray(flash)
    base, ended = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if ended:
            raise BoardError(
                f"{where}: this line comes after the end record, which must be last; build the "
                "firmware again"
            )
        kind, address, data = _record(line.strip(), where)
        if kind == _DATA:
            if address + len(data) > _WINDOW:
                raise BoardError(
                    f"{where}: the record passes the end of its {_WINDOW} bytes; its last bytes "
                    "have no certain address; build the firmware again"
                )
            _place(image, given, base + address - begins, data, where)
        elif kind in (_SEGMENT, _LINEAR) and len(data) == 2:
            base = int.from_bytes(data, "big") << (4 if kind == _SEGMENT else 16)
        elif kind == _END:
            ended = True
        elif kind not in (_START_SEGMENT, _START_LINEAR):
            raise BoardError(
                f"{where}: a record of type {kind} with {len(data)} bytes is not an Intel HEX "
                "record"
            )
    if not ended:
        raise BoardError(f"{name} has no end record: the file is truncated or not Intel HEX")
    if not image:
        raise BoardError(f"{name} contains no program bytes; build the firmware again")
    return bytes(image)


def _record(line: str, where: str) -> tuple[int, int, bytes]:
    try:
        raw = bytes.fromhex(line[1:]) if line[0] == ":" else b""
    except ValueError:
        raw = b""
    if len(raw) < 5 or " " in line:
        raise BoardError(f"{where}: this line is not an Intel HEX record")
    if len(raw) != raw[0] + 5:
        raise BoardError(
            f"{where}: the record has {len(raw) - 5} data bytes, but declares {raw[0]}"
        )
    if sum(raw) % 256:
        raise BoardError(f"{where}: wrong checksum; the file is damaged, build the firmware again")
    return raw[3], int.from_bytes(raw[1:3], "big"), raw[4:-1]


def _place(image: bytearray, given: bytearray, start: int, data: bytes, where: str) -> None:
    end, flash = start + len(data), len(given)
    if start < 0:
        raise BoardError(f"{where}: the record begins {-start} bytes before the board's flash")
    if end > flash:
        raise BoardError(
            f"{where}: the record ends at byte {end}, but the board has {flash} bytes of flash"
        )
    if any(given[start:end]):
        twice = given.index(1, start)
        raise BoardError(
            f"{where}: an earlier record has already set byte {twice} of the flash; build the "
            "firmware again"
        )
    image.extend(b"\xff" * (end - len(image)))
    image[start:end] = data
    given[start:end] = b"\x01" * len(data)
