"""Reads the TOML of users: each value that cannot be used is one kind of error.

Python's parser takes integers of any length.  For more than 4300 digits it raises another error
than for a wrong syntax, and ``float()`` fails later for more than 308 digits.
"""

from __future__ import annotations

import tomllib
from typing import Any

TOMLDecodeError = tomllib.TOMLDecodeError
_MOST = 1 << 63


def loads(text: str) -> dict[str, Any]:
    """Return the tables of ``text``; raises :class:`TOMLDecodeError` for wrong or too large values.

    An integer must have at most 64 bits, which is what TOML guarantees.
    """
    try:
        data = tomllib.loads(text)
        _check(data, "")
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise TOMLDecodeError("tables or lists are nested too deeply") from None
    except ValueError:
        raise TOMLDecodeError(
            "an integer has thousands of digits; write a number of at most 64 bits"
        ) from None
    return data


def _check(value: object, name: str) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            _check(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for each in value:
            _check(each, name)
    elif isinstance(value, int) and not -_MOST <= value < _MOST:
        raise TOMLDecodeError(
            f"{name} is an integer of {value.bit_length()} bits; write a number of at most 64 "
            "bits, or one with a decimal point"
        )
