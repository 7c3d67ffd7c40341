"""Parts of the compiled engine: the wait for each tag of a paced run, and the timing of its frame.

The reference is :class:`rtsim.timing.pacing.Pacer`, for a policy that catches up.  ``v`` is the
vector of the words that :mod:`rtsim.engine.compiled.layout` names ``W_...``.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.clock import MONOTONIC
from rtsim.core.tag import NS_PER_S
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.messages import UNRECORDED, new_row
from rtsim.equations.addresses import call_clock, call_peek, call_read, call_sleep, words_at
from rtsim.equations.compiling import compiled
from rtsim.timing.statistics import LOG_RATIO, SIDE

BEGIN, AGAIN, HAND_OVER = range(3)
"""Results of :func:`wait`: the tag can begin; Python must take the frames and call again; the
interpreter must run the tag."""
_ABSOLUTE = 1
_PEEK = 2 | 64
"""``MSG_PEEK | MSG_DONTWAIT`` of Linux."""
_SPARE_NS = 60_000
"""Time before the sleep in which Python can take the frames."""
_EASE_NS = 20
_FITS = 2**62
_SPARE_SPIN_NS = 20_000


@compiled
def now(v: Any) -> int:
    """Return the time of ``CLOCK_MONOTONIC``, ns."""
    call_clock(v[at.W_TIME_CALL], MONOTONIC, v[at.W_TIME_AT])
    return int(v[at.W_SECONDS] * NS_PER_S + v[at.W_NANOSECONDS])


@compiled
def divided(ns: int, denominator: int, numerator: int) -> int:
    """Return ``ns * denominator // numerator``, exact although the product may exceed 64 bits.

    Numerator and denominator are below 2**62, and the result fits 64 bits.
    """
    whole = ns // numerator
    rest = ns - whole * numerator  # from 0 up to the numerator
    if rest <= _FITS // denominator:
        return int(whole * denominator + rest * denominator // numerator)
    quotient, left = 0, 0
    for bit in range(61, -1, -1):  # long division of the product, one bit of a factor at a time
        quotient, left = 2 * quotient, 2 * left
        if left >= numerator:
            quotient, left = quotient + 1, left - numerator
        if (denominator >> bit) & 1:
            left += rest
            if left >= numerator:
                quotient, left = quotient + 1, left - numerator
    return int(whole * denominator + quotient)


@compiled
def wait(w: Any, ns: int) -> int:
    """Wait until the simulated time ``ns`` is due; return BEGIN, AGAIN or HAND_OVER."""
    v = words_at(w, at.PACE)
    if v[at.W_REACHED] == ns:
        v[at.W_REACHED] = at.NOTHING
        return BEGIN
    answer = _wait(v, ns)
    if answer == BEGIN and _commanded(v):
        v[at.W_REACHED] = ns
        return HAND_OVER
    return answer


@compiled
def _wait(v: Any, ns: int) -> int:
    arrived = now(v)
    since = divided(v[at.W_SIMULATED] - ns, v[at.W_DENOMINATOR], v[at.W_NUMERATOR])
    due = v[at.W_OWN] - since
    late = arrived - due
    if _python_is_needed(v, arrived, late):
        return AGAIN
    if late > v[at.W_TOLERANCE] and not _may_catch_up(v, ns):
        return HAND_OVER
    _note_compute(v, arrived)
    v[at.W_MARGIN] = v[at.W_TOLERANCE] - late
    if late >= 0:
        _begin_late(v, ns, arrived, late)
        return BEGIN
    _on_time(v)
    v[at.W_CULPRIT_NS], v[at.W_STOOD] = -1, at.NOTHING
    _close(v)
    _begin(v, ns, arrived)
    v[at.W_STOOD_BEFORE] = _run_delay(v)
    return _sleep_and_spin(v, ns, due)


@compiled
def _python_is_needed(v: Any, arrived: int, late: int) -> bool:
    """The buffers are nearly full, or it is time for the recorder, and for signals."""
    row_words = at.WORST_HEAD + v[at.W_JOBS_LENGTH]
    worst_room = v[at.W_WORST_LENGTH] - (v[at.W_WORST_COUNT] + 1) * row_words
    overrun_room = v[at.W_OVERRUNS_LENGTH] - (v[at.W_OVERRUN_COUNT] + 1) * at.OVERRUN_WORDS
    if worst_room < 0 or overrun_room < 0:
        return True
    since = arrived - v[at.W_CALLED]
    if since > v[at.W_LONG]:
        return True
    return late < -_SPARE_NS and since > v[at.W_BRIEF]


@compiled
def _commanded(v: Any) -> bool:
    """Whether a command waits: a word in memory has changed, or a socket can be read."""
    if v[at.W_GIVEN_LENGTH] and words_at(v, at.W_GIVEN)[0] != v[at.W_GIVEN_SEEN]:
        return True
    if v[at.W_SOCKET] < 0:
        return False
    # 0: the other end is closed, and Python has to note it
    return call_peek(v[at.W_PEEK_CALL], v[at.W_SOCKET], v[at.W_TEXT_AT], _PEEK) >= 0


@compiled
def _sleep_and_spin(v: Any, ns: int, due: int) -> int:
    slept = False
    bell = due - v[at.W_SPIN]
    while now(v) < bell:
        v[at.W_SECONDS], v[at.W_NANOSECONDS] = bell // NS_PER_S, bell % NS_PER_S
        if call_sleep(v[at.W_SLEEP_CALL], MONOTONIC, _ABSOLUTE, v[at.W_TIME_AT]) != 0:
            v[at.W_CALLED] = 0  # a signal: Python is called before the next wait
        slept = True
    if slept:
        _retune(v, due - now(v))
    woke = now(v)
    while woke < due:
        woke = now(v)
    late = woke - due
    v[at.W_RESUMED] = v[at.W_LAP_AT] = woke
    v[at.W_WOKE_LATE] = v[at.W_BEGAN_LATE] = v[at.W_LATE_BY_WAKE] = late
    if late <= v[at.W_TOLERANCE]:
        return BEGIN
    delay = _run_delay(v)
    if delay >= 0 and v[at.W_STOOD_BEFORE] >= 0:
        v[at.W_STOOD] = delay - v[at.W_STOOD_BEFORE]
    if not _may_catch_up(v, ns):
        v[at.W_CLOSED], v[at.W_REACHED] = 1, ns
        return HAND_OVER
    _overrun(v, ns, late, 1, at.NO_JOB, v[at.W_STOOD])
    return BEGIN


@compiled
def _retune(v: Any, left: int) -> None:
    """Adapt the busy-wait window: :meth:`rtsim.core.clock.WallClock.wait_until`."""
    spin = v[at.W_SPIN]
    if left >= 0:
        if spin > v[at.W_LEAST_SPIN]:
            v[at.W_SPIN] = max(v[at.W_LEAST_SPIN], spin - _EASE_NS)
    elif spin - left <= v[at.W_BOUND]:
        v[at.W_SPIN] = min(v[at.W_BOUND], spin - left + _SPARE_SPIN_NS)
        v[at.W_MOST_SPIN] = max(v[at.W_MOST_SPIN], v[at.W_SPIN])


@compiled
def _begin_late(v: Any, ns: int, arrived: int, late: int) -> None:
    """The tag is already due: late wakes before it caused a part of its lateness, or none."""
    by_wake = min(v[at.W_LATE_BY_WAKE], late)
    _close(v)
    v[at.W_BEGAN_LATE], v[at.W_LATE_BY_WAKE] = late, by_wake
    if v[at.W_SPENT] > v[at.W_CULPRIT_NS]:
        v[at.W_CULPRIT], v[at.W_CULPRIT_NS] = _longest_job(v), v[at.W_SPENT]
    if late <= v[at.W_TOLERANCE]:
        _on_time(v)
    elif 2 * by_wake > late:
        _overrun(v, ns, late, 1, at.NO_JOB, v[at.W_STOOD])
    else:
        _overrun(v, ns, late, 0, v[at.W_CULPRIT], at.NOTHING)
    _begin(v, ns, arrived)


@compiled
def _begin(v: Any, ns: int, arrived: int) -> None:
    v[at.W_TAG] = ns
    v[at.W_RESUMED] = v[at.W_LAP_AT] = arrived
    v[at.W_SPENT] = v[at.W_CLOSED] = v[at.W_NEXT] = 0
    jobs = words_at(v, at.W_JOBS)
    for i in range(jobs.size):
        jobs[i] = 0


@compiled
def _note_compute(v: Any, arrived: int) -> None:
    v[at.W_SPENT] += arrived - v[at.W_RESUMED]
    v[at.W_RESUMED] = arrived
    if v[at.W_NEXT]:
        words_at(v, at.W_JOBS)[at.JOB_NEXT] += arrived - v[at.W_LAP_AT]
        v[at.W_LAP_AT] = arrived


@compiled
def _close(v: Any) -> None:
    """Append the frame to the log; keep its jobs if it is among the worst."""
    if v[at.W_CLOSED]:
        return
    v[at.W_LAST_LATE], v[at.W_LAST_COMPUTE] = v[at.W_WOKE_LATE], v[at.W_SPENT]
    v[at.W_LAST_MARGIN] = v[at.W_MARGIN]
    _count(v, at.W_LATE, v[at.W_WOKE_LATE])
    _count(v, at.W_COMPUTE, v[at.W_SPENT])
    _count(v, at.W_MARGINS, v[at.W_MARGIN])
    v[at.W_FRAMES] += 1
    if v[at.W_BEGAN_LATE] + v[at.W_SPENT] > v[at.W_LEAST]:
        jobs, worst = words_at(v, at.W_JOBS), words_at(v, at.W_WORST)
        first = v[at.W_WORST_COUNT] * (at.WORST_HEAD + jobs.size)
        worst[first], worst[first + 1] = v[at.W_TAG], v[at.W_BEGAN_LATE]
        worst[first + 2] = v[at.W_SPENT]
        for i in range(jobs.size):
            worst[first + at.WORST_HEAD + i] = jobs[i]
        v[at.W_WORST_COUNT] += 1
    v[at.W_WOKE_LATE] = at.NO_SAMPLE
    v[at.W_CLOSED] = 1


@compiled
def _count(v: Any, spread: int, sample: int) -> None:
    """Add a sample: :meth:`rtsim.timing.statistics.Spread.add`."""
    if sample == at.NO_SAMPLE:
        return
    bins, totals, number = words_at(v, spread), words_at(v, spread + 2), 0
    if sample != 0:
        number = int(math.log(float(abs(sample))) / LOG_RATIO) + 1
        if sample < 0:
            number = -number
    bins[SIDE + number] += 1
    totals[0] += 1
    totals[1], totals[2] = min(totals[1], sample), max(totals[2], sample)


@compiled
def _longest_job(v: Any) -> int:
    """:meth:`rtsim.timing.frames.Frame.longest_job`."""
    jobs = words_at(v, at.W_JOBS)
    longest, total, most = at.REST_JOB, 0, 0
    for i in range(jobs.size):  # in the order of a frame: tasks, recording, the step
        job = (i + at.FIRST_TASK_JOB) % jobs.size
        if i >= jobs.size - at.FIRST_TASK_JOB:
            job = jobs.size - 1 - i
        total += jobs[job]
        if jobs[job] > most:
            longest, most = job, jobs[job]
    if v[at.W_SPENT] == 0:
        return at.NO_JOB
    return longest if most >= v[at.W_SPENT] - total else at.REST_JOB


# -- overruns, as rtsim.timing.pacing counts them


@compiled
def _on_time(v: Any) -> None:
    v[at.W_CONSECUTIVE] = v[at.W_COUNTED] = 0


@compiled
def _more(v: Any, ns: int) -> bool:
    return bool(v[at.W_CONSECUTIVE] == 0 or ns - v[at.W_COUNTED] >= v[at.W_FRAME])


@compiled
def _may_catch_up(v: Any, ns: int) -> bool:
    consecutive = v[at.W_CONSECUTIVE]
    if _more(v, ns):
        consecutive += 1
    return bool(consecutive <= v[at.W_ALLOWED])


@compiled
def _overrun(v: Any, ns: int, late: int, by_wake: int, job: int, stood: int) -> None:
    if _more(v, ns):
        v[at.W_CONSECUTIVE] += 1
        v[at.W_COUNTED] = ns
    rows, first = words_at(v, at.W_OVERRUNS), v[at.W_OVERRUN_COUNT] * at.OVERRUN_WORDS
    rows[first], rows[first + 1], rows[first + 2] = ns, late, by_wake
    rows[first + 3], rows[first + 4], rows[first + 5] = job, stood, v[at.W_CONSECUTIVE]
    v[at.W_OVERRUN_COUNT] += 1


@compiled
def _run_delay(v: Any) -> int:
    """The thread's wait for a CPU so far [ns]; NOTHING if the system does not count it."""
    if v[at.W_FILE] < 0:
        return at.NOTHING
    count = call_read(v[at.W_READ_CALL], v[at.W_FILE], v[at.W_TEXT_AT], 8 * at.TEXT_WORDS)
    numbers, figure = 0, 0
    for i in range(count):  # "ran stood times": the second of three decimal numbers
        letter = (v[at.W_TEXT + i // 8] >> (8 * (i % 8))) & 255
        if 48 <= letter <= 57:
            figure = 10 * figure + letter - 48
        else:
            numbers += 1
            if numbers == 2:
                return int(figure)
            figure = 0
    return at.NOTHING


# -- within the tag


@compiled
def lap(w: Any, job: int) -> None:
    """Add the time since the last call to the compute time of ``job``."""
    if w[at.PACE_LENGTH] == 0:
        return
    v = words_at(w, at.PACE)
    read = now(v)
    words_at(v, at.W_JOBS)[job] += read - v[at.W_LAP_AT]
    v[at.W_LAP_AT] = read


@compiled
def timing_row(w: Any, ns: int) -> bool:
    """Record the frame of the previous tag, at ``ns``; return False if the track is full."""
    v = words_at(w, at.PACE)
    track = w[at.TIMING]
    first = new_row(w, track)
    if first < 0:
        return first == UNRECORDED
    block = w[w[at.TRACKS] + track * at.TRACK + at.R_STATE] + at.B_BLOCK
    words = words_at(w, block)
    words[first], words[first + 1] = ns, v[at.W_LAST_LATE]
    words[first + 2], words[first + 3] = v[at.W_LAST_COMPUTE], v[at.W_LAST_MARGIN]
    return True


@compiled
def ready(w: Any) -> None:
    """Note that the tag is complete; later compute time belongs to the step to the next tag."""
    lap(w, at.JOB_RECORDING)
    words_at(w, at.PACE)[at.W_NEXT] = 1
