"""Write instructions of LLVM whose values have one element for each lane."""

from __future__ import annotations


class VectorText:
    """The text of a function for ``width`` lanes."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._count = 0
        self._lines: list[str] = []
        self._known: dict[tuple[str, bool], str] = {}
        """Names of values in the present block, by name and form (True: vector)."""

    def _vector(self, kind: str) -> str:
        return f"<{self._width} x {kind}>"

    def _list(self, kind: str, value: str) -> str:
        if value in ("undef", "poison", "zeroinitializer"):
            return value
        return "<" + ", ".join([f"{kind} {value}"] * self._width) + ">"

    def _new_name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def _put(self, text: str) -> str:
        name = self._new_name()
        self._lines.append(f"  {name} = {text}")
        return name

    def _say(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _open(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._known = {}

    def _fresh_label(self) -> str:
        self._count += 1
        return f"c{self._count}"

    def _spread(self, kind: str, name: str) -> str:
        vector = self._vector(kind)
        one = self._put(f"insertelement {vector} poison, {kind} {name}, i64 0")
        zero = f"<{self._width} x i32> zeroinitializer"
        return self._put(f"shufflevector {vector} {one}, {vector} poison, {zero}")
