"""``python -m rtsim``: the command ``rtsim`` where its script is not on the path."""

from __future__ import annotations

from rtsim.cli import main

if __name__ == "__main__":
    main(prog_name="rtsim")
