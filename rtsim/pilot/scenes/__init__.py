"""Scenes, which draw the state of a run as a picture. A scene uses no process and no device."""
