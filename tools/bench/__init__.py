"""``make bench``: what the runtime costs, as ratios and bounds measured in one run.

Nothing here is asserted in the test suite: figures of a busy machine are no verdict on the code.
"""
