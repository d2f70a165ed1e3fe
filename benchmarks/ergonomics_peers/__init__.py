"""The first private answer in the words of each library: one file of code for each, run in its own environment."""
