"""The protocol between a board and its host, without I/O and without a clock.

The functions take bytes and return events.  ``docs/protocol.md`` defines the meaning of the bytes.
"""
