"""The passes of lowering: look at the list, and insert your own.

`default()` and `current()` give the list, `inserted` adds a pass for a block, `replacing` makes a
pass that puts a function in the place of an operation. The list itself is
`lowering/planning/pipeline.py`.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.jaxpr import Jaxpr as Jaxpr
from ftrace.lowering.kernel.ir import Kernel as Kernel
from ftrace.lowering.planning.pipeline import Pass as Pass
from ftrace.lowering.planning.pipeline import current as current
from ftrace.lowering.planning.pipeline import default as default
from ftrace.lowering.planning.pipeline import inserted as inserted
from ftrace.lowering.planning.pipeline import replacing as replacing

__all__ = ["Jaxpr", "Kernel", "Pass", "current", "default", "inserted", "replacing"]
