"""A process that has imported rtsim, and that forks for each command ``rtsim`` of a page.

The imports take most of the processor time of a short command. A fork has them already, and begins
with nothing of the commands before it. The program :data:`CLIENT` hands a command over: arguments,
folder, environment, and the standard files. It passes signals on, and ends with the command's exit
status. Tests of the command itself start the installed program.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from select import select
from typing import Any, NoReturn

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
command = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(command).to_bytes(4, "big")], [0, 1, 2])
server.sendall(command)
pid = int.from_bytes(server.recv(4), "big")
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(pid, number))
sys.exit(int.from_bytes(server.recv(4), "big") if pid else 1)
"""
_PRELOADED = ("rtsim.cli", "hitl.cli")
_SLOW = ("numba", "scipy.linalg", "rtsim.equations.lowering")


@cache
def commands() -> Path:
    """Return a folder with the program ``rtsim``, whose server ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address, program = str(folder / "socket"), folder / "rtsim"
    program.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o755)
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, __file__, address], stdin=pipe, stdout=pipe)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the server of commands does not start"
    atexit.register(server.communicate)
    return folder


def serve(address: str) -> None:
    """Fork for each connection, until the standard input is closed."""
    for name in _PRELOADED:
        package = import_module(name)
        for module in iter_modules(package.__path__, f"{name}."):
            import_module(module.name)
    for name in _SLOW:
        import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    ended, wakeup = socket.socketpair()
    ended.setblocking(False)
    wakeup.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    print("ready", flush=True)
    running: dict[int, socket.socket] = {}
    watched: list[Any] = [listener, ended, 0]
    while 0 not in (ready := select(watched, [], [])[0]):
        if listener in ready:
            connection, _ = listener.accept()
            command, files = _received(connection)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (listener, ended, wakeup, connection, *running.values()):
                    one.close()
                _run(command, files)
            for file in files:
                os.close(file)
            connection.sendall(pid.to_bytes(4, "big"))
            running[pid] = connection
        if ended in ready:
            ended.recv(1 << 10)
        while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
            with running.pop(found[0]) as connection, suppress(OSError):
                code = os.waitstatus_to_exitcode(found[1])
                connection.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))


def _received(connection: socket.socket) -> tuple[Any, list[int]]:
    """Return the arguments, the folder and the environment of a command, and its files."""
    length, files, _, _ = socket.recv_fds(connection, 4, 3)
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        text += connection.recv(1 << 16)
    return json.loads(text), files


def _run(command: Any, files: list[int]) -> NoReturn:
    """Be the process of one command. Its end is that of the interpreter."""
    arguments, folder, environment = command
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["rtsim", *arguments]
    sys.exit(import_module("rtsim.cli").main())


if __name__ == "__main__":
    sys.path.pop(0)
    serve(sys.argv[1])
