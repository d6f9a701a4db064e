"""What JAX keeps under `jax.experimental`, by the same names."""

from ftrace.api.compiled.callbacks import io_callback as io_callback
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing

_explain(globals())
__getattr__ = _refusing("experimental")
