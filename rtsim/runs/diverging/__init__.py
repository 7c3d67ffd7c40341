"""Find the first tag, signal or message at which two runs differ, and its inputs."""

from rtsim.runs.diverging.finder import Verdict, diverge

__all__ = ["Verdict", "diverge"]
