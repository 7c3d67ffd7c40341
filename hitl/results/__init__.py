"""Present a back-to-back comparison as a table, as JSON, as JUnit XML or as an HTML page."""
