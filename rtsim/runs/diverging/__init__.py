"""Find the first difference between two runs, and the inputs of the differing component."""

from rtsim.runs.diverging.finder import Verdict, diverge

__all__ = ["Verdict", "diverge"]
