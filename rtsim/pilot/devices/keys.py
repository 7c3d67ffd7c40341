"""The names of keys, as pygame returns them, and the keys that the window uses; without SDL."""

from __future__ import annotations

from rtsim.core.errors import ScenarioError, UnknownName

NAMED = (
    "up", "down", "left", "right", "space", "return", "tab", "backspace", "escape", "delete",
    "insert", "home", "end", "page up", "page down", "left shift", "right shift", "left ctrl",
    "right ctrl", "left alt", "right alt", "left meta", "right meta", "caps lock", "numlock",
    "scroll lock", "print screen", "break", "menu", "enter", "equals",
    *(f"[{key}]" for key in "0123456789./*-+"), *(f"f{k}" for k in range(1, 16)),
)  # fmt: skip
"""Names of keys with more than one letter; names in brackets are keys of the number pad."""
OF_THE_WINDOW = frozenset(
    ("f1", "f2", "f3", "f4", "f5", "f6", "f11", "f12", "escape", "backspace", "space", "page up",
     "page down", "[+]", "[-]",
     *"hvmpncxbr+=-1")
)  # fmt: skip
"""Keys that the window uses; :mod:`rtsim.pilot.viewer.frames` defines what they do."""
WINDOW_COMMANDS = {
    "help": "shows or hides the keys",
    "view": "changes between the views of the scene",
    "next_page": "shows further strips",
    "previous_page": "shows the strips before",
    "mouse": "lets the mouse move the stick, or releases it",
    "pause": "pauses or resumes",
    "step": "makes a single step while paused",
    "faster": "doubles the rate",
    "slower": "halves the rate",
    "real_time": "sets the rate to real time",
    "mark": "sets a mark in the recording",
    "checkpoint": "saves a checkpoint",
    "return": "goes back to the checkpoint",
    "rewind": "goes 5 s back",
    "rewind_far": "goes 30 s back",
    "reset": "goes back to the beginning",
    "screenshot": "saves a picture of the window",
    "full_screen": "fills the screen, or leaves it",
    "look_left": "looks further to the left",
    "look_right": "looks further to the right",
    "look_up": "looks further up",
    "look_down": "looks further down",
    "look_ahead": "looks ahead",
    "quit": "ends the run",
}
"""The commands of the window, which keys and buttons can give, and what each of them does."""


def check_key(name: str, where: str) -> str:
    """Check that the key ``name`` exists and may move a value; return it.

    A letter means the key with this letter in the keyboard's layout.
    """
    letter = len(name) == 1 and name.isprintable() and not name.isspace() and name == name.lower()
    if not letter and name not in NAMED:
        low = name.lower()
        if len(low) == 1 or low in NAMED:
            raise ScenarioError(f"{where} = {name!r}: key names are in lower case; write {low!r}")
        raise UnknownName("key", name, NAMED, where)
    if name in OF_THE_WINDOW:
        raise ScenarioError(
            f"{where} = {name!r}: the window uses this key (F1 shows the keys of the window); "
            "choose another key"
        )
    return name
