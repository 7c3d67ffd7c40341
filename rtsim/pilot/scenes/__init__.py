"""Scenes, which draw the state of a run as a picture. A scene needs no process and no device."""
