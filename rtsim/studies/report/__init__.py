"""Report on a study: one HTML page without further files."""
