"""`ftrace.lax`: the primitives as functions, and structured control flow.

Elementwise rows are exported as they are: `lax.sin` is the row `sin`. Unlike `ftrace.numpy`,
nothing here promotes or broadcasts: operands have one dtype, and one shape or rank 0.
"""

from typing import Any

from ftrace.control.collectives import axis_index as axis_index
from ftrace.control.collectives import pmean as pmean
from ftrace.control.collectives import psum as psum
from ftrace.control.loops import cond as cond
from ftrace.control.loops import while_loop as while_loop
from ftrace.core.tree import tree_map
from ftrace.primitives import convert


def stop_gradient(x: Any) -> Any:
    """The same value, treated as a constant by every derivative.

    Args:
        x: an array, or a container of arrays.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(lambda x: x * ftrace.lax.stop_gradient(x))(3.0))
        3.0
    """
    return tree_map(convert.stop_gradient, x)
