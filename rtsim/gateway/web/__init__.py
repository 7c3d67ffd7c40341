"""A page in the browser that shows a run in progress or a recording, in a process of its own.

``process`` is that process, which :class:`rtsim.gateway.pipe.WebPage` starts.  ``guard`` admits
browsers, ``page`` builds the page, and ``source`` gives it its data.
"""
