"""What studies survive: killed processes, another cluster, and runs that go wrong."""
