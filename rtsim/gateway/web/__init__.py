"""A page in the browser that shows a run in progress or a recording, in a process of its own.

:class:`rtsim.gateway.pipe.WebPage` starts the process (``process``). ``guard`` admits browsers,
``page`` builds the page, and ``source`` provides the data.
"""
