"""Whether a re-run ended as the recorded run did, or could not be repeated here at all."""

from __future__ import annotations

from rtsim.core.errors import ControllerError
from rtsim.record.ending import LACKING, died_of, in_words, last_error, names_lack
from rtsim.record.exact import Difference
from rtsim.record.reading import Recording

_NOT_HERE = "what it needs is not here, so that it cannot be repeated"


def ended_by_itself(recording: Recording, again: Recording, error: Exception) -> bool:
    """Whether ``error`` is how the re-run ``again`` ended, which is then held against the recorded.

    It is not where the run never began, nor where a file, a library or memory is lacking that the
    recorded run had: that says nothing of what was recorded.
    """
    if again.footer is None:
        return False
    ours, theirs = last_error(recording), last_error(again)
    if in_words(ours) == in_words(theirs) or not _lacking(error):
        return True
    error.add_note(f"the run in {recording.source} did not end in that error: {_NOT_HERE}")
    return False


def _lacking(error: BaseException | None) -> bool:
    """Somewhere behind it is a file, a library or memory that was not there."""
    while error is not None:
        if isinstance(error, LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


def said_no_more(recording: Recording, again: Recording) -> None:
    """Raise what kept a re-run that came to an end from repeating the run.

    That is an interrupt, or a controller whose failure is borne and which lacks something here.
    """
    if again.footer is not None and again.footer["reason"] == "interrupted":
        raise KeyboardInterrupt("interrupted while it was flown again; nothing was decided")
    known = {(e.source, e.tag) for e in recording.events if e.kind == "Failed"}
    for event in again.events:
        lacks = event.kind == "Failed" and names_lack(event.text)
        if lacks and (event.source, event.tag) not in known:
            raise ControllerError(
                f"flown again, {event.source} failed at {event.tag}: {event.text}\n"
                f"the run in {recording.source} has no such failure: {_NOT_HERE}"
            )


def ended_otherwise(
    recording: Recording, again: Recording, last_ns: int | None = None
) -> Difference | None:
    """Where one of a recorded run and its re-run ended in an error that the other does not have.

    ``last_ns``: the re-run was to end there, and what ended the recorded one later is none.
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
    """Up to where (ns) it is flown again; one that died, up to behind the tag at which it did."""
    return recording.end_ns + (died_of(recording) is not None)
