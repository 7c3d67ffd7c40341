"""The table that a stretch works on: names for the places of its words.

The kernel (:mod:`rtsim.engine.compiled.kernel`) receives one vector of 64-bit words.  It begins
with the header.  Tables of rows follow; each table holds the rows of one kind (plants, tasks,
topics, ...).  A vector takes two words: its address and its length.

Words from ``CHANGING`` on change during a stretch.  The kernel copies them at the beginning of each
tag, so that a tag which it cannot finish can be undone.
"""

from __future__ import annotations

NOTHING = -1
"""Marks a word without a value: no provisional step, no message, or no random number."""
FAR = 2**63 - 1
"""A time (ns) later than the end of every run."""

# -- the header: where tables begin, and how many rows they have

(
    LIMIT,  # ns: this tag and later tags are not run
    MOST,  # number of tags after which the call returns
    PLANTS, PLANT_COUNT,
    TASKS, TASK_COUNT,
    ANSWERS, ANSWER_COUNT,  # rows of controllers, in the order in which answers are sent
    TOPICS, TOPIC_COUNT,
    TRACKS,
    DRAWS, DRAW_COUNT,  # random numbers that were drawn ahead
    FLIGHT, FLIGHT_ROOM,  # messages in transit: a binary heap
    SLOTS,  # one word for each payload in transit: 1 if it is in use
    PAYLOADS, PAYLOADS_LENGTH, PAYLOAD_WIDTH,  # a row of doubles for each slot
    SPANS, SPAN_COUNT,  # vectors that change during a tag, and where they are copied to
    PLANT_SPANS,  # the first ones: those of the plants
    PLANT_WORDS,  # number of words from CHANGING on that plants and tracks change
    SAVED_WORDS, SAVED_WORDS_LENGTH,  # copies of the words from CHANGING on
    CHANGING,
    CHANGED, CHANGED_LENGTH,  # the words from CHANGING on, as a vector
    COUPLED,  # 1 if a plant reads another plant, or has not read a message yet
    PACE, PACE_LENGTH,  # the words of a paced run, below; a length of 0 if the run is not paced
    TIMING,  # the track of the frames' timing
    LAST,  # 1 if the tag at LIMIT is the last one of the run, and is run too
    HEADER,
) = range(34)  # fmt: skip

# -- the header's part of the words that change, counted from CHANGING

(NOW, IN_FLIGHT, NEXT_SLOT, ROLLED, DRY, IN_TAG, ANSWER, PAUSED, HEADER_STATE) = range(9)
UNDO_ALL, UNDO_PLANTS = 1, 2
"""Values of IN_TAG in a tag that is not complete: how much was copied at its beginning.  The value
between two tags is 0."""

# -- a plant

(
    P_STATE,
    P_STEP, P_WORDS, P_WORDS_LENGTH,  # the solver's step, and the block of its vectors
    P_OUTPUT, P_OUTPUT_LENGTH,  # the block of the output function
    P_X, P_X_LENGTH,
    P_NEXT, P_NEXT_LENGTH,
    P_MEMORY, P_MEMORY_LENGTH,
    P_AFTER, P_AFTER_LENGTH,
    P_KEPT,  # the first double of the solver's memory that a change from outside leaves
    P_VALUES, P_VALUES_LENGTH,
    P_U, P_U_LENGTH,
    P_INTO, P_INTO_LENGTH,  # what the wires read
    P_COPIES, P_COPY_COUNT,
    P_NUMERATOR, P_DENOMINATOR,  # the step, ns
    P_COUPLED,
    P_TRACK,
    P_DRIVE,  # the way under guards; 0 if the plant has none
    P_GUARD_TABLE, P_GUARD_TABLE_LENGTH,  # of rtsim.solve.guard_table
    P_GUARDS, P_GUARDS_LENGTH,  # the block of the guards' values
    P_G, P_G_LENGTH,
    PLANT,
) = range(35)  # fmt: skip
(S_NS, S_TARGET, S_K, S_GRID, S_STALE, S_TOUCHED, S_UNSETTLED, S_HERE, PLANT_STATE) = range(9)

# -- a task: a controller, a sensor, or the discrete update of a plant

CONTROLLER, SENSOR, UPDATE, NOISE, TIMERS = range(5)
(
    T_STATE,
    T_KIND,
    T_NUMERATOR, T_DENOMINATOR, T_OFFSET,  # the ticks, ns
    T_FUNCTION,
    T_FIRST, T_FIRST_LENGTH,  # the function's four vectors
    T_SECOND, T_SECOND_LENGTH,
    T_THIRD, T_THIRD_LENGTH,
    T_FOURTH, T_FOURTH_LENGTH,
    T_INTO, T_INTO_LENGTH,  # what the wires read
    T_COPIES, T_COPY_COUNT,
    T_TOPIC,
    T_TRACK,  # of a controller's sampled inputs
    T_DELAY, T_DRAW,  # compute latency, ns; or the row of the draws of a task
    T_PLANT,
    T_Z, T_Z_LENGTH,  # the discrete state that an update writes
    T_ORDERED,  # 1 if a declared order puts other tasks after it
    T_TIMERS, T_TIMER_COUNT,
    T_PORT, T_PORT_LENGTH,  # what a noise writes, or where a timer draws
    T_EARLY, T_EARLY_LENGTH,
    T_READERS, T_READER_COUNT,  # plants that read it
    TASK,
) = range(35)  # fmt: skip
(
    K_NEXT, K_TICKS, K_SEQUENCE, K_WRITES,
    K_OPEN, K_TAG, K_TAG_STEP, K_DUE, K_DUE_STEP,  # the request under way
    TASK_STATE,
) = range(10)  # fmt: skip

