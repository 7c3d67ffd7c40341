"""Generate ``messages.py`` and ``messages.h`` from ``messages.toml``.

Run the generator with ``python -m hitl.protocol.generate``.
"""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path
from typing import Any

from hitl.interface.shipped import FIRMWARE

_HERE = Path(__file__).parent
TABLE = _HERE / "messages.toml"
PYTHON = _HERE / "messages.py"
C = FIRMWARE / "src" / "rtsim" / "messages.h"
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i16": "h"}
_BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i16": 2}
_LINE = 100
_CLASSES = {"step": "StepMessage"}
"""Python class names that differ from the message's name."""


def texts() -> dict[Path, str]:
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {PYTHON: _python(table), C: _c(table)}


def _fields(message: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [text.split() for text in message["fields"]]
    return [(name, type) for name, type in pairs]


def _camel(name: str) -> str:
    return _CLASSES.get(name) or "".join(word.capitalize() for word in name.split("_"))


def _python(table: dict[str, Any]) -> str:
    messages: dict[str, dict[str, Any]] = table["messages"]
    parts = [
        '"""Generated from messages.toml by ``python -m hitl.protocol.generate``."""\n\n'
        "from __future__ import annotations\n\n"
        "import struct\nfrom collections.abc import Callable\nfrom enum import IntEnum\n"
        "from typing import NamedTuple\n\n"
        f"VERSION = {table['version']}\n"
        f"MOST_PAYLOAD = {table['most_payload']}\n",
        _enum("MessageKind", {name: row["kind"] for name, row in messages.items()}),
        _enum("Why", table["garbage"]),
        _enum("Code", table["errors"]),
        *(_class(name, row) for name, row in messages.items()),
        "Message = (\n    " + "\n    | ".join(map(_camel, messages)) + "\n)\n"
        "KINDS: dict[type[Message], MessageKind] = {\n"
        + "".join(f"    {_camel(name)}: MessageKind.{name.upper()},\n" for name in messages)
        + "}\nLAYOUTS: dict[int, tuple[Callable[..., Message], struct.Struct, bool]] = {\n"
        + "".join(_layout(name, row) for name, row in messages.items())
        + "}\n",
    ]
    return "\n\n".join(parts)


def _enum(name: str, values: dict[str, int]) -> str:
    rows = "".join(f"    {key.upper()} = {value}\n" for key, value in values.items())
    return f"class {name}(IntEnum):\n{rows}"


def _class(name: str, row: dict[str, Any]) -> str:
    words = row["doc"].replace("\n", "\n    ").replace("    \n", "\n")
    words = f'    """{words}"""' if "\n" not in words else f'    """{words}\n    """'
    fields = [f"    {field}: int\n" for field, _ in _fields(row)]
    if "tail" in row:
        fields.append(f"    {row['tail']}: bytes\n")
    body = "\n" + "".join(fields) if fields else ""
    return f"class {_camel(name)}(NamedTuple):\n{words}\n{body}"


def _layout(name: str, row: dict[str, Any]) -> str:
    codes = "".join(_CODES[type] for _, type in _fields(row))
    return f'    {row["kind"]}: ({_camel(name)}, struct.Struct("<{codes}"), {"tail" in row}),\n'


def _c(table: dict[str, Any]) -> str:
    messages: dict[str, dict[str, Any]] = table["messages"]
    parts = [
        "/* Generated from hitl/protocol/messages.toml by `python -m hitl.protocol.generate`.\n"
        " * Integers are little-endian and packed; a tail begins after RTSIM_NAME_BYTES. */\n"
        "#ifndef RTSIM_MESSAGES_H\n#define RTSIM_MESSAGES_H\n\n#include <stdint.h>\n",
        f"#define RTSIM_PROTOCOL_VERSION {table['version']}\n"
        f"#define RTSIM_MOST_PAYLOAD {table['most_payload']}\n",
        "".join(f"#define RTSIM_KIND_{n.upper()} 0x{r['kind']:02X}\n" for n, r in messages.items()),
        "/* What rtsim_protocol_feed finds. */\n#define RTSIM_NOTHING 0\n"
        + "".join(f"#define RTSIM_{n.upper()} {v}\n" for n, v in table["garbage"].items())
        + "#define RTSIM_FRAME 255\n",
        "".join(f"#define RTSIM_ERROR_{n.upper()} {v}\n" for n, v in table["errors"].items()),
        _C_INTEGERS,
        *(_c_message(name, row) for name, row in messages.items()),
        _c_fits(messages),
        "#endif\n",
    ]
    return "\n".join(parts)


_C_INTEGERS = """\
static inline uint16_t rtsim_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (uint16_t)p[1] << 8);
}

static inline uint32_t rtsim_get_u32(const uint8_t *p)
{
    return rtsim_get_u16(p) | (uint32_t)rtsim_get_u16(p + 2) << 16;
}

static inline uint64_t rtsim_get_u64(const uint8_t *p)
{
    return rtsim_get_u32(p) | (uint64_t)rtsim_get_u32(p + 4) << 32;
}

static inline void rtsim_put_u16(uint8_t *p, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
}

static inline void rtsim_put_u32(uint8_t *p, uint32_t x)
{
    rtsim_put_u16(p, (uint16_t)x);
    rtsim_put_u16(p + 2, (uint16_t)(x >> 16));
}

static inline void rtsim_put_u64(uint8_t *p, uint64_t x)
{
    rtsim_put_u32(p, (uint32_t)x);
    rtsim_put_u32(p + 4, (uint32_t)(x >> 32));
}
"""


def _c_message(name: str, row: dict[str, Any]) -> str:
    fields = _fields(row)
    size = sum(_BYTES[type] for _, type in fields)
    says = textwrap.fill(row["says"], 90).replace("\n", "\n * ")
    head = f"/* {says} */\n#define RTSIM_{name.upper()}_BYTES {size}\n"
    if not fields:
        return head
    declared, reads, writes, at = "", "", "", 0
    for field, type in fields:
        c_type = f"{'int' if type[0] == 'i' else 'uint'}{type[1:]}_t"
        place = f"p + {at}" if at else "p"
        declared += f"    {c_type} {field};\n"
        if type == "u8":
            reads += f"    m->{field} = p[{at}];\n"
            writes += f"    p[{at}] = m->{field};\n"
        else:
            get, put = f"rtsim_get_u{type[1:]}({place})", f"m->{field}"
            if type[0] == "i":
                get, put = f"({c_type}){get}", f"(u{c_type}){put}"
            reads += f"    m->{field} = {get};\n"
            writes += f"    rtsim_put_u{type[1:]}({place}, {put});\n"
        at += _BYTES[type]
    whole = f"rtsim_{name}_message"
    return (
        f"{head}typedef struct {{\n{declared}}} {whole};\n\n"
        f"static inline void rtsim_read_{name}(const uint8_t *p, {whole} *m)\n{{\n{reads}}}\n\n"
        f"static inline void rtsim_write_{name}(uint8_t *p, const {whole} *m)\n{{\n{writes}}}\n"
    )


def _c_fits(messages: dict[str, dict[str, Any]]) -> str:
    cases = "".join(
        f"    case RTSIM_KIND_{name.upper()}: "
        f"return length {'>=' if 'tail' in row else '=='} RTSIM_{name.upper()}_BYTES;\n"
        for name, row in messages.items()
    )
    return (
        "/* 1 where a message of this kind may have a payload of this length; 0 where not,\n"
        " * or where the kind is unknown. */\n"
        "static inline uint8_t rtsim_protocol_fits(uint8_t kind, uint16_t length)\n{\n"
        f"    switch (kind) {{\n{cases}    default: return 0;\n    }}\n}}\n"
    )


def main() -> None:
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
