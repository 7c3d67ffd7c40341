"""Checks whether a repeated run ended like the recorded run, or could not be repeated here."""

from __future__ import annotations

from rtsim.core.errors import ControllerError
from rtsim.record.events import LACKING, died_of, in_words, last_error, names_lack
from rtsim.record.exact import Difference
from rtsim.record.reading import Recording

_NOT_HERE = "a resource that it needs is missing here, so the run cannot be repeated"


def ended_by_itself(recording: Recording, again: Recording, error: Exception) -> bool:
    """Return True if ``error`` ended the repeated run ``again`` and belongs to its results.

    Returns False if the run never began, or if a file, a library or memory is missing that the
    recorded run had: then the repetition is not comparable with the recorded run.
    """
    if again.footer is None:
        return False
    ours, theirs = last_error(recording), last_error(again)
    if in_words(ours) == in_words(theirs) or not _lacking(error):
        return True
    error.add_note(f"the recorded run in {recording.source} had no such error: {_NOT_HERE}")
    return False


def _lacking(error: BaseException | None) -> bool:
    """Return True if a missing file, library or memory is among the causes of ``error``."""
    while error is not None:
        if isinstance(error, LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


def said_no_more(recording: Recording, again: Recording) -> None:
    """Raise an error if the re-run ended without repeating the recorded run.

    Raises :class:`KeyboardInterrupt` after an interrupt, and :class:`ControllerError` if a
    controller failed because a resource is missing here.
    """
    if again.footer is not None and again.footer["reason"] == "interrupted":
        raise KeyboardInterrupt("the repeated run was interrupted, so the comparison has no result")
    known = {(e.source, e.tag) for e in recording.events if e.kind == "Failed"}
    for event in again.events:
        lacks = event.kind == "Failed" and names_lack(event.text)
        if lacks and (event.source, event.tag) not in known:
            raise ControllerError(
                f"when the run was repeated, {event.source} failed at {event.tag}: {event.text}\n"
                f"{recording.source} contains no such failure: {_NOT_HERE}"
            )


def ended_otherwise(
    recording: Recording, again: Recording, last_ns: int | None = None
) -> Difference | None:
    """Return the difference if only one of a run and its re-run ended in an error; else ``None``.

    ``last_ns``: requested end of the re-run; a later error of the recorded run does not count.
    """
    ours, theirs = died_of(recording), died_of(again)
    if ours is not None and last_ns is not None and ours.tag.ns >= last_ns:
        ours = None
    if in_words(ours) == in_words(theirs):
        return None
    tag = min(event.tag for event in (ours, theirs) if event is not None)
    texts = (
        "no error" if event is None else f"{event.source}: {event.text}" for event in (ours, theirs)
    )
    return Difference(tag, "the run", "end", *texts)


def end_of(recording: Recording) -> int:
    """Return the time (ns) up to which a run is repeated: its end, or just after an error's tag."""
    return recording.end_ns + (died_of(recording) is not None)