# -- a topic

(
    M_STATE, M_SOURCE, M_NAME,  # ranks of the names of its sender and itself
    M_DELAY, M_DRAW, M_ORDERED,
    M_VALUE, M_VALUE_LENGTH,
    M_EARLY, M_EARLY_LENGTH,
    M_READERS, M_READER_COUNT,  # rows of plants
    M_TRACK,
    M_IMMEDIATE,  # 1 if a zero delay arrives within the sender's microstep
    TOPIC,
) = range(15)  # fmt: skip
(Q_SEQUENCE, Q_LAST, Q_LAST_STEP, Q_WRITES, TOPIC_STATE) = range(5)

# -- a track of the recording

(R_STATE, R_WIDTH, R_CAPACITY, TRACK) = range(4)
(B_BLOCK, B_BLOCK_LENGTH, B_SPARE, B_SPARE_LENGTH, B_ROW, B_ROLLED, TRACK_STATE) = range(7)

# -- numbers that were drawn ahead: rows of WIDTH doubles, or of one integer

LOST = -1
(D_STATE, D_VALUES, D_VALUES_LENGTH, D_WIDTH, DRAW) = range(5)
(C_NEXT, DRAW_STATE) = range(2)

# -- a timer: a denominator of 0 is one that ticks once

(I_STATE, I_NUMERATOR, I_DENOMINATOR, I_OFFSET, TIMER) = range(5)
(J_NEXT, J_TICKS, TIMER_STATE) = range(3)

# -- copies along wires: into, its length, from, its length

COPY = 4

# -- a vector that changes during a tag, and its copy: address and length of each

SPAN = 4

# -- a message in transit; rows are ordered by their first five words

(
    F_NS, F_STEP, F_SOURCE, F_NAME, F_SEQUENCE,
    F_TOPIC, F_INITIATED, F_INITIATED_STEP, F_COMPLETED, F_COMPLETED_STEP, F_SLOT,
    MESSAGE,
) = range(12)  # fmt: skip

# -- a paced run: how it waits, the frame under way, and the frames since Python took them

(
    W_TIME_CALL, W_SLEEP_CALL, W_READ_CALL,  # addresses of the C library's functions
    W_SECONDS, W_NANOSECONDS,  # a time, as the C library has it
    W_TIME_AT, W_TEXT_AT,  # addresses of W_SECONDS and W_TEXT
    W_FILE,  # the open file with the run delay; -1 if there is none
    W_PEEK_CALL, W_SOCKET,  # a call that looks for commands, and where; -1 if nowhere
    W_GIVEN, W_GIVEN_LENGTH, W_GIVEN_SEEN,  # a word that counts commands, and its value before
    W_SIMULATED, W_OWN, W_NUMERATOR, W_DENOMINATOR,  # when simulated time is due
    W_SPIN, W_LEAST_SPIN, W_MOST_SPIN, W_BOUND,  # the busy-wait window, ns
    W_TOLERANCE,
    W_CALLED,  # when Python called, ns
    W_BRIEF, W_LONG,  # ns after which Python is called again: with time to spare, and anyway
    W_REACHED,  # the tag that was waited for already; NOTHING if none was
    W_RESUMED, W_LAP_AT, W_SPENT, W_BEGAN_LATE, W_LATE_BY_WAKE, W_WOKE_LATE, W_MARGIN, W_TAG,
    W_CLOSED, W_NEXT, W_CULPRIT, W_CULPRIT_NS, W_STOOD, W_STOOD_BEFORE,
    W_LAST_LATE, W_LAST_COMPUTE, W_LAST_MARGIN,  # the row of the frame last closed
    W_JOBS, W_JOBS_LENGTH,  # ns of each job
    # bins and totals of the three spreads
    W_LATE, W_LATE_LENGTH, W_LATE_TOTALS, W_LATE_TOTALS_LENGTH,
    W_COMPUTE, W_COMPUTE_LENGTH, W_COMPUTE_TOTALS, W_COMPUTE_TOTALS_LENGTH,
    W_MARGINS, W_MARGINS_LENGTH, W_MARGINS_TOTALS, W_MARGINS_TOTALS_LENGTH,
    W_FRAMES,  # frames closed since Python took them
    W_LEAST,  # a frame with a longer response [ns] is among the worst
    W_WORST, W_WORST_LENGTH, W_WORST_COUNT,
    W_ALLOWED, W_CONSECUTIVE, W_COUNTED, W_FRAME,  # what the overrun policy counts
    W_OVERRUNS, W_OVERRUNS_LENGTH, W_OVERRUN_COUNT,
    W_TEXT,  # what the file with the run delay says
) = range(70)  # fmt: skip
TEXT_WORDS = 12
PACED = W_TEXT + TEXT_WORDS
NO_SAMPLE = -(2**63)
JOB_NEXT, JOB_RECORDING, FIRST_TASK_JOB = range(3)
REST_JOB, NO_JOB = -1, -2
WORST_HEAD = 3  # tag, lateness, compute time; then the jobs
OVERRUN_WORDS = 6  # of rtsim.timing.policy.CaughtUp
