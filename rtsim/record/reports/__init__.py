"""HTML pages about recordings: charts, drawings, reports and comparisons."""
