"""Special classes of queries, one per file: cuts, distances, lookups, parities, functions."""
