"""The error of generated stimuli."""

from __future__ import annotations

from rtsim.core.errors import RtsimError


class StimuliError(RtsimError):
    """Stimuli cannot be generated, or a file of stimuli cannot be read; the message says why."""
