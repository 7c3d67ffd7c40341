"""A browser of the bench ``web``: ``python -m tools.bench.web_client URL``.

It reads all that a page sends, and prints the number of bytes when it is ended.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import viser
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


def main(url: str) -> None:
    protocol: Any = f"viser-v{viser.__version__}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    got = 0
    address = url.replace("http", "ws", 1).rstrip("/")
    try:
        with connect(address, subprotocols=[protocol], max_size=None, proxy=None) as end:
            print("connected", flush=True)
            while True:
                got += len(end.recv())
    except (KeyboardInterrupt, ConnectionClosed):
        print(got, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
