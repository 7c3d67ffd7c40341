"""A worker that keeps the protocol, but for one misbehaviour.  Run as a program:

``fake_worker.py BEHAVIOUR SCHEMA OUTPUTS SYSPATH... ENDPOINT LIBZMQ``

Over shared memory the variable ``FAKE_WORKER_LINK`` is the path of the link's library.

The misbehaviour comes at the fifth step (:data:`AT`), unless it is one of the start or the end.
It answers step n with n in each output.  The messages are packed by hand: what
hitl/worker/messages.py says is checked against them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from typing import Any

HELLO, START, READY, STEP, ANSWER, STOP, BYE = range(1, 8)
HEAD = struct.Struct("<4sBBhiIQQqqqq")
AT = 5
GARBAGE = {
    "random bytes": bytes(range(7, 207)),
    "nothing": b"",
    "half a header": b"RTSM\x01\x05" + bytes(20),
    "huge count": HEAD.pack(b"RTSM", 1, ANSWER, 0, 0, 2**32 - 1, 0, AT, 0, 0, 0, 0),
    "wrong version": HEAD.pack(b"RTSM", 9, ANSWER, 0, 0, 0, 0, AT, 0, 0, 0, 0),
    "unknown kind": HEAD.pack(b"RTSM", 1, 77, 0, 0, 0, 0, AT, 0, 0, 0, 0),
    "too short": HEAD.pack(b"RTSM", 1, ANSWER, 0, 0, 1, 0, AT, 0, 0, 0, 0),
}


def packed(kind: int, schema: int, said: tuple[int, ...], values: list[float]) -> bytes:
    """A message; ``said`` is sequence, ns, step."""
    head = HEAD.pack(b"RTSM", 1, kind, 0, 0, len(values), schema, *said, 0, 0)
    return head + struct.pack(f"<{len(values)}d", *values)


def answers(behaviour: str, schema: int, said: tuple[int, ...], values: list[float]) -> list[bytes]:
    """What it says to the step at which it misbehaves."""
    sequence, ns, step = said
    right = packed(ANSWER, schema, said, values)
    if behaviour in GARBAGE:
        return [GARBAGE[behaviour]]
    if behaviour.removesuffix(", then right") in GARBAGE:
        return [GARBAGE[behaviour.removesuffix(", then right")], right]
    return {
        "twice": [right, right],
        "another step": [packed(ANSWER, schema, (sequence + 1, ns, step), values)],
        "an old step": [packed(ANSWER, schema, (sequence - 1, ns - 10_000_000, step), values)],
        "another tag": [packed(ANSWER, schema, (sequence, ns + 1, step), values)],
        "no values": [packed(ANSWER, schema, said, [])],
        "too many values": [packed(ANSWER, schema, said, values * 2)],
        "nan": [packed(ANSWER, schema, said, [float("nan")] * len(values))],
        "inf": [packed(ANSWER, schema, said, [float("-inf")] * len(values))],
        "ready": [packed(READY, schema, said, [])],
        "ready with values": [packed(READY, schema, said, values)],
        "cut short": [right[:-8]],
        "with more behind": [right + bytes(8)],
        "silent": [],
    }.get(behaviour, [right])


class Shared:
    """The worker's end of a link over shared memory, with the methods of a socket."""

    def __init__(self, endpoint: str) -> None:
        self.library = library = ctypes.CDLL(os.environ["FAKE_WORKER_LINK"])
        library.rtsim_link_open.restype = ctypes.c_void_p
        library.rtsim_link_receive.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64,
        ]  # fmt: skip
        fd = int(endpoint.removeprefix("shm:"))
        self.end = ctypes.c_void_p(library.rtsim_link_open(fd, 1, ctypes.c_size_t(0)))
        assert self.end

    def send(self, data: bytes) -> None:
        while not self.library.rtsim_link_send(self.end, data, ctypes.c_size_t(len(data))):
            pass

    def recv(self) -> bytes:
        into = ctypes.create_string_buffer(1 << 16)
        while (size := self.library.rtsim_link_receive(self.end, into, len(into), 2**62)) < 0:
            pass
        return into.raw[:size]

    def close(self, linger: int = 0) -> None:  # noqa: ARG002
        self.library.rtsim_link_close(self.end)


def connected(endpoint: str) -> Any:
    """A socket, or what stands for one over shared memory."""
    if endpoint.startswith("shm:"):
        return Shared(endpoint)
    import zmq

    socket: Any = zmq.Context.instance().socket(zmq.PAIR)
    socket.connect(endpoint)
    return socket


def main() -> None:
    behaviour, schema, size = sys.argv[1], int(sys.argv[2], 16), int(sys.argv[3])
    sys.path[:] = sys.argv[4:-2]
    if behaviour == "never says HELLO":
        signal.pause()
    socket = connected(sys.argv[-2])
    if behaviour == "garbage first":
        socket.send(b"good morning")
    if behaviour == "READY first":
        socket.send(packed(READY, schema, (0, 0, 0), []))
    socket.send(packed(HELLO, schema ^ (behaviour == "wrong schema"), (0, 0, 0), []))
    while True:
        message = socket.recv()
        kind, sequence, ns, step = (HEAD.unpack_from(message)[i] for i in (2, 7, 8, 9))
        said = (sequence, ns, step)
        if kind == START:
            socket.send(packed(READY, schema, said, []))
        elif kind == STOP:
            if behaviour == "ignores STOP":
                continue
            socket.send(packed(BYE, schema, said, []))
            break
        elif sequence != AT:
            socket.send(packed(ANSWER, schema, said, [float(sequence)] * size))
        elif behaviour == "unplugged":
            socket.close(0)
            signal.pause()
        elif behaviour == "unplugged after its answer":
            socket.send(packed(ANSWER, schema, said, [float(sequence)] * size))
            socket.close()
            signal.pause()
        elif behaviour == "floods":
            while True:
                socket.send(b"again and again")
        elif behaviour == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            for data in answers(behaviour, schema, said, [float(sequence)] * size):
                socket.send(data)
    socket.close()
    if not sys.argv[-2].startswith("shm:"):
        import zmq

        zmq.Context.instance().term()


if __name__ == "__main__":
    main()
