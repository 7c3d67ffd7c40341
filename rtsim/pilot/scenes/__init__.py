"""Scenes, which draw a state on a surface. A scene uses no process and no device."""
