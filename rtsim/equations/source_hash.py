"""Hash the bytecode of a function and all objects that the function uses.

The hash is the name of a function in the cache of compiled code. A recording also contains the
hash, so that a replay can check that the equations are unchanged.

The hash covers helper functions, arrays, constants, classes and instances that the function uses.
File names, line numbers and docstrings have no effect on the hash.

For installed packages, the hash covers only names and versions. The hash omits modules imported
inside a function, and names that a function looks up as text. The hash differs between versions of
Python.
"""

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import gc
import hashlib
import importlib.metadata
import itertools
import struct
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

_INSTALLED = {"site-packages", "dist-packages"}
_SHIFTED = {"LOAD_GLOBAL", "LOAD_ATTR"} if sys.version_info >= (3, 12) else {"LOAD_GLOBAL"}
"""Instructions whose argument is twice the index of a name, or one more."""


def _opcodes(*names: str) -> dict[int, int]:
    return {dis.opmap[n]: int(n in _SHIFTED) for n in names if n in dis.opmap}


_GLOBAL_LOADS = _opcodes("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTE_LOADS = _opcodes("LOAD_ATTR", "LOAD_METHOD")
_CONSTANT_LOADS = frozenset(dis.hasconst)
# Attributes that Python adds to a class; some of them differ between processes.
_CLASS_MACHINERY = {
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
    "__slotnames__",
    "__annotations__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__firstlineno__",
    "__static_attributes__",
    "__abstractmethods__",
    "_abc_impl",
    "__parameters__",
    "__orig_bases__",
    "__match_args__",
    "__dataclass_params__",
}


def source_hash(*objects: object) -> str:
    """Return a hash (64 hex digits) of ``objects`` and all objects that they use."""
    walk = _Walk(_packages_of(objects))
    for one in objects:
        walk.add(one, root=True)
    return walk.digest.hexdigest()


_WEAK = frozenset(
    (
        weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, weakref.ref,
        *weakref.ProxyTypes,
    )
)  # fmt: skip


class _Walk:
    """Write objects to a hash, each with its length.

    Functions, classes and mutable objects are numbered in ``seen``, so that circular references
    end.
    """

    def __init__(self, own: frozenset[str]) -> None:
        self.digest = hashlib.sha256()
        self.own = own
        self.seen: dict[int, int] = {}
        self.alive: list[object] = []

    def token(self, kind: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        name = kind.encode()
        self.digest.update(struct.pack(">HQ", len(name), len(raw)) + name + raw)

    def add(self, value: object, root: bool = False) -> None:
        if self._plain(value) or self._sequence(value):
            return
        if id(value) in self.seen:
            self.token("again", str(self.seen[id(value)]))
            return
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, types.ModuleType):
            self._module(value, everything=root)
        elif isinstance(value, (list, set, Mapping)):
            self._container(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif not self._wrapper(value):
            self._instance(value)

    def _plain(self, value: object) -> bool:
        kind = type(value)
        if kind in _WEAK:  # a cache, or an object that another one owns
            self.token("weak", kind.__name__)
        elif value is None or value is ... or value is NotImplemented:
            self.token("constant", repr(value))
        elif kind in (bool, int, complex):
            self.token(kind.__name__, repr(value))
        elif isinstance(value, float) and kind is float:
            self.token("float", struct.pack(">d", value))
        elif kind is str or kind is bytes:
            self.token(kind.__name__, value)  # type: ignore[arg-type]
        elif isinstance(value, np.generic):
            self.token(f"numpy {value.dtype.str}", value.tobytes())
        elif isinstance(value, (np.dtype, range, slice, PurePath)) or _is_typing(value):
            self.token(kind.__name__, str(value))
        elif isinstance(value, (np.ufunc, types.BuiltinFunctionType)):
            self.token("builtin", f"{getattr(value, '__module__', '')}.{value.__name__}")
        else:
            return False
        return True

    def _sequence(self, value: object) -> bool:
        if isinstance(value, np.ndarray):
            self.token(f"array {value.dtype.str}", repr(value.shape))
            if value.dtype.hasobject:
                self._items(value.ravel())
            else:
                self.token("bytes", np.ascontiguousarray(value).tobytes())
        elif isinstance(value, frozenset):
            self._unordered(value)
        elif type(value) is tuple:
            self.token("tuple")
            self._items(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        else:
            return False
        return True

    def _items(self, values: Iterable[object]) -> None:
        for one in values:
            self.add(one)
        self.token("end")

    def _unordered(self, values: Iterable[object]) -> None:
        digests = []
        for one in values:
            inner = _Walk(self.own)
            inner.seen = dict(self.seen)
            inner.add(one)
            digests.append(inner.digest.digest())
        self.token("set", b"".join(sorted(digests)))

    def _container(self, value: list[object] | set[object] | Mapping[object, object]) -> None:
        if isinstance(value, set):
            self._unordered(value)
        elif isinstance(value, Mapping):
            self.token("mapping")
            for key, item in value.items():
                self.add(key)
                self.add(item)
            self.token("end")
        else:
            self.token("list")
            self._items(value)

    def _code(self, code: types.CodeType, doc: str | None = None) -> None:
        self.token("code", code.co_code)
        self.token("exceptions", code.co_exceptiontable)
        self.add((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags))
        self.add((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        constants = code.co_consts
        if doc is not None and constants[:1] == (doc,) and not _loads_first_constant(code):
            constants = (None, *constants[1:])
        self.add(constants)

    def _function(self, function: types.FunctionType) -> None:
        if self._opaque(function.__module__, function.__qualname__):
            return
        self.token("function")
        code = function.__code__
        self._code(code, function.__doc__)
        self.add((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.token("closure", name)
            try:
                self.add(cell.cell_contents)
            except ValueError:
                self.token("empty cell")
        loads, attributes = _names_used(code)
        for name in sorted(loads):
            if name not in function.__globals__:
                continue  # the name of a builtin is already in co_names
            value = function.__globals__[name]
            self.token("global", name)
            if isinstance(value, types.ModuleType):
                self._attributes(value, attributes)
            else:
                self.add(value)

    def _attributes(self, module: types.ModuleType, names: set[str]) -> None:
        if self._opaque(module.__name__, ""):
            return
        self.token("module", module.__name__)
        for name in sorted(names & vars(module).keys()):
            self.token("attribute", name)
            value = vars(module)[name]
            if isinstance(value, types.ModuleType) and value is not module:
                self._attributes(value, names - {name})
            else:
                self.add(value)

    def _module(self, module: types.ModuleType, everything: bool) -> None:
        if self._opaque(module.__name__, "") or not everything:
            return
        self.token("module", module.__name__)
        for name, value in sorted(vars(module).items()):
            if name.startswith("__") and name.endswith("__"):
                continue
            self.token("attribute", name)
            self.add(value)

    def _class(self, cls: type) -> None:
        if self._opaque(cls.__module__, cls.__qualname__):
            return
        self.token("class", cls.__qualname__)
        self._items(cls.__bases__)
        for name, value in sorted(vars(cls).items()):
            if name in _CLASS_MACHINERY:
                continue
            self.token("attribute", name)
            if name == "__dataclass_fields__":
                for field in value.values():
                    self.token("field", field.name)
                    self.add((field.default, field.default_factory))
            elif isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                self.token("slot")
            else:
                self.add(value)

    def _wrapper(self, value: object) -> bool:
        inner: tuple[object, ...]
        python = getattr(value, "py_func", None) or getattr(value, "_pyfunc", None)
        if isinstance(python, types.FunctionType):
            options = getattr(value, "targetoptions", {})
            inner = (python, dict(options))
        elif isinstance(value, property):
            inner = (value.fget, value.fset, value.fdel)
        elif isinstance(value, (staticmethod, classmethod)):
            inner = (value.__func__,)
        elif isinstance(value, types.MethodType):
            inner = (value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            inner = (value.func, value.args, value.keywords)
        elif isinstance(value, functools.cached_property):
            inner = (value.func,)
        elif isinstance(value, functools._lru_cache_wrapper):
            inner = (value.__wrapped__,)
        else:
            return False
        self.token("wrapper", type(value).__qualname__)
        self._items(inner)
        return True

    def _instance(self, value: object) -> None:
        cls = type(value)
        self.token("instance", cls.__qualname__)
        self.add(cls)
        if isinstance(value, enum.Enum):
            self.add((value.name, value.value))
            return
        if self._is_installed(cls.__module__):
            self._items(_reduced(value))
            return
        for name, item in sorted(_state(value).items()):
            if not isinstance(getattr(cls, name, None), functools.cached_property):
                self.token("state", name)
                self.add(item)

    def _opaque(self, module: str | None, name: str) -> bool:
        if not self._is_installed(module):
            return False
        top = str(module).partition(".")[0]
        self.token("installed", f"{top} {_version(top)} {module}.{name}")
        return True

    def _is_installed(self, module: str | None) -> bool:
        if not module or module == "__main__":
            return False
        top = module.partition(".")[0]
        return top not in self.own and lies_in_packages(top)


def _packages_of(objects: Iterable[object]) -> frozenset[str]:
    out = set()
    for one in objects:
        plain = getattr(one, "py_func", one)
        named = isinstance(plain, types.ModuleType)
        module = plain.__name__ if named else getattr(plain, "__module__", "")  # type: ignore[attr-defined]
        out.add(str(module or "").partition(".")[0])
    return frozenset(out - set(sys.stdlib_module_names) - {"numpy", "numba", ""})


@functools.cache
def lies_in_packages(top: str) -> bool:
    """Return whether the package ``top`` is installed, or part of the standard library."""
    if top in sys.stdlib_module_names:
        return True
    module = sys.modules.get(top)
    if module is None:
        return False
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return not path or bool(_INSTALLED & set(PurePath(path).parts))


@functools.cache
def _version(top: str) -> str:
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(top), "__version__", ""))


def _is_typing(value: object) -> bool:
    return type(value).__module__ == "typing" or isinstance(
        value, (types.GenericAlias, types.UnionType)
    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _instructions(code: types.CodeType) -> Iterator[tuple[int, int]]:
    bytecode, more = code.co_code, 0
    for at in range(0, len(bytecode), 2):
        opcode, argument = bytecode[at], bytecode[at + 1] | more
        more = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        yield opcode, argument


@functools.lru_cache(maxsize=4096)
def _names_used(code: types.CodeType) -> tuple[set[str], set[str]]:
    loads: set[str] = set()
    attributes: set[str] = set()
    for one in _codes(code):
        for opcode, argument in _instructions(one):
            if opcode in _GLOBAL_LOADS:
                loads.add(one.co_names[argument >> _GLOBAL_LOADS[opcode]])
            elif opcode in _ATTRIBUTE_LOADS:
                attributes.add(one.co_names[argument >> _ATTRIBUTE_LOADS[opcode]])
    return loads, attributes


@functools.lru_cache(maxsize=4096)
def _loads_first_constant(code: types.CodeType) -> bool:
    return any(
        argument == 0 and opcode in _CONSTANT_LOADS for opcode, argument in _instructions(code)
    )


def _state(value: object) -> dict[str, object]:
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                state[name] = getattr(value, name)
    if isinstance(value, (tuple, list, dict, str, int, float)):
        state[""] = value.__reduce_ex__(2)[1:]
    return state


def _reduced(value: object) -> Iterator[object]:
    if type(value).__module__ == "itertools":
        if isinstance(value, (itertools.count, itertools.repeat)):
            yield repr(value)
        else:
            yield from (o for o in gc.get_referents(value) if not isinstance(o, type))
        return
    reduce: Callable[..., Any] | None = copyreg.dispatch_table.get(type(value))
    try:
        parts = reduce(value) if reduce else value.__reduce_ex__(2)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return
    if isinstance(parts, str):
        yield parts
        return
    for part in parts:
        yield tuple(part) if isinstance(part, Iterator) else part
