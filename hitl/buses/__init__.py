"""Exchange frames with real and virtual buses and networks: CAN via python-can, and UDP.

A :class:`FrameController` exchanges frames at its ticks.  A :class:`FrameInput` reads frames as an
external input. Both classes open a link (:mod:`hitl.buses.urls`) and convert frames with codecs
(:mod:`rtsim.components.frames`).
"""

from hitl.buses.contract import FrameLink, LinkError
from hitl.buses.traffic import FrameController, FrameInput
from hitl.buses.urls import FRAME_LINKS, open_frame_link

__all__ = [
    "FRAME_LINKS", "FrameController", "FrameInput", "FrameLink", "LinkError", "open_frame_link",
]  # fmt: skip
