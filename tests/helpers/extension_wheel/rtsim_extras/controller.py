"""A controller that runs elsewhere: a process of its own keeps a sum."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

from rtsim import Signals
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

_PROGRAM = """
total = 0.0
while line := input():
    command, value = line.split()
    total = float(value) if command == "set" else total + float(value)
    print(repr(total), flush=True)
"""


class Summing:
    """The sum of its inputs; the protocols are Fresh, Savable and Described."""

    inputs, outputs, outside = Signals("u [1]"), Signals("total [1]"), True

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._total = 0.0

    def fresh(self) -> Summing:
        out, pipe = Summing(), subprocess.PIPE
        out._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=pipe, stdout=pipe, text=True
        )
        return out

    def _ask(self, command: str, value: float) -> None:
        assert self._process is not None
        print(command, repr(float(value)), file=self._process.stdin, flush=True)

    def _answer(self) -> float:
        assert self._process is not None
        assert self._process.stdout is not None
        self._total = float(self._process.stdout.readline())
        return self._total

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self._ask("add", inputs[0])

    def receive(self, tag: Tag, patience: float) -> Vector:  # noqa: ARG002
        return np.array([self._answer()])

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate("\n")
            self._process = None

    def save(self) -> dict[str, Any]:
        return {"total": self._total}

    def restore(self, saved: dict[str, Any]) -> None:
        self._ask("set", saved["total"])
        self._answer()

    def describe(self) -> dict[str, Any]:
        return {"type": "Summing", "program": "python"}
