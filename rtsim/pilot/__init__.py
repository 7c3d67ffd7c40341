"""A pilot in the loop: the window, the input devices and the memory shared with a run.

The window runs in a process of its own, the viewer (:mod:`rtsim.pilot.viewer`). The simulation
writes states into shared memory and reads the stick from this memory (:mod:`rtsim.pilot.loop`). The
viewer reads the states, and writes the positions of the stick.

Only the viewer imports SDL: in ``rtsim.pilot.viewer``, in ``rtsim.pilot.devices`` (``sdl``,
``horn``) and in the drawing code of ``rtsim.pilot.scenes``.
"""
