"""The command line ``rtsim``, with one module for each command."""

from rtsim.cli.main import main

__all__ = ["main"]
