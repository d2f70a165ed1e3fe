"""Sessions: a stream of adaptive questions, answered from a public model; what the model lacks is bought from the rows.

`online` opens the practical session. `OnlineIC` and `LazyConstruction` are the algorithms of the theory. `ExactCache`,
`WholeMarginals` and `OneHistogram` are simple baselines for comparison.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
