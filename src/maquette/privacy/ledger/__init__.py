"""The durable account of a table's budget: reserve, evaluate, commit, release."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
