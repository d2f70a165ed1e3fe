"""Adaptive data analysis: one sample, thousands of questions, intervals that hold together."""
