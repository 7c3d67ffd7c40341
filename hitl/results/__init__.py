"""A back-to-back comparison as a table, JSON, JUnit XML and an HTML page."""
