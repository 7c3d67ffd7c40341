"""The protocol between a board and its host: bytes in, events out, without I/O and clock.

``docs/protocol.md`` defines the meaning of the bytes.
"""
