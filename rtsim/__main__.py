"""Run the command ``rtsim`` as ``python -m rtsim``, for example if no script is on the path."""

from __future__ import annotations

from rtsim.cli import main

if __name__ == "__main__":
    main(prog_name="rtsim")
