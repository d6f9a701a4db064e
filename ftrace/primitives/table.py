"""The table of all rows: `ALL` in a fixed order, `by_name`.

The only module that imports every row file. A row is listed by being a module-level value of its
file; aliases count once, private rows (leading underscore) count too. The generated tests and the
reference documentation go through this table.
"""

from types import ModuleType
from typing import Final

from ftrace.core.primitive import Primitive
import importlib  # TEMP

MODULES = []
for _name in ("linear", "compare", "arithmetic", "powers", "trigonometry", "elementwise", "special", "special2", "gammas", "bessel", "convert", "create", "shape", "slicing", "dynamic", "index", "scatter", "sort", "reduce", "cumulative", "dot"):
    try:
        MODULES.append(importlib.import_module("ftrace.primitives." + _name))
    except ImportError:
        continue
MODULES = tuple(MODULES)


def _collect(modules: tuple[ModuleType, ...]) -> dict[Primitive, str]:
    """Each row with the module it was first seen in, in order of definition."""
    found: dict[Primitive, str] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Primitive):
                found.setdefault(value, module.__name__)
    return found


ALL: Final = tuple(_collect(MODULES))
by_name: Final = {row.name: row for row in ALL}
