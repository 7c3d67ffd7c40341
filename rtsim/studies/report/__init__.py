"""One self-contained HTML page about a study: it needs no network and no other files."""
