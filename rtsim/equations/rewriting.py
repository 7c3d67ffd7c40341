"""Parse a user's function, and make a new function from the changed syntax tree.

The new function keeps the global variables, default arguments and line numbers. Debuggers and
tracebacks therefore show the original source. The attribute ``definition`` is the changed syntax
tree, for :mod:`rtsim.equations.reading_functions`. The attribute ``rewritten`` marks a function
that rtsim made; the function takes all arguments, in order.
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import linecache
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rtsim.core.errors import ModelError
from rtsim.equations.compiling import Compiled


def where(function: Any, node: ast.AST | None = None) -> str:
    """Return ``"file:line"`` of ``node``, or of the first line of ``function``."""
    code = function.__code__
    line = code.co_firstlineno if node is None else getattr(node, "lineno", code.co_firstlineno)
    return f"{code.co_filename}:{line}"


def definition_of(function: Any) -> ast.FunctionDef:
    """Return the parsed definition of ``function``, with the line numbers of its file.

    Decorators, annotations and defaults are omitted. Raises ``ModelError`` if the source is missing
    or does not match the bytecode.
    """
    code = function.__code__
    for lines in _sources(function):
        try:
            definition = _parsed(lines, code.co_firstlineno)
        except SyntaxError:
            continue  # the function ends after its last instruction
        if definition is None:
            raise ModelError(
                f"{where(function)}: {function.__qualname__} is not written with def; rtsim reads "
                "the names of signals in a def only"
            )
        if _same(code, code_of(definition, code.co_freevars, function)):
            return definition
    raise ModelError(
        f"{where(function)}: the source of {function.__qualname__} has changed since it was "
        "imported; import it again, in a new process"
    )


def _sources(function: Any) -> Iterator[list[str]]:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    last = max(_last_line(code), code.co_firstlineno)
    if len(lines) >= last:
        yield lines[code.co_firstlineno - 1 : last]
    try:
        yield inspect.getsourcelines(function)[0]
    except (OSError, TypeError) as error:
        raise ModelError(
            f"the source of {function.__qualname__} cannot be read; define it in a file or in a "
            "notebook"
        ) from error


def _last_line(code: types.CodeType) -> int:
    lines = [end for _, end, _, _ in code.co_positions() if end]
    lines += [_last_line(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return max(lines, default=code.co_firstlineno)


def _parsed(lines: list[str], first: int) -> ast.FunctionDef | None:
    inside = lines[0][:1].isspace()
    above = "\n" * (first - 2) + "if 1:\n" if inside else "\n" * (first - 1)
    tree = ast.parse(above + "".join(lines))
    definition = tree.body[0].body[0] if inside else tree.body[0]  # type: ignore[attr-defined]
    if not isinstance(definition, ast.FunctionDef):
        return None
    given = definition.args
    definition.decorator_list, definition.returns = [], None
    given.defaults, given.kw_defaults = [], [None] * len(given.kwonlyargs)
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        argument.annotation = None
    return definition


_CALLS = {"PUSH_NULL", "PRECALL", "NOP", "EXTENDED_ARG"}
"""Instructions that depend on whether a name was imported in the same file."""


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    return _equal(one, other) or _steps(one) == _steps(other)


def _equal(one: Any, other: Any) -> bool:
    if not (isinstance(one, types.CodeType) and isinstance(other, types.CodeType)):
        return repr(one) == repr(other)
    return (
        one.co_code == other.co_code
        and one.co_names == other.co_names
        and one.co_varnames == other.co_varnames
        and one.co_freevars == other.co_freevars
        and one.co_cellvars == other.co_cellvars
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_equal, one.co_consts, other.co_consts))
    )


def _steps(code: types.CodeType) -> list[Any]:
    jumps = {*dis.hasjrel, *dis.hasjabs}
    bytecode = dis.Bytecode(code)
    steps: list[dis.Instruction] = []
    number: dict[int, int] = {}
    for one in bytecode:
        number[one.offset] = len(steps)
        if one.opname not in _CALLS:
            steps.append(one)
    out: list[Any] = []
    for one in steps:
        value = number[one.argval] if one.opcode in jumps else one.argval
        if isinstance(value, types.CodeType):
            value = _steps(value)
        out.append((one.opname.replace("LOAD_METHOD", "LOAD_ATTR"), repr(value)))
    for part in bytecode.exception_entries:  # type: ignore[attr-defined]
        ends = (number.get(at, len(steps)) for at in (part.start, part.end, part.target))
        out.append((*ends, part.depth, part.lasti))
    return out


def code_of(definition: ast.FunctionDef, free: Iterable[str], like: Any) -> types.CodeType:
    known = like.__globals__
    modules = [n for n in like.__code__.co_names if isinstance(known.get(n), types.ModuleType)]
    imports = f"import {', '.join(modules)}\n" if modules else ""  # Python calls their names so
    module = ast.parse(f"{imports}def around(): pass")
    around = module.body[-1]
    assert isinstance(around, ast.FunctionDef)
    around.args.args = [at(ast.arg(one), around) for one in free]
    around.body = [definition]
    name, definition.name = definition.name, _NO_NAME  # the body can use this name for another
    future = like.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, like.__code__.co_filename, "exec", flags=future, dont_inherit=True)
    definition.name = name
    outer = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    found = next(
        c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == _NO_NAME
    )
    return found.replace(co_name=name, co_qualname=like.__code__.co_qualname)


_NO_NAME = "method of rtsim"


def generated_name(text: str) -> str:
    """Return a variable name with spaces, which cannot occur in a source text."""
    return f"{text}{_ADDED}"


_ADDED = " of rtsim"


def as_written(text: str) -> str:
    """Return a source text without the additions of ``generated_name``."""
    return text.replace(_ADDED, "")


def argument_names(definition: ast.FunctionDef) -> list[str]:
    return [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]


class Outside:
    """The global variables of a function and the variables of enclosing functions."""

    def __init__(self, function: Any) -> None:
        code = function.__code__
        self.cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self.names: dict[str, Any] = function.__globals__

    def __getitem__(self, name: str) -> Any:
        """Return the value of a name; raise ``KeyError`` if the name has no value."""
        if name not in self.cells:
            return self.names[name]
        try:
            return self.cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None


def value_of(node: ast.expr, space: Outside) -> Any:
    """Return the value of a dotted name, such as ``np.pi``."""
    if isinstance(node, ast.Name):
        return space[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(value_of(node.value, space), node.attr)
    raise KeyError


def rebuilt(
    original: Any,
    definition: ast.FunctionDef,
    own: Mapping[str, Any],
    defaults: tuple[Any, ...] | None = None,
) -> Any:
    """Make a function from a changed definition, with the global variables of ``original``.

    ``own`` contains additional variables of the function. ``defaults`` contains the default values
    of the last positional arguments.
    """
    at(definition.args, definition)
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    code = code_of(definition, dict.fromkeys((*cells, *own)), original)
    function: Any = types.FunctionType(
        code,
        original.__globals__,
        original.__name__,
        defaults,
        tuple(types.CellType(own[n]) if n in own else cells[n] for n in code.co_freevars),
    )
    function.__kwdefaults__ = original.__kwdefaults__
    function.__module__, function.__doc__ = original.__module__, original.__doc__
    function.__qualname__ = original.__qualname__
    function.definition, function.rewritten = definition, True
    return function


N = TypeVar("N", bound=ast.AST)
LEAVES = (ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
"""Nodes that contain no names."""


def at(new: N, old: Any) -> N:
    """Copy the source location of ``old`` to the nodes of ``new`` without one."""
    waiting: list[ast.AST] = [new]
    while waiting:
        node = waiting.pop()
        if isinstance(node, LEAVES[1:]) or hasattr(node, "lineno"):
            continue
        if "lineno" in node._attributes:
            node.lineno, node.col_offset = old.lineno, old.col_offset  # type: ignore[attr-defined]
            node.end_lineno = old.end_lineno  # type: ignore[attr-defined]
            node.end_col_offset = old.end_col_offset  # type: ignore[attr-defined]
        waiting.extend(ast.iter_child_nodes(node))
    return new


def calling(
    arguments: Sequence[str], lines: Sequence[str], functions: Sequence[Any], like: Any
) -> Any:
    """Return a function of ``arguments`` whose ``lines`` call ``functions`` as _f0, _f1, ...

    The function has the module of ``like``.
    """
    text = f"def events({', '.join(arguments)}):\n" + "\n".join(f"    {line}" for line in lines)
    space: dict[str, Any] = {f"_f{k}": one for k, one in enumerate(functions)}
    space["__name__"] = getattr(like, "__module__", __name__)
    exec(text, space)  # text of rtsim only
    made: Any = space["events"]
    made.definition, made.rewritten = ast.parse(text).body[0], True
    return made


def read_helper(function: Any) -> None:
    """Parse a function marked with ``@rtsim.compiled``, and its helpers."""
    if not isinstance(function, Compiled) or hasattr(function.py_func, "definition"):
        return
    helper: Any = function.py_func
    with suppress(ModelError):  # without its source, it is compiled at the start
        helper.definition = definition_of(helper)
        outside = Outside(helper)
        for node in ast.walk(helper.definition):
            if isinstance(node, ast.Call):
                with suppress(AttributeError, KeyError):
                    read_helper(value_of(node.func, outside))
