"""Sessions: a stream of adaptive questions, answered from public models that the rows correct at a price.

`online` opens the practical session. The others are the theory's own (`OnlineIC`, `LazyConstruction`) and the plain
ways to which they are compared (`ExactCache`, `WholeMarginals`, `OneHistogram`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
