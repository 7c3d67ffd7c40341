"""Functions of the user that are read from their source, changed, and made into functions again.

A rewritten function has the globals, the closure, the defaults and the line numbers of the original
one, so that changed constants, debuggers and tracebacks act as they did before.  Its attribute
``definition`` is the changed syntax tree, which :mod:`rtsim.equations.reading_functions` reads.
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from rtsim.core.errors import ModelError


def where(function: Any, node: ast.AST | None = None) -> str:
    """Return the file and the line of ``function``, or of ``node`` in it."""
    code = function.__code__
    line = code.co_firstlineno if node is None else getattr(node, "lineno", code.co_firstlineno)
    return f"{code.co_filename}:{line}"


def definition_of(function: Any) -> ast.FunctionDef:
    """Return the parsed definition of ``function``, with the line numbers of its file.

    Raises :class:`ModelError` if the source is missing, or is not that of the running function.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ModelError(
            f"the source of {function.__qualname__} cannot be read; define it in a file or in a "
            "notebook"
        ) from error
    inside = lines[0][:1].isspace()
    try:
        tree = ast.parse(("if 1:\n" if inside else "") + "".join(lines))
    except SyntaxError:  # the lines of a lambda can begin within an expression
        tree = ast.Module([ast.If(ast.Constant(1), [ast.Pass()], [])], [])
    definition = tree.body[0].body[0] if inside else tree.body[0]  # type: ignore[attr-defined]
    if not isinstance(definition, ast.FunctionDef):
        raise ModelError(
            f"{where(function)}: {function.__qualname__} is not written with def; rtsim reads the "
            "names of signals in a def only"
        )
    ast.increment_lineno(tree, first - 1 - inside)
    plain = deepcopy(definition)
    plain.decorator_list, plain.returns = [], None
    there, here = function.__code__, _code_of(plain, function.__code__.co_freevars, function)
    if _steps(there) != _steps(here):
        raise ModelError(
            f"{where(function)}: the source of {function.__qualname__} has changed since it was "
            "imported; import it again, in a new process"
        )
    return definition


_CALLS = {"PUSH_NULL", "PRECALL", "NOP"}
"""Instructions that depend on whether a name was imported in the same file."""


def _steps(code: types.CodeType) -> list[tuple[str, Any]]:
    """Return what ``code`` does, in a form that does not depend on the file around it."""
    jumps = {*dis.hasjrel, *dis.hasjabs}
    out: list[tuple[str, Any]] = []
    for one in dis.get_instructions(code):
        if one.opname in _CALLS:
            continue
        value = None if one.opcode in jumps else one.argval
        if isinstance(value, types.CodeType):
            value = _steps(value)
        out.append((one.opname.replace("LOAD_METHOD", "LOAD_ATTR"), repr(value)))
    return out


def _code_of(definition: ast.FunctionDef, free: Iterable[str], like: Any) -> types.CodeType:
    """Return the code of ``definition`` within a function that has the variables ``free``."""
    definition = deepcopy(definition)
    definition.args.defaults = []
    definition.args.kw_defaults = [None] * len(definition.args.kwonlyargs)
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    around = ast.parse(f"def around({', '.join(free)}): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = [definition]
    module = ast.fix_missing_locations(ast.Module([around], type_ignores=[]))
    future = like.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, like.__code__.co_filename, "exec", flags=future, dont_inherit=True)
    outer = next(c for c in code.co_consts if isinstance(c, types.CodeType))
    return next(
        c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == definition.name
    )


def arguments_of(definition: ast.FunctionDef) -> list[str]:
    """Return the names of the arguments that can be given by position."""
    return [a.arg for a in (*definition.args.posonlyargs, *definition.args.args)]


def outside(function: Any) -> dict[str, Any]:
    """Return the global names of ``function``, and the variables of functions around it."""
    names = dict(function.__globals__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # a variable that is assigned later
    return names


def value_of(node: ast.expr, space: Mapping[str, Any]) -> Any:
    """Return the value of a dotted name in ``space``; raises :class:`KeyError` for what is none."""
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
    """Return the function of ``definition``, with the globals and the closure of ``original``.

    ``own`` are further variables around it.  ``defaults`` are those of its last arguments.
    """
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    code = _code_of(definition, dict.fromkeys((*cells, *own)), original)
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
    function.definition = ast.fix_missing_locations(definition)
    return function


def calling(
    arguments: Sequence[str], lines: Sequence[str], functions: Sequence[Any], like: Any
) -> Any:
    """Return a function of ``arguments`` whose ``lines`` call ``functions`` as _f0, _f1, ...

    It has the module of ``like``.
    """
    text = f"def events({', '.join(arguments)}):\n" + "\n".join(f"    {line}" for line in lines)
    space: dict[str, Any] = {f"_f{k}": one for k, one in enumerate(functions)}
    space["__name__"] = getattr(like, "__module__", __name__)
    exec(text, space)  # text of rtsim only
    made: Any = space["events"]
    made.definition = ast.parse(text).body[0]
    return made
