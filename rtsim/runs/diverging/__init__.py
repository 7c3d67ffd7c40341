"""Where two runs part: the first tag, signal or message that differs, and what fed it."""

from rtsim.runs.diverging.finder import diverge
from rtsim.runs.diverging.verdict import Verdict

__all__ = ["Verdict", "diverge"]
