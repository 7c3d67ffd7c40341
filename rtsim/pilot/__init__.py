"""A pilot in the loop: input devices and the window, in a process of their own.

The simulation's side (:mod:`rtsim.pilot.loop`) writes states into shared memory and reads the stick
from it; the viewer's (:mod:`rtsim.pilot.viewer`) does the reverse.  Only the viewer's side knows
SDL: only ``rtsim.pilot.viewer``, ``rtsim.pilot.devices`` (``sdl``, ``horn``) and the drawing in
``rtsim.pilot.scenes`` import it.
"""
