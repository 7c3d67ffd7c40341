"""The viewer process, which has the window and the input devices."""
