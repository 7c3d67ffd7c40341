"""The processes at the other end of the SIL bench, run by file name.

``echo BYTES ENDPOINT``: answers each message with one of BYTES bytes.
``broker WORKER SHIM ENDPOINT LIBZMQ``: forwards between ZeroMQ and a worker behind two pipes.
Both end with a message without content, or with their worker.
"""

from __future__ import annotations

import os
import subprocess
import sys

import zmq

_MOST_BYTES = 65_536
_LINGER_MS = 200
_KIND, _BYE = 5, 7
"""Of :mod:`hitl.worker.messages`: at which byte a message says its kind, and the last one."""


def echo(size: str, endpoint: str) -> None:
    """The bare pyzmq end of a ping-pong."""
    answer = bytes(int(size))
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        socket.connect(endpoint)
        socket.send(answer)
        while socket.recv():
            socket.send(answer)


def broker(worker: str, shim: str, endpoint: str, _libzmq: str) -> None:
    """What would stand between the runtime and a worker that knows nothing of ZeroMQ."""
    its_in, to_worker = os.pipe()
    from_worker, its_out = os.pipe()
    command = [worker, f"pipe:{its_in},{its_out}", shim]
    environment = {**os.environ, "RTSIM_PARENT": str(os.getpid())}
    process = subprocess.Popen(command, pass_fds=(its_in, its_out), env=environment)
    os.close(its_in)
    os.close(its_out)
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        socket.connect(endpoint)
        while answer := os.read(from_worker, _MOST_BYTES):
            socket.send(answer)
            if answer[_KIND] == _BYE:
                break
            os.write(to_worker, socket.recv())
    process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        echo(*sys.argv[2:])
    else:
        broker(*sys.argv[2:])
