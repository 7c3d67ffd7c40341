"""Names of keys, as pygame tells SDL's, and those that the window keeps for itself; no SDL."""

from __future__ import annotations

from rtsim.core.errors import ScenarioError, UnknownName

NAMED = (
    "up", "down", "left", "right", "space", "return", "tab", "backspace", "escape", "delete",
    "insert", "home", "end", "page up", "page down", "left shift", "right shift", "left ctrl",
    "right ctrl", "left alt", "right alt", "left meta", "right meta", "caps lock", "numlock",
    "scroll lock", "print screen", "break", "menu", "enter", "equals",
    *(f"[{key}]" for key in "0123456789./*-+"), *(f"f{k}" for k in range(1, 16)),
)  # fmt: skip
"""Keys with more than one letter; those in brackets are the number pad's."""
OF_THE_WINDOW = frozenset(
    ("f1", "f12", "escape", "backspace", "space", "page up", "page down", "[+]", "[-]",
     *"hvmpncxbr+=-1")
)  # fmt: skip
"""What they do there: :mod:`rtsim.pilot.viewer.frames`."""


def check_key(name: str, where: str) -> str:
    """A key that may move something; a letter is that of the keyboard's own layout."""
    letter = len(name) == 1 and name.isprintable() and not name.isspace() and name == name.lower()
    if not letter and name not in NAMED:
        low = name.lower()
        if len(low) == 1 or low in NAMED:
            raise ScenarioError(f"{where} = {name!r}; write {low!r}")
        raise UnknownName("key", name, NAMED, where)
    if name in OF_THE_WINDOW:
        raise ScenarioError(
            f"{where} = {name!r}, which the window keeps for itself (F1 shows its keys); take "
            "another"
        )
    return name
