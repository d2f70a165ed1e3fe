"""The parts of the release benchmark: the distance from the rows, the baselines, and the peers."""
