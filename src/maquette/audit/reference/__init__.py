"""Privacy audits: what a mechanism must satisfy, computed without looking at how it is built.

Four layers. A scripted noise grid compares a mechanism with a short reference (`scripted`, `reference`); exact laws
give the true epsilon of tiny instances (`laws`, `patterns`); sampled outputs bound epsilon from below and test samplers
against their laws (`statistics`). A grammar of questions (`universes`, `drawing`, `forms`, `weighing`) says what each
means in exact fractions; `maquette.audit` puts them to the doors. Nothing here touches rows, and nothing here is
used to answer a question.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
