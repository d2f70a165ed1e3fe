"""`plan`: the mechanisms it compares, its tables and charts."""
