"""The command ``rtsim``."""

from rtsim.cli.main import main

__all__ = ["main"]
