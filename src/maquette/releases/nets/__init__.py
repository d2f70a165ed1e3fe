"""The net mechanism: candidate datasets, chosen privately."""
