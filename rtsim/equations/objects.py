"""Object files of compiled functions for other systems."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import llvmlite.binding as llvm

_TRIPLE = re.compile(r'^target (?:triple|datalayout) = ".*"\n', re.M)


_UNCOUNTED = """
define hidden void @NRT_incref(ptr %p) {
  ret void
}
define hidden void @NRT_decref(ptr %p) {
  ret void
}
declare void @llvm.trap()
define hidden void @NRT_MemInfo_call_dtor(ptr %p) {
  call void @llvm.trap()
  unreachable
}
"""
"""Functions of numba's runtime: an array that is passed by address has no reference count."""


@cache
def _all_targets() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def object_file(
    texts: Iterable[str], renamed: dict[str, str], triple: str, processor: str
) -> bytes:
    """Return the object file of the LLVM modules ``texts`` for the system ``triple``.

    ``renamed`` gives new names to functions. ``processor`` is the oldest supported processor of the
    system.
    """
    _all_targets()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=processor, opt=3, reloc="pic", codemodel="default"
    )
    head = f'target triple = "{triple}"\ntarget datalayout = "{machine.target_data}"\n'
    whole = llvm.parse_assembly(head)
    for text in (*texts, _UNCOUNTED):
        whole.link_in(llvm.parse_assembly(head + _TRIPLE.sub("", text)))
    for old, new in renamed.items():
        whole.get_function(old).name = new
    for function in whole.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.visibility = "hidden"  # a library exports only the functions of its C shell
    code: bytes = machine.emit_object(whole)
    return code
