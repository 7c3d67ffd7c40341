"""A controller in C with memory of its own, for runs on both engines."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hitl.building.build import Build, build
from hitl.controllers.in_process import InProcess

_SOURCE = """
#include <stdlib.h>
static double sum;
static int calls;
void feedback(double m, double n, int fault, double *u, float *v, int *count)
{
    sum += 0.01 * m;
    calls++;
    if (fault == 1 && calls > 20) exit(3);
    *u = fault == 2 && calls > 20 ? 0.0 / 0.0 * sum : -0.2 * m - sum;
    *v = (float)n;
    *count = calls;
}
"""
_HEADER = "void feedback(double m, double n, int fault, double *u, float *v, int *count);\n"
_INTERFACE = """
name = "feedback"
any_period = true
period = 1
sources = ["feedback.c"]
headers = ["feedback.h"]
[code]
step = "feedback(m, n, fault, &u, &v, &count)"
[inputs]
m = {}
n = { type = "float64" }
small = { type = "int8" }
[outputs]
u = {}
v = { type = "float32" }
count = { type = "int32" }
[parameters]
fault = { type = "int32", initial = 0 }
"""
EXITS, NOT_FINITE = 1, 2
"""Values of the parameter ``fault``: what the C does at its 21st step."""


@cache
def built() -> Build:
    """The build, made once for a test process."""
    folder = Path(tempfile.mkdtemp(prefix="rtsim-called-"))
    (folder / "feedback.c").write_text(_SOURCE, encoding="utf-8")
    (folder / "feedback.h").write_text(_HEADER, encoding="utf-8")
    (folder / "feedback.toml").write_text(_INTERFACE, encoding="utf-8")
    return build(folder / "feedback.toml")


def in_c(fault: int = 0) -> InProcess:
    """The controller with inputs m, n and small, and outputs u, v and count."""
    return InProcess(built(), {"fault": fault})
