"""A web page that shows a run in progress or a recording, served by a separate process.

:class:`rtsim.gateway.pipe.WebPage` starts the process (``process``). ``guard`` admits browsers,
"""
