"""Public models with an update rule, one per file, all of the same shape.

A new rule is a new file and a line in `HYPOTHESES`; the protocol tests pick it up.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
