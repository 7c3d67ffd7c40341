"""Generate static assertions in C, which compare each C object with the interface file.

The assertions check the type and the shape of the object.  The assertions of one signal form one
line of C, so that a compiler error gives the signal's line in the interface file.  ``_Generic`` is
applied to the object's address, because C does not convert the type behind an address.
"""

from __future__ import annotations

from collections.abc import Iterator

from hitl.interface.fields import Field

_SIGNED = ("signed char", "short", "int", "long", "long long")
_UNSIGNED = tuple(f"unsigned {kind.removeprefix('signed ')}" for kind in _SIGNED)
_FLOATING = ("float", "double", "long double")
_TYPES = ("_Bool", "char", *_SIGNED, *_UNSIGNED, *_FLOATING)
_ALLOWED = {
    "bool": ("_Bool", "char", "signed char", "unsigned char"),
    "int": ("char", *_SIGNED),
    "uint": ("char", *_UNSIGNED),
    "float": _FLOATING,
}
"""Allowed types in C, by kind of type in the interface file; another assertion checks the size."""
_CHAR_IS = {"int": "(char)-1 < 0", "uint": "(char)-1 > 0"}


def type_bytes(type: str) -> int:
    """Return the size of one element of ``type`` in C, bytes."""
    return 1 if type == "bool" else int(type.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def element_of(place: Field, index: str = "0") -> str:
    """Return the C expression of one element; ``index`` counts row by row."""
    shape, out = place.signal.shape, f"({place.lvalue})"
    if len(shape) < 2:
        return f"{out}[{index}]" if shape else out
    if index == "0":
        return out + "[0]" * len(shape)
    below = place.signal.size
    for count in shape:
        below //= count
        out += f"[{index} / {below}u % {count}u]"
    return out


def assertions(place: Field, written: bool, cpp: bool = False) -> str:
    """Return the assertions as one line of C, or of C++ if ``cpp``.

    ``written`` is True if the generated code assigns to the object, which then must not be const.
    """
    name, word = place.signal.name, "static_assert" if cpp else "_Static_assert"
    return " ".join(
        f'{word}({check}, "{name}{text}");' for check, text in _checks(place, written, cpp)
    )


def _array(element: str, shape: list[int], cpp: bool) -> str:
    """Return the type of an array; g++ takes ``__typeof__(x)[3]`` for an expression."""
    if not cpp:
        return element + "".join(f"[{n}]" for n in shape)
    for count in reversed(shape):
        element = f"rtsim_array<{element} RTSIM_COMMA {count}>::plain"
    return element


def _checks(place: Field, written: bool, cpp: bool) -> Iterator[tuple[str, str]]:
    signal, element = place.signal, element_of(place)
    # Not in a macro: the error for an object without an address must name this line.
    yield f"sizeof(&{element}) > 0", " is no object of C"
    if signal.shape:
        said, of = list(signal.shape), f"__typeof__({element})"
        check = f"RTSIM_SAME({place.lvalue}, {_array(of, said, cpp)})"
        yield check, f" has shape = {said} here and another shape in C"
    kind = signal.type.rstrip("0123456789")
    size = type_bytes(signal.type)
    yield f"!RTSIM_IS_ADDRESS({element})", " is an array or a pointer in C: give its shape"
    for other in _TYPES:
        c_type = "bool" if cpp and other == "_Bool" else other
        check = f"!RTSIM_IS({element}, {c_type})"
        if other in _ALLOWED[kind]:
            check += f" || (sizeof({c_type}) == {size}"
            check += f" && {_CHAR_IS[kind]})" if other == "char" and kind in _CHAR_IS else ")"
        yield check, f" is {signal.type} here and {c_type} in C: make them the same"
    yield f"RTSIM_IS_NUMBER({element})", " is no number in C: name one of its members"
    if written:
        yield f"!RTSIM_IS_CONST({element})", " is const in C: nothing can be written to it"
