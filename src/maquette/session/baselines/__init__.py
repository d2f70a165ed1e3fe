"""Simple baselines for online answers, to which sessions are compared."""
