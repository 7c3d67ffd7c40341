"""The viewer process, which owns the window and the input devices."""
