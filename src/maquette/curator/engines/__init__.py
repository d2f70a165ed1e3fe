"""Counting engines: rows as codes in memory, or counted by DuckDB where they are."""
