"""A page in the browser that shows a run in progress or a recording, in a process of its own.

``address`` opens the port and makes the token of the address; ``launching`` starts the process of
the page beside a run; ``process`` is that process.  ``guard`` admits browsers, ``page`` builds the
page, and ``live`` and ``recorded`` give it its data.
"""
