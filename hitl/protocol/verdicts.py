"""Write the errors of a board: what the board sent, what was expected, and what to do."""

from __future__ import annotations

from hitl.interface import Interface
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.errors import (
    BoardFailure,
    BoardRefused,
    BoardReset,
    OldFirmware,
    SilentBoard,
    WrongController,
)
from hitl.protocol.events import EventCounts
from hitl.protocol.messages import LAYOUTS, VERSION, Code, Error, HelloReply, MessageKind
from rtsim.core.tag import NS_PER_S


def of_version(version: int) -> OldFirmware:
    """Return the error of a board that has the protocol version ``version``."""
    return OldFirmware(
        f"the board has version {version} of the protocol, rtsim has version {VERSION}; "
        "build and flash the firmware again (rtsim flash)"
    )


def of_board(board: HelloReply, interface: Interface, build: int | None) -> BoardFailure | None:
    """Check that ``board`` runs the controller of ``interface`` and, if given, its ``build``.

    Returns the error, or ``None`` if the board is right.
    """
    name = interface.name
    if board.name_hash != name_hash(name):
        return WrongController(
            f"the board runs another controller than {name} (name hash "
            f"{board.name_hash:08x}, expected {name_hash(name):08x}); flash the firmware of {name}"
        )
    if board.schema != wire_schema(interface):
        return WrongController(
            f"the board's {name} has other signals than {interface.path.name} (schema "
            f"{board.schema:016x}, expected {wire_schema(interface):016x}); build and "
            "flash the firmware again"
        )
    if build is not None and board.build != build:
        return OldFirmware(
            f"the board runs build {board.build:08x} of {name}, expected {build:08x}; "
            "flash the current build"
        )
    wide = [f.signal.name for f in interface.fields if f.signal.type == "float64"]
    if wide and board.double_bytes != 8:
        return WrongController(
            f"{wide[0]} of {name} is a float64, but a double of the board has only "
            f"{board.double_bytes} bytes; use a variant with real = 'float32'"
        )
    if board.max_payload < (needed := payload_needed(interface)):
        return BoardFailure(
            f"the board takes {board.max_payload} bytes of payload, but {name} needs {needed}; "
            f"build the firmware with -DRTSIM_MAX_PAYLOAD={needed}"
        )
    return None


def payload_needed(interface: Interface) -> int:
    """Return the payload, bytes, of the longest frame that cannot be sent in pieces."""
    step = LAYOUTS[MessageKind.STEP][1].size + Codec(interface.input_fields).bytes
    reply = LAYOUTS[MessageKind.STEP_REPLY][1].size + Codec(interface.output_fields).bytes
    return max(step, reply, LAYOUTS[MessageKind.HELLO_REPLY][1].size)


def silent_at_connecting(waited_ns: int, counts: EventCounts) -> SilentBoard:
    """Return the error of a board that did not answer HELLO for ``waited_ns``."""
    garbage, whole = counts.booting, counts.frames
    heard = "no byte arrived"
    if garbage or whole:
        heard = f"{garbage} malformed and {whole} valid frames arrived"
    hint = "check the port, and that the board is flashed"
    if garbage:
        hint = "check that the baud rate is the rate of the firmware"
    return SilentBoard(f"no board answered within {waited_ns / NS_PER_S:.3g} s, {heard}; {hint}")


def silent(request: str, waited_ns: int, counter: int) -> SilentBoard:
    """Return the error of a board that did not answer ``request`` after ``counter`` steps."""
    return SilentBoard(
        f"the board did not answer {request} within {waited_ns / NS_PER_S:.3g} s, {counter} steps "
        "after its start; check its cable and power, or press reset and run again"
    )


def has_reset(nonce: int, before: int, counter: int) -> BoardReset:
    """Return the error of a board whose boot nonce changed from ``before`` to ``nonce``."""
    return BoardReset(
        f"the board has reset after step {counter} (boot nonce {nonce:08x}, before {before:08x}); "
        "check its power supply, its watchdog and its stack"
    )


def forgot(what: str, counter: int) -> BoardReset:
    """Return the error of a board that lost its state after step ``counter``; ``what`` says how."""
    return BoardReset(
        f"the board has reset after step {counter}: {what}; "
        "check its power supply, its watchdog and its stack"
    )


def refused(error: Error, request: str) -> BoardRefused:
    """Return the error of a board that answered ``request`` with ``error``."""
    if error.code == Code.STACK_OVERFLOW:
        return BoardRefused(
            f"the board refused {request}: its stack of {error.detail} bytes overflowed into the "
            "static data; use fewer or smaller local or static variables in the controller, then "
            "reset the board"
        )
    try:
        why = Code(error.code).name.lower().replace("_", " ")
    except ValueError:
        why = f"code {error.code}"
    return BoardRefused(f"the board refused {request}: {why} (detail {error.detail})")


def untrue(what: str) -> BoardFailure:
    """Return the error of a board that sent an impossible answer, which ``what`` describes."""
    return BoardFailure(
        f"the board {what}; its firmware has another version: build and flash the firmware again"
    )
