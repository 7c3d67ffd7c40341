"""The viewer's process: it owns the window and the devices."""
