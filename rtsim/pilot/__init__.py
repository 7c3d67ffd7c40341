"""The pilot's window, the input devices, and the memory that they share with a run.

The window runs in a separate process, the viewer (``rtsim.pilot.viewer``). The simulation writes
states into shared memory and reads the stick positions there (``rtsim.pilot.loop``). The viewer
reads the states, and writes the positions of the stick.

Only the viewer imports SDL: in ``rtsim.pilot.viewer``, in ``rtsim.pilot.devices`` (``sdl``,
``horn``) and in the drawing code of ``rtsim.pilot.scenes``.
"""
