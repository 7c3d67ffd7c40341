"""``make mutants``: would a test notice?  One small change at a time to what decides verdicts.

cosmic-ray makes the changes; here is which modules, by which tests, which changes, and what of it
counts.  docs/decisions/122 says why it is so.
"""
