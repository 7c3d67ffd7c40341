"""A pilot in the loop: input devices and the window, in a process of their own.

The simulation (:mod:`rtsim.pilot.loop`) writes states into shared memory and reads the stick from
it.  The viewer (:mod:`rtsim.pilot.viewer`) reads the states and writes the stick.  Only the viewer
uses SDL: SDL is imported only by ``rtsim.pilot.viewer``, ``rtsim.pilot.devices`` (``sdl``,
``horn``) and the drawing in ``rtsim.pilot.scenes``.
"""
