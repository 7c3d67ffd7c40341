"""The command line, ``rtsim``: one module for each command."""

from rtsim.cli.main import main

__all__ = ["main"]
