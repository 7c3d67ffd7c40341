"""rtsim: a real-time and hardware-in-the-loop simulation runtime."""

__version__ = "0.1.0"
