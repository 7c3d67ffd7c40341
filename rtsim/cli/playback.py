"""``rtsim replay RUN --view``: show a recording in a window; nothing is simulated."""

from __future__ import annotations

import math
from typing import Any

from rtsim.cli.common import seconds, show_result
from rtsim.cli.tables import console
from rtsim.cli.window import typed
from rtsim.core.errors import ScenarioError
from rtsim.pilot.playback import LEAST_RATE, MOST_RATE, Playback
from rtsim.pilot.processes import Window
from rtsim.record.reading import Recording


def watch(
    recorded: Recording, times: list[int | None], window: Window, pace: str, as_json: bool
) -> None:
    """Show ``recorded`` in a window and print a summary.

    ``times`` are begin and end in ns (``None``: begin or end of the recording).  ``pace`` is the
    rate; a negative rate plays backwards from the end.  Raises :class:`ScenarioError` for a rate or
    a time out of range.
    """
    playback = Playback(recorded)
    within = _within(playback, times, recorded.source)
    rate = _rate(pace) if typed("pace") else 1.0
    from rtsim.pilot.viewer.window import (
        close_window,
        open_window,
    )  # SDL, which no other command needs

    width, height = map(int, window.size.split("x"))
    surface = open_window(
        f"rtsim: {recorded.source}", window.headless, (width, height), window.full_screen
    )
    from rtsim.pilot.viewer.player import play

    try:
        frames = play(surface, playback, window, rate, within)
    finally:
        close_window()
    result: dict[str, Any] = {
        "recording": recorded.source,
        "from_s": within[0] / 1e9,
        "until_s": within[1] / 1e9,
        "truncated": recorded.truncated,
        "frames": frames,
    }
    if as_json:
        show_result(result)
        return
    if recorded.truncated:
        console().print(f"the recording was cut off: {recorded.truncated}", soft_wrap=True)
    begin, end = map(seconds, within)
    console().print(f"shown {begin} to {end} s of {recorded.source}: {frames} frames")


def _within(playback: Playback, times: list[int | None], source: str) -> tuple[int, int]:
    first, last = times
    begin = playback.first_ns if first is None else max(first, playback.first_ns)
    end = playback.end_ns if last is None else min(last, playback.end_ns)
    if begin > end:
        raise ScenarioError(
            f"{source} covers {seconds(playback.first_ns)} to {seconds(playback.end_ns)} s; "
            "give --from and --to within these times"
        )
    return begin, end


def _rate(pace: str) -> float:
    try:
        rate = float(pace)
    except ValueError:
        rate = math.nan
    if not LEAST_RATE <= abs(rate) <= MOST_RATE:
        raise ScenarioError(
            f"--pace {pace} does not work with --view; give a rate such as 1.0, 0.25 or -1 "
            "(backwards)"
        )
    return rate
