"""The protocol between a board and its host: bytes in, events out, no I/O and no clock.

``docs/protocol.md`` says what the bytes mean.
"""
