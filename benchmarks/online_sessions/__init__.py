"""The parts of the online benchmark: workloads, the strategies compared, one run, speed, and the report."""
