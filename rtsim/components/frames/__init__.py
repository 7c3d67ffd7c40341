"""Frames: the bytes of one message on a bus or a network, and their description.

A codec (:class:`FrameCodec`) turns signals into the bytes of a frame and back.  A DBC file
describes the frames of a CAN bus (:mod:`rtsim.components.frames.dbc`), a TOML file describes
datagrams (:mod:`rtsim.components.frames.struct_codec`).
"""

from rtsim.components.frames.contract import Frame, FrameCodec, FrameError
from rtsim.components.frames.files import FRAME_FILES, read_frames

__all__ = ["FRAME_FILES", "Frame", "FrameCodec", "FrameError", "read_frames"]
