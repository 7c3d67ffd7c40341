"""Sticks, gamepads, keyboard and mouse: what is read, and what is made of it."""
