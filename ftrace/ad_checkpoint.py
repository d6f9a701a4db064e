"""`ftrace.ad_checkpoint`: checkpointing under the module name that JAX gives it."""

from ftrace import checkpoint_policies as checkpoint_policies
from ftrace.api.compiled.checkpointing import checkpoint as checkpoint
from ftrace.api.compiled.checkpointing import checkpoint_name as checkpoint_name
from ftrace.api.compiled.checkpointing import remat as remat
from ftrace.api.looking.residuals import print_saved_residuals as print_saved_residuals
from ftrace.api.looking.residuals import saved_residuals as saved_residuals
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing

_explain(globals())
__getattr__ = _refusing("ad_checkpoint")
