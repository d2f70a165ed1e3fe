"""Privacy audits: what a mechanism must satisfy, computed independently of its implementation.

Four layers. A grid of scripted noise compares a mechanism with a short reference (`scripted`, `transcripts`); exact
distributions give the true epsilon of tiny instances (`laws`, `guard_patterns`); sampled outputs bound epsilon from
below and test samplers against their distributions (`statistics`). A grammar of questions (`universes`, `drawing`,
`forms`, `weighing`) gives the meaning of each in exact fractions; `maquette.audit` passes them to the doors. Nothing
here touches rows, and nothing here is used to answer a question.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
