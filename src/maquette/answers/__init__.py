"""Answers and their intervals: what a question returns, and the simplest way to ask one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
