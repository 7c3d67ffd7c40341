"""What the summary of a run says about its window."""

from __future__ import annotations

from typing import Any


def told_of(figures: dict[str, Any]) -> list[str]:
    """Return the summary of a window: frames, and why it closed early if it did."""
    lines = [f"window: {figures['frames']} frames, {figures['frames_dropped']} dropped"]
    return [*lines, *what_became_of(figures)]


def what_became_of(figures: dict[str, Any]) -> list[str]:
    """Return lines on a window that was closed before the end, and on dropped messages."""
    lines = []
    if figures["window_lost"]:
        lines.append("the window was closed before the end; the run continued without it")
    if figures["ended_there"]:
        lines.append("the run was ended from the window with Esc")
    if figures["unattended"]:
        lines.append(
            "the run was paused, and no window was open for 60 s, so it was ended; "
            "rtsim view opens another window on a run"
        )
    if figures["skipped"]:
        lines.append(f"{figures['skipped']} malformed messages from other machines were dropped")
    return lines
