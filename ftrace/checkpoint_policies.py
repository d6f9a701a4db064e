"""What `checkpoint` keeps, as policies: `ftrace.checkpoint_policies`, with JAX's names."""

from ftrace.control.remat.policies import checkpoint_dots as checkpoint_dots
from ftrace.control.remat.policies import (
    checkpoint_dots_with_no_batch_dims as checkpoint_dots_with_no_batch_dims,
)
from ftrace.control.remat.policies import dots_saveable as dots_saveable
from ftrace.control.remat.policies import (
    dots_with_no_batch_dims_saveable as dots_with_no_batch_dims_saveable,
)
from ftrace.control.remat.policies import everything_saveable as everything_saveable
from ftrace.control.remat.policies import nothing_saveable as nothing_saveable
from ftrace.control.remat.policies import save_any_names_but_these as save_any_names_but_these
from ftrace.control.remat.policies import (
    save_anything_except_these_names as save_anything_except_these_names,
)
from ftrace.control.remat.policies import save_from_both_policies as save_from_both_policies
from ftrace.control.remat.policies import save_only_these_names as save_only_these_names
