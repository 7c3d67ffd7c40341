"""Joysticks, gamepads, keyboard and mouse: reads them, and computes the values of the stick."""
