"""Answers and their intervals: what a question gives back, and the one-shot way to ask it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
