"""Find the first difference between two runs, and its inputs."""

from rtsim.runs.diverging.finder import Verdict, diverge

__all__ = ["Verdict", "diverge"]
