"""Which device a mapping means: by a part of its name, by its GUID, or by its number in a pair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rtsim.pilot.devices import checked
from rtsim.pilot.devices.checked import MappingError

MOST_OF_A_MODEL = 16
KEYS = ("name", "guid", "number")
_GUID = re.compile("[0-9a-f]{32}")


class Device(Protocol):
    """The properties of a device by which a mapping can name it."""

    @property
    def name(self) -> str: ...
    @property
    def guid(self) -> str: ...
    @property
    def order(self) -> int: ...


@dataclass(frozen=True)
class Which:
    """The devices that an entry of a mapping means; without any field, every device."""

    name: str = ""
    """A part of the device's name; upper and lower case are the same."""
    guid: str = ""
    """SDL's identifier of the model, as ``rtsim joystick`` shows it."""
    number: int = 0
    """1 for the first device of several of one model, 2 for the second; 0 for any."""

    def fits(self, device: Device) -> bool:
        return (
            self.name.lower() in device.name.lower()
            and self.guid in ("", device.guid)
            and self.number in (0, device.order)
        )

    @property
    def given(self) -> bool:
        return self != Which()

    def to_plain(self) -> dict[str, Any]:
        """Return the keys of the mapping file that mean this device."""
        plain = {"name": self.name, "guid": self.guid, "number": self.number}
        return {key: value for key, value in plain.items() if value}

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> Which:
        """Return the device that the keys ``name``, ``guid`` and ``number`` of ``table`` mean."""
        name = checked.text(table["name"], f"{where}.name") if "name" in table else ""
        guid = table.get("guid", "")
        if guid and not (isinstance(guid, str) and _GUID.fullmatch(guid.lower())):
            raise MappingError(
                f"{where}.guid = {guid!r}; expected the 32 digits 0 to 9, a to f that rtsim "
                "joystick shows"
            )
        count = table.get("number", 0)
        valid = isinstance(count, int) and not isinstance(count, bool)
        if "number" in table and not (valid and 1 <= count <= MOST_OF_A_MODEL):
            raise MappingError(
                f"{where}.number = {count!r}; expected 1 for the first device of this model, 2 "
                f"for the second, to {MOST_OF_A_MODEL}"
            )
        return cls(name, guid.lower(), count)
