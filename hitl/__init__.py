"""Controllers in C, boards and rigs in the loop.

The package has four context managers for tests of a controller in C.  Each is loaded when it is
first used.  The pytest plugin has fixtures of the same names::

    from hitl import back_to_back, pitl, plant, sil

    with sil("pid.toml", gain=2.0) as controller:
        assert controller.step(setpoint=1.0).command == 2.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hitl.contexts import back_to_back, pitl
    from hitl.plants import plant
    from hitl.stepping import sil

_HOME_OF = {
    "back_to_back": "hitl.contexts",
    "pitl": "hitl.contexts",
    "plant": "hitl.plants",
    "sil": "hitl.stepping",
}

__all__ = ["back_to_back", "pitl", "plant", "sil"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hitl' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
