"""HTML pages about recordings: charts, drawings, reports and comparisons.

Nothing that records or reads a run imports this package.
"""
