"""What is wrong with a board, from what it said: errors in words, and what to do."""

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
    return OldFirmware(
        f"the board speaks version {version} of the protocol, this side version {VERSION}; "
        "flash the firmware of this version"
    )


def of_board(board: HelloReply, interface: Interface, build: int | None) -> BoardFailure | None:
    """None where ``board`` carries the controller of ``interface``."""
    name = interface.name
    if board.name_hash != name_hash(name):
        return WrongController(
            f"the board carries another controller than {name} (name hash "
            f"{board.name_hash:08x}, not {name_hash(name):08x}); flash the firmware with {name}"
        )
    if board.schema != wire_schema(interface):
        return WrongController(
            f"the board's {name} has other signals than {interface.path.name} (schema "
            f"{board.schema:016x}, not {wire_schema(interface):016x}); build and flash it anew"
        )
    if build is not None and board.build != build:
        return OldFirmware(
            f"the board carries build {board.build:08x} of {name}, not {build:08x}; "
            "flash the new one"
        )
    wide = [f.signal.name for f in interface.fields if f.signal.type == "float64"]
    if wide and board.double_bytes != 8:
        return WrongController(
            f"{wide[0]} of {name} is a float64, and the board's double has "
            f"{board.double_bytes} bytes; take a variant with real = 'float32'"
        )
    if board.max_payload < (needed := payload_needed(interface)):
        return BoardFailure(
            f"the board takes {board.max_payload} bytes of payload and {name} needs {needed}; "
            f"build the firmware with -DRTSIM_MAX_PAYLOAD={needed}"
        )
    return None


def payload_needed(interface: Interface) -> int:
    """Bytes of payload of the longest frame that cannot be sent in pieces."""
    step = LAYOUTS[MessageKind.STEP][1].size + Codec(interface.input_fields).bytes
    reply = LAYOUTS[MessageKind.STEP_REPLY][1].size + Codec(interface.output_fields).bytes
    return max(step, reply, LAYOUTS[MessageKind.HELLO_REPLY][1].size)


def silent_at_connecting(waited_ns: int, counts: EventCounts) -> SilentBoard:
    garbage, whole = counts.booting, counts.frames
    heard = "nothing came"
    if garbage or whole:
        heard = f"{garbage} pieces of garbage and {whole} other frames came"
    hint = "is the baud rate the firmware's?" if garbage else "is it the right port, and flashed?"
    return SilentBoard(f"no board answered within {waited_ns / NS_PER_S:.3g} s, {heard}; {hint}")


def silent(request: str, waited_ns: int, counter: int) -> SilentBoard:
    return SilentBoard(
        f"the board did not answer {request} within {waited_ns / NS_PER_S:.3g} s, {counter} steps "
        "after its start; look at its cable and power, or press reset and run again"
    )


def has_reset(nonce: int, before: int, counter: int) -> BoardReset:
    return BoardReset(
        f"the board has reset after step {counter} (boot {nonce:08x}, was {before:08x}); "
        "look at its supply, its watchdog and its stack"
    )


def forgot(what: str, counter: int) -> BoardReset:
    return BoardReset(
        f"the board has reset after step {counter}: {what}; "
        "look at its supply, its watchdog and its stack"
    )


def refused(error: Error, request: str) -> BoardRefused:
    if error.code == Code.STACK_OVERFLOW:
        return BoardRefused(
            f"the board refused {request}: the stack met the static data: there are "
            f"{error.detail} bytes for it; make the controller's local variables smaller, or its "
            "static ones, and reset the board"
        )
    try:
        why = Code(error.code).name.lower().replace("_", " ")
    except ValueError:
        why = f"code {error.code}"
    return BoardRefused(f"the board refused {request}: {why} (detail {error.detail})")


def untrue(what: str) -> BoardFailure:
    return BoardFailure(f"the board {what}; its firmware is not of this version: flash it anew")
