"""Precision of answers: what a question needs of each part, and the half-width that the noise implies."""
