"""`ftrace.custom_batching`: JAX's home of `custom_vmap`."""

from ftrace.api.rules.custom_vmap import custom_vmap as custom_vmap
