"""Parts of benchmarks/classes.py, one per query class."""
