"""Ways to publish a whole workload, one per file."""
