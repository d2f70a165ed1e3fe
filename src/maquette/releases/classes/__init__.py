"""Releases for special classes of queries, one per file."""
