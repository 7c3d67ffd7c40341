"""HTML pages about recordings: charts, drawings, reports and comparisons.

Code that records or reads a run does not import this package.
"""
