"""Store machine code in files, and link and call it without the compiler.

numba and LLVM's optimizer take half a second to load. A run reads object code from the cache, links
it with LLVM's linker, and calls it through ctypes. ``docs/decisions/093`` contains the
measurements.

Python calls a function through its *entry*: ``entry(block, numbers...)``. After an error in a
function, the first word of the array ``block`` is the address of the error. The next words of
``block`` are the address and the lengths of each array.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from rtsim.core.raised import OutOfBounds
from rtsim.equations.addresses import MATRIX, NUMBER, AddressBlock, Signature, is_array
from rtsim.equations.numba_private import exception_at

FAILED = -(2**63)
"""Result of an entry if the function raised an error. The first word of ``block`` is then the
address of the error.
"""
_MAGIC = b"rtsim machine code 2\n"
_DIGEST = hashlib.sha256
_DIGEST_SIZE = 32

Array = NDArray[Any]


@dataclass(frozen=True)
class MachineCode:
    """One function as object code.

    Compiled code calls the symbol ``handle``, and Python calls the symbol ``entry``. ``elsewhere``
    contains the addresses of symbols that another linker has loaded. If the function can raise an
    error, ``raises_in`` contains its file and line.
    """

    objects: tuple[bytes, ...]
    handle: str
    entry: str
    raises_in: str = ""
    elsewhere: dict[str, int] = field(default_factory=dict)
    alive: object = None
    """Objects that must not be deleted while the addresses in ``elsewhere`` are in use."""

    def write(self, path: Path) -> None:
        """Save the code to ``path``; raises :class:`OSError` if the folder cannot be written."""
        names = {"handle": self.handle, "entry": self.entry, "raises_in": self.raises_in}
        head = json.dumps({**names, "sizes": [len(one) for one in self.objects]}).encode() + b"\n"
        body = b"".join((head, *self.objects))
        write_at_once(path, _MAGIC + _DIGEST(body).digest() + body)

    @classmethod
    def read(cls, path: Path) -> MachineCode | None:
        """Return the saved code, or ``None`` if the file is missing or damaged."""
        try:
            data = path.read_bytes()
        except OSError:
            return None
        at = len(_MAGIC) + _DIGEST_SIZE
        body = data[at:]
        if data[:at] != _MAGIC + _DIGEST(body).digest():
            return None
        line, _, rest = body.partition(b"\n")
        head, objects = json.loads(line), []
        for size in head["sizes"]:
            objects.append(rest[:size])
            rest = rest[size:]
        return cls(tuple(objects), head["handle"], head["entry"], head["raises_in"])


def write_at_once(path: Path, data: bytes) -> None:
    """Write a file such that other processes see either the complete file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(number, "wb") as out:
            out.write(data)
        os.chmod(name, 0o644)  # every user who can open the folder may read its files
        os.replace(name, path)
    except BaseException:  # even an interrupt leaves no incomplete file
        os.unlink(name)
        raise


def where(plain: Callable[..., Any]) -> str:
    """Return the file and the first line of a function."""
    return f"{plain.__code__.co_filename}:{plain.__code__.co_firstlineno}"


@cache
def processor() -> str:
    """Return the name and features of the processor for which machine code is compiled."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


@cache
def vectors_have_their_own_functions() -> bool:
    """Return whether compiled loops use Intel's vector functions, which round differently."""
    names = {"linux": "libsvml.so", "darwin": "libsvml.dylib", "win32": "svml_dispmd"}
    if not llvm.targets.has_svml() or sys.platform not in names:
        return False
    try:
        ctypes.CDLL(names[sys.platform])
    except OSError:
        return False
    return True


@cache
def target_machine() -> Any:
    """Return LLVM's description of this processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        codemodel="jitdefault",
    )


@cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(target_machine(), suppress_errors=True)


@cache
def _numbers() -> Iterator[int]:
    return count()


@dataclass(frozen=True)
class Linked:
    """Machine code linked into this process, valid as long as this object exists."""

    handle: int
    entry: int
    _code: Any


def link(code: MachineCode) -> Linked:
    """Link ``code`` into this process.

    Raises ``RuntimeError`` if a symbol that the code needs is missing in this process.
    """
    library = llvm.JITLibraryBuilder()
    for data in code.objects:
        library.add_object_img(data)
    for name, address in {**_unused(), **code.elsewhere}.items():
        library.import_symbol(name, address)
    for name in {code.handle, code.entry} - code.elsewhere.keys():
        library.export_symbol(name)
    tracker = library.add_current_process().link(_linker(), f"rtsim{next(_numbers())}")
    handle = code.elsewhere.get(code.handle) or tracker[code.handle]
    return Linked(handle, tracker[code.entry], (tracker, code.alive))


NEVER_CALLED = "NRT_MemInfo_call_dtor"
"""A symbol to which code refers when it releases an array.

