"""Whole mechanisms run again and again: how often a promise fails, and how far each is from the default release."""
