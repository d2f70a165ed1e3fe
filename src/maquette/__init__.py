"""Maquette: very many questions about a private table, under one differential-privacy budget.

Names are imported on first use, so that `import maquette` stays light.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
