"""Find the first tag, signal or message at which two runs differ, and its inputs."""

from rtsim.runs.diverging.finder import diverge
from rtsim.runs.diverging.verdict import Verdict

__all__ = ["Verdict", "diverge"]
