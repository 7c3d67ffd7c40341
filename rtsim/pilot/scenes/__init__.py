"""Scenes: a scene draws a state on a surface, and depends on no process and no device."""
