"""A program in a process of its own: the proxy in this process, and the main function there.

A request and its answer have the same form: a header, float64 numbers, and bytes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import IO, Any

import numpy as np

from rtsim.core.child_process import await_end, how_it_ended, inherited_socket, start_child
from rtsim.core.errors import Ended, ModelError, RtsimError, ScenarioError
from rtsim.core.raised import in_words
from rtsim.core.signals import Vector
from rtsim.fmi.program import NOTHING, OPERATIONS, LocalProgram, Program
from rtsim.timing.background import ONE_THREAD

PROGRAMS = {
    "fmu": "rtsim.fmi.instance:FmuInstance",
    "jsbsim": "rtsim.models.jsbsim:JsbSimProgram",
}
"""The class of each kind of program."""
_HEAD = struct.Struct("<4sIIQ")
_MAGIC = b"RTFP"
_GOOD, _FAILED, _ENDED = 0, 1, 2
_OPEN = len(OPERATIONS)
_MOST_NUMBERS, _MOST_BYTES = 1 << 24, 1 << 30
_START_S = 60.0
"""Timeout for loading a program, s."""
_END_S = 0.5
_LONGEST_S = 1e6
PATIENCE_S = 10.0
"""Default timeout of an operation, s."""


def checked_patience(patience: float | None, in_process: bool) -> float:
    """Return the timeout of an operation, s; the default is 10 s.

    Raises :class:`ScenarioError` if ``patience`` is no positive time, or has no effect.
    """
    if patience is None:
        return PATIENCE_S
    if in_process:
        raise ScenarioError(
            "patience= has no effect with in_process=True, because a program in this process "
            "cannot be ended; omit patience= or in_process="
        )
    if not 0.0 < patience <= _LONGEST_S:
        raise ScenarioError(f"patience is {patience} s; give a time > 0 s and <= {_LONGEST_S:g} s")
    return patience


def program_class(kind: str) -> type[LocalProgram]:
    """Return the class of the programs of ``kind``."""
    module, _, name = PROGRAMS[kind].partition(":")
    found: type[LocalProgram] = getattr(import_module(module), name)
    return found


def opened(
    what: str, kind: str, spec: Mapping[str, Any], patience: float, in_process: bool
) -> Program:
    """Return a new program of ``kind``, in a process of its own unless ``in_process`` is true.

    ``what`` names the program in errors.  ``patience`` is the timeout of an operation, s.
    """
    if in_process:
        return program_class(kind)(spec)  # type: ignore[call-arg]
    return ProgramProcess(what, kind, spec, patience)


def _send(link: socket.socket, code: int, numbers: Vector, data: bytes) -> None:
    head = _HEAD.pack(_MAGIC, code, numbers.size, len(data))
    link.sendall(b"".join((head, numbers.tobytes(), data)))


def _exactly(link: socket.socket, size: int) -> bytes:
    """Return ``size`` bytes; raise :class:`EOFError` at the end of the stream."""
    out = bytearray(size)
    view, at = memoryview(out), 0
    while at < size:
        count = link.recv_into(view[at:])
        if not count:
            raise EOFError
        at += count
    return bytes(out)


def _receive(link: socket.socket) -> tuple[int, Vector, bytes]:
    magic, code, numbers, size = _HEAD.unpack(_exactly(link, _HEAD.size))
    if magic != _MAGIC or numbers > _MOST_NUMBERS or size > _MOST_BYTES:
        raise EOFError
    vector = np.frombuffer(_exactly(link, 8 * numbers)) if numbers else NOTHING
    return code, vector, _exactly(link, size) if size else b""


class ProgramProcess:
    """The proxy of a program in another process.

    Raises :class:`ModelError` if the process ends, if an operation takes longer than ``patience``
    (s of the wall clock), or if the program reports an error.
    """

    def __init__(self, what: str, kind: str, spec: Mapping[str, Any], patience: float) -> None:
        self._what, self._patience = what, patience
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._link, theirs = socket.socketpair()
        try:
            with theirs:
                environment = {**os.environ, **ONE_THREAD}
                self._process = start_child(
                    "rtsim.fmi.process", kind, theirs, self._stderr.fileno(), environment
                )
        except BaseException:
            self._link.close()
            self._stderr.close()
            raise
        self._end = weakref.finalize(self, _end, self._process, self._link, self._stderr)
        self._exchange("its loading", _OPEN, NOTHING, json.dumps(spec).encode(), _START_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def functions(self) -> None:
        return None

    def call(self, operation: str, numbers: Vector, data: bytes = b"") -> tuple[Vector, bytes]:
        code = _CODES[operation]
        return self._exchange(operation, code, numbers, data, self._patience)

    def _exchange(
        self, operation: str, code: int, numbers: Vector, data: bytes, patience: float
    ) -> tuple[Vector, bytes]:
        if not self._end.alive:
            raise ModelError(f"{self._what} has ended; start the run again")
        try:
            self._link.settimeout(patience)
            _send(self._link, code, numbers, data)
            status, found, said = _receive(self._link)
        except TimeoutError:
            self.close()
            raise ModelError(
                f"{self._what} did not finish the operation {operation} within {patience:g} s and "
                "was ended; correct the program, or give a longer patience= (s)"
            ) from None
        except (EOFError, OSError):
            raise ModelError(self._died(operation)) from None
        except BaseException:  # the answer of an interrupted operation would be read as the next
            self.close()
            raise
        if status == _ENDED and found.size:
            raise Ended(said.decode(errors="replace"), float(found[0]), found[1:].tolist())
        if status == _FAILED:
            raise ModelError(f"{self._what}: {said.decode(errors='replace')}")
        return found, said

    def _died(self, operation: str) -> str:
        with suppress(Exception):
            await_end(self._process, _END_S)
        status = self._process.poll()
        self._process.kill()
        status = self._process.wait() if status is None else status
        said = how_it_ended(status, self._stderr)
        self.close()
        name = f", {signal.Signals(-status).name}" if status < 0 else ""
        return (
            f"{self._what} crashed in the operation {operation}: its process ended with status "
            f"{status}{name}{said}; only its plant has failed, because its process is separate"
        )

    def close(self) -> None:
        self._end()


_CODES = {name: code for code, name in enumerate(OPERATIONS)}


def _end(process: Any, link: socket.socket, stderr: IO[bytes]) -> None:
    link.close()  # the process ends at the end of its input
    with suppress(Exception):
        await_end(process, _END_S)
    process.kill()
    process.wait()
    stderr.close()


# The main function of the other process.


def _watch(parent: int) -> None:
    """End this process when its parent has ended, even if the program never returns."""
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(1)


def serve(kind: str, link: socket.socket) -> None:
    """Perform the operations that arrive at ``link``, until its end."""
    program: LocalProgram | None = None
    while True:
        try:
            code, numbers, data = _receive(link)
        except (EOFError, OSError):
            break
        try:
            if code == _OPEN:
                program = program_class(kind)(json.loads(data))  # type: ignore[call-arg]
                found, said = NOTHING, b""
            elif program is None or code > _OPEN:
                raise ModelError(f"unknown operation {code}")
            else:
                found, said = program.call(OPERATIONS[code], numbers, data)
            _send(link, _GOOD, found, said)
        except Ended as ended:
            _send(link, _ENDED, np.array([ended.time, *ended.answer]), ended.who.encode())
        except Exception as error:
            text = str(error) if isinstance(error, RtsimError) else in_words(error)
            _send(link, _FAILED, NOTHING, text.encode())
    if program is not None:
        program.close()


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kind, link, parent = inherited_socket(arguments)
    os.dup2(2, 1)  # the output of a program must not appear in the output of rtsim
    if sys.platform != "win32":
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    with link:
        serve(kind, link)
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
