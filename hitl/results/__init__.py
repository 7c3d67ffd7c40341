"""Present a back-to-back comparison as a table, JSON, JUnit XML or an HTML page."""
