"""Two processes at one record, as hard as they can: what is read was written, whole, in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signal, Signals
from rtsim.pilot.shared import LINE, PAIR, Reader, Schema, Shape, Shared, Writer

SIZE = 4096
READS = 20_000
LONGEST_NS = 20_000_000_000
SCHEMA = Schema((("big", Signals(Signal("x", shape=(SIZE,)))),), Signals("stick"))

HAMMER = """
import sys, threading
from pathlib import Path
from rtsim.pilot.shared import Shared
shared = Shared.open(Path(sys.argv[1]))
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
writer, reader = shared.writer("plant/big"), shared.reader("stick")
n = last = seen = 0
print("ready", flush=True)
while not over.is_set():
    n += 1
    writer.integers[:] = n
    writer.floats[:] = n
    writer.publish()
    got = reader.read()
    if got is not None:
        seen += got.number > last
        assert got.number >= last, "went back"
        last = got.number
        assert (got.integers == got.number).all() and got.floats[0] == got.number, "torn"
print(seen)
"""


class Unchecked(Reader):
    """The lock broken: believes whatever it copied."""

    def _copy(self, number: int) -> NDArray[np.uint8] | None:
        return self._slots.payloads[number % 2].copy()


@contextmanager
def hammered(folder: Path) -> Iterator[tuple[Shared, subprocess.Popen[str]]]:
    """Somebody writes the plant's record and reads the stick's, without a pause."""
    shared = Shared.create(SCHEMA, folder)
    child = subprocess.Popen(
        [sys.executable, "-c", HAMMER, str(shared.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield shared, child
    finally:
        child.kill()
        child.communicate()
        shared.close()


def torn(integers: NDArray[np.int64], floats: NDArray[np.float64]) -> bool:
    """A mixture of records: each is one number all through."""
    return bool((integers != integers[0]).any() or (floats != integers[0]).any())


def test_no_record_is_torn_and_none_comes_back(tmp_path: Path) -> None:
    with hammered(tmp_path) as (shared, child):
        reader, stick = shared.reader("plant/big"), shared.writer("stick")
        numbers: list[int] = []
        until = stopwatch() + LONGEST_NS
        while len(numbers) < READS and stopwatch() < until:
            stick.integers[:] = stick.floats[:] = stick.number + 1
            stick.publish()
            record = reader.read()
            if record is None:
                continue
            assert record.integers.size == len(PAIR)
            assert not torn(record.integers, record.floats)
            assert record.integers[0] == record.number
            numbers.append(record.number)
        told, _ = child.communicate("")
    assert child.returncode == 0
    assert int(told) > 10  # the stick's way too
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 20


def test_without_the_check_such_records_are_torn(tmp_path: Path) -> None:
    """So that the test above could fail: the same hammer, and a reader that believes anything."""
    with hammered(tmp_path) as (shared, _):
        _, shape = shared.schema.places()[0]["plant/big"]
        at = shared.schema.places()[0]["plant/big"][0]
        reader = Unchecked(shared._view[at : at + shape.size], shape)
        until = stopwatch() + LONGEST_NS
        while stopwatch() < until:
            record = reader.read()
            if record is not None and torn(record.integers, record.floats):
                return
    pytest.fail("a reader without the check was never wrong: the hammer is too soft")


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), max_size=9))
def test_the_last_record_is_what_is_read(rows: list[list[int]]) -> None:
    shape = Shape(3, 2)
    memory = memoryview(bytearray(shape.size))
    writer, reader = Writer(memory, shape), Reader(memory, shape)
    assert reader.read() is None
    for k, row in enumerate(rows):
        writer.integers[:] = row
        writer.floats[:] = (k, -0.0)
        assert writer.publish() == reader.number == k + 1
        record = reader.read()
        assert record is not None
        assert record.integers.tolist() == row
        assert record.floats.tolist() == [k, -0.0]


@given(st.data())
def test_a_writer_that_stops_in_the_middle_leaves_the_record_before(data: st.DataObject) -> None:
    """Whatever has been changed of the slot that it was at, the reader neither waits nor errs."""
    shape = Shape(2, 3)
    memory = bytearray(shape.size)
    writer, reader = Writer(memoryview(memory), shape), Reader(memoryview(memory), shape)
    for k in range(data.draw(st.integers(1, 4))):
        writer.integers[:] = writer.floats[:] = k
        writer.publish()
    at = LINE + (writer.number + 1) % 2 * shape.slot
    length = data.draw(st.integers(0, shape.slot))
    memory[at : at + length] = data.draw(st.binary(min_size=length, max_size=length))
    record = reader.read()
    assert record is not None
    assert record.number == writer.number
    assert not torn(record.integers, record.floats)


@given(st.data())
def test_no_bit_of_a_record_turns_unnoticed(data: st.DataObject) -> None:
    shape = Shape(2, 3)
    memory = bytearray(shape.size)
    writer, reader = Writer(memoryview(memory), shape), Reader(memoryview(memory), shape)
    writer.publish()
    slot = LINE + shape.slot
    bit = data.draw(st.integers(8 * slot, 8 * (slot + 16 + shape.payload) - 1))
    memory[bit // 8] ^= 1 << bit % 8
    assert reader.read() is None
    assert reader.overtaken
