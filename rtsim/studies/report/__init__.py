"""Report about a study: one HTML page that needs no network and no other files."""
