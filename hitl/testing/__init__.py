"""Conformance tests for users' links and boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.testing.boards import check_board, check_link
    from hitl.testing.bus_devices import check_bus_device
    from hitl.testing.frame_links import check_frame_link

__all__ = ["check_board", "check_bus_device", "check_frame_link", "check_link"]

__getattr__, __dir__ = lazy_exports(__name__)