The function is called only for arrays that numba has allocated, and therefore never in code without
allocations.
"""


@cache
def _unused() -> dict[str, int]:
    stop = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    assert stop is not None
    return {NEVER_CALLED: stop}


# -- calls from Python -----------------------------------------------------------------------------


@dataclass(frozen=True)
class BareCall:
    """A compiled function whose arguments are fixed. Call it as ``function(at)``.

    If a call returns ``FAILED``, the method ``error`` returns the exception.
    """

    function: Callable[[Any], int]
    at: Any
    block: NDArray[np.int64]
    alive: object

    def error(self) -> BaseException:
        return _raised(int(self.block[0]))


class EntryPoint:
    """A compiled function that Python calls with the arguments of its signature.

    The call returns the integer result of the function, or 0 if the function returns nothing.
    Raises the errors of the function, and ``TypeError`` for an unsuitable array.
    """

    source: Any = None
    """The function from which the machine code was compiled."""

    def __init__(self, linked: Linked, signature: Signature) -> None:
        kinds = [k for k in signature if not is_array(k)]
        numbers = [ctypes.c_double if k == NUMBER else ctypes.c_int64 for k in kinds]
        # PYFUNCTYPE keeps the interpreter's lock: releasing it would cost more than a short call
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *numbers)
        self._function = prototype(linked.entry)
        free = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *numbers)
        self._concurrent = free(linked.entry)
        self._signature = signature
        self._linked = linked
        self._arrays = tuple(i for i, kind in enumerate(signature) if is_array(kind))
        self._numbers = tuple(i for i, kind in enumerate(signature) if not is_array(kind))

    def __call__(self, *arguments: Any) -> int:
        if len(arguments) != len(self._signature):
            raise TypeError(
                f"the compiled function takes {len(self._signature)} arguments, but got "
                f"{len(arguments)}"
            )
        bound = self.on(*(arguments[i] for i in self._arrays))
        return bound(*(arguments[i] for i in self._numbers))

    def on(self, *arrays: Array | AddressBlock, concurrent: bool = False) -> Callable[..., int]:
        """Bind ``arrays``, and return a function of the remaining arguments.

        With ``concurrent=True``, other Python threads run during each call. The binding takes some
        6 us, so bind the arrays once for repeated calls.
        """
        block = self._block(arrays)
        function = self._concurrent if concurrent else self._function
        at, error = block.ctypes.data, self._error
        alive = (arrays, self._linked)

        def call(*numbers: Any) -> int:
            answer: int = function(at, *numbers)
            if answer == FAILED:
                raise error(int(block[0]), alive)
            return answer

        def call_with_one(number: Any) -> int:  # for equations; ``*numbers`` would cost 60 ns
            answer: int = function(at, number)
            if answer == FAILED:
                raise error(int(block[0]), alive)
            return answer

        def call_with_two(first: Any, second: Any) -> int:  # for solver steps: t and h
            answer: int = function(at, first, second)
            if answer == FAILED:
                raise error(int(block[0]), alive)
            return answer

        count = len(self._signature) - len(arrays)
        return call_with_one if count == 1 else call_with_two if count == 2 else call

    def bare(self, *arrays: Array | AddressBlock) -> BareCall:
        """Bind ``arrays`` as the only arguments of the function."""
        block = self._block(arrays)
        # Without argument types ctypes takes a reference as it is: 0.06 us less than a c_void_p.
        function = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._linked.entry)
        at = ctypes.byref(ctypes.c_int64.from_buffer(block.data))
        return BareCall(function, at, block, (arrays, self._linked))

    def _block(self, arrays: tuple[Array | AddressBlock, ...]) -> NDArray[np.int64]:
        words, kinds = [0], [k for k in self._signature if is_array(k)]
        for given, kind in zip(arrays, kinds, strict=True):
            array = given.words if isinstance(given, AddressBlock) else given
            wanted = np.float64 if kind.startswith("float64") else np.int64
            dimensions = 2 if kind == MATRIX else 1
            if array.dtype != wanted or array.ndim != dimensions or not array.flags.c_contiguous:
                raise TypeError(
                    f"compiled code expects a contiguous {np.dtype(wanted)} array with "
                    f"{dimensions} dimensions; got {array.dtype} with shape {array.shape}"
                    + ("" if array.flags.c_contiguous else ", not contiguous")
                )
            words += [array.ctypes.data, *array.shape]
        return np.array(words, dtype=np.int64)

    @staticmethod
    def _error(address: int, _: object) -> BaseException:
        return _raised(address)


_OUT_OF_BOUNDS = ("index is out of bounds",)
"""The arguments of the IndexError that numba raises for a bad index."""


def _raised(address: int) -> BaseException:
    if not address:
        return SystemError("compiled code reported an error but raised no exception")
    error = exception_at(address)
    return OutOfBounds() if error.args == _OUT_OF_BOUNDS else error
