"""The systems measured, each behind one face: JAX's names, whatever the library calls them.

A `System` is made in its own process (`worker.py`); importing this module imports no peer.
`put` moves an ndarray in, `get` brings a result back, `sync` waits for it; a transformation that a
system lacks raises `UnsupportedError` with the reason. Not here: the C compiler (`native.py`), the
NumPy-like face of torch (`torch_numpy.py`). Read next: `benchmarks/worker.py`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks import native
from benchmarks.case import UnsupportedError
from benchmarks.pool import device


def _lacking(what: str) -> Any:
    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{self.name} has no {what}")

    return refuse


class System:
    """Plain NumPy: no transformations."""

    name = "numpy"
    packages: tuple[str, ...] = ("numpy",)
    devices: tuple[str, ...] = ("cpu",)
    np: Any = np
    scanned = False
    """Whether `scan` is a primitive here; a Python loop otherwise."""

    vmap, jvp, hvp = _lacking("vmap"), _lacking("jvp"), _lacking("hvp")
    grad, value_and_grad = _lacking("grad"), _lacking("value_and_grad")
    value_and_pull, jacobian = _lacking("vjp"), _lacking("jacobian")
    hessian, chunked_grad = _lacking("hessian"), _lacking("forward gradient in chunks")
    while_loop, make_jaxpr = _lacking("while_loop"), _lacking("make_jaxpr")
    checkpoint, erf = _lacking("checkpoint"), _lacking("erf")

    @classmethod
    def missing(cls) -> str:
        """Why the system cannot run here, or the empty string."""
        if device() not in cls.devices:
            return f"does not run on the {device()} here"
        absent = [p for p in cls.packages if find_spec(p) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""

    def nested_grad(self, f: Any) -> Any:
        """A `grad` that can be taken again."""
        return self.grad(f)

    def version(self) -> str:
        """The version of the package measured."""
        return metadata.version(self.packages[-1])

    def put(self, array: np.ndarray) -> Any:
        return array

    def accept(self, array: np.ndarray) -> Any:
        """The cheapest way to call with a NumPy array."""
        return array

    def get(self, leaf: Any) -> np.ndarray:
        return np.asarray(leaf)

    def sync(self, out: Any) -> Any:
        return out

    def jit(self, f: Any) -> Any:
        return f

    def forget(self) -> None:
        """Drop what the system remembers of compiled functions."""

    def scan(self, step: Any, carry: Any, xs: Any) -> Any:
        """The last carry of `carry = step(carry, x)` over the rows of `xs` (or a count)."""
        for i in range(xs if isinstance(xs, int) else len(xs)):
            carry = step(carry, None if isinstance(xs, int) else xs[i])
        return carry


class JaxLike(System):
    """What JAX and ftrace share."""

    def __init__(self) -> None:
        self.mod = import_module(self.packages[-1])
        self.np = import_module(f"{self.packages[-1]}.numpy")
        self.lax = import_module(f"{self.packages[-1]}.lax")
        for name in ("jit", "grad", "value_and_grad", "vmap", "hessian", "make_jaxpr"):
            setattr(self, name, getattr(self.mod, name))
        self.jacobian, self.checkpoint = self.mod.jacfwd, self.mod.checkpoint
        self.while_loop = self.lax.while_loop
        self.scanned = hasattr(self.lax, "scan")

    def jvp(self, f: Any) -> Any:
        return lambda args, tangents: self.mod.jvp(f, args, tangents)

    def hvp(self, f: Any) -> Any:
        return lambda x, v: self.mod.jvp(self.mod.grad(f), (x,), (v,))[1]

    def value_and_pull(self, f: Any) -> Any:
        def run(ct: Any, *args: Any) -> Any:
            value, pull = self.mod.vjp(f, *args)
            return value, pull(ct)

        return run

    def scan(self, step: Any, carry: Any, xs: Any) -> Any:
        if not self.scanned:
            return super().scan(step, carry, xs)
        count = {"length": xs} if isinstance(xs, int) else {"xs": xs}
        return self.lax.scan(lambda c, x: (step(c, x), None), carry, **{"xs": None, **count})[0]


class Ftrace(JaxLike):
    name, packages = "ftrace", ("ftrace",)

    def version(self) -> str:
        return getattr(self.mod, "__version__", "in tree")

    def vectorize(self, f: Any, **options: Any) -> Any:
        return self.mod.vectorize(f, **options)

    def chunked_grad(self, f: Any, chunk: int) -> Any:
        return self.mod.jacfwd(f, chunk_size=chunk)

    def erf(self, x: Any) -> Any:
        if not hasattr(self.lax, "erf"):
            raise UnsupportedError("ftrace has no erf yet")
        return self.lax.erf(x)


class Jax(JaxLike):
    name, packages = "jax", ("jaxlib", "jax")
    devices = ("cpu", "gpu")

    def __init__(self) -> None:
        super().__init__()
        self.mod.config.update("jax_enable_x64", True)
        self.erf = self.lax.erf

    def put(self, array: np.ndarray) -> Any:
        return self.mod.device_put(array)

    def sync(self, out: Any) -> Any:
        return self.mod.block_until_ready(out)

    def chunked_grad(self, f: Any, chunk: int) -> Any:
        """The gradient by ceil(k/chunk) passes of `chunk` tangents; no identity matrix is built."""
        jnp = self.np

        def run(x: Any) -> Any:
            def one(start: Any) -> Any:
                seeds = (jnp.arange(x.size)[None] == start + jnp.arange(chunk)[:, None]) * 1.0
                return self.vmap(lambda t: self.mod.jvp(f, (x,), (t,))[1])(seeds)

            return self.lax.map(one, jnp.arange(0, x.size, chunk)).reshape(-1)

        return self.jit(run)


class Autograd(System):
    name, packages = "autograd", ("autograd",)

    def __init__(self) -> None:
        self.mod = import_module("autograd")
        self.np = import_module("autograd.numpy")
        self.hessian, self.jacobian = self.mod.hessian, self.mod.jacobian
        self.hvp, self.checkpoint = self.mod.hessian_vector_product, self.mod.checkpoint
        self.erf = import_module("autograd.scipy.special").erf

    def grad(self, f: Any, argnums: Any = 0) -> Any:
        return self.mod.grad(f, argnums)

    def value_and_grad(self, f: Any, argnums: Any = 0) -> Any:
        return self.mod.value_and_grad(f, argnums)

    def jvp(self, f: Any) -> Any:
        make = self.mod.make_jvp(f)
        return lambda args, tangents: make(*args)(*tangents)

    def value_and_pull(self, f: Any) -> Any:
        def run(ct: Any, *args: Any) -> Any:
            pull, value = self.mod.make_vjp(f, tuple(range(len(args))))(*args)
            return value, pull(ct)

        return run


class Torch(System):
    """Eager torch: first derivatives by its tape, higher ones by `torch.func`."""

    name, packages = "torch", ("torch",)

    def __init__(self) -> None:
        self.mod = import_module("torch")
        self.np = import_module("benchmarks.torch_numpy")
        self.func = self.mod.func
        self.mod.set_num_threads(native.threads())
        self.vmap, self.hessian = self.func.vmap, self.func.hessian
        self.erf = self.mod.erf
        self.checkpoint = partial(partial, self._checkpoint)

    def _checkpoint(self, f: Any, *args: Any) -> Any:
        module = import_module("torch.utils.checkpoint")
        return module.checkpoint(f, *args, use_reentrant=False)

    def put(self, array: np.ndarray) -> Any:
        return self.mod.as_tensor(array)

    accept = put

    def get(self, leaf: Any) -> np.ndarray:
        return leaf.detach().numpy()

    def _pull(self, f: Any, ct: Any, args: Any, wanted: tuple[int, ...]) -> Any:
        args = [a.detach().requires_grad_() if i in wanted else a for i, a in enumerate(args)]
        value = f(*args)
        return value.detach(), self.mod.autograd.grad(value, [args[i] for i in wanted], ct)

    def value_and_grad(self, f: Any, argnums: Any = 0) -> Any:
        wanted = argnums if isinstance(argnums, tuple) else (argnums,)

        def run(*args: Any) -> Any:
            value, grads = self._pull(f, None, args, wanted)
            return value, grads if isinstance(argnums, tuple) else grads[0]

        return run

    def grad(self, f: Any, argnums: Any = 0) -> Any:
        both = self.value_and_grad(f, argnums)
        return lambda *args: both(*args)[1]

    def value_and_pull(self, f: Any) -> Any:
        return lambda ct, *args: self._pull(f, ct, args, tuple(range(len(args))))

    def nested_grad(self, f: Any) -> Any:
        return self.func.grad(f)

    def jacobian(self, f: Any) -> Any:
        return self.func.jacrev(f)

    def jvp(self, f: Any) -> Any:
        return lambda args, tangents: self.func.jvp(f, args, tangents)

    def hvp(self, f: Any) -> Any:
        return lambda x, v: self.func.jvp(self.func.grad(f), (x,), (v,))[1]


class TorchCompiled(Torch):
    """`torch.compile` of whole functions, derivatives by `torch.func` inside."""

    name = "torchc"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or native.missing()

    def jit(self, f: Any) -> Any:
        return self.mod.compile(f, fullgraph=True, dynamic=False)

    def forget(self) -> None:
        self.mod._dynamo.reset()

    def grad(self, f: Any, argnums: Any = 0) -> Any:
        return self.func.grad(f, argnums)

    def value_and_grad(self, f: Any, argnums: Any = 0) -> Any:
        both = self.func.grad_and_value(f, argnums)
        return lambda *args: both(*args)[::-1]

    def value_and_pull(self, f: Any) -> Any:
        def run(ct: Any, *args: Any) -> Any:
            value, pull = self.func.vjp(f, *args)
            return value, pull(ct)

        return run


class Numba(System):
    name, packages = "numba", ("numba",)

    def njit(self, **options: Any) -> Any:
        numba = import_module("numba")
        numba.set_num_threads(min(native.threads(), numba.config.NUMBA_NUM_THREADS))
        return numba.njit(**options)


class C(System):
    """Hand-written C, compiled on the spot."""

    name = "c"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or native.missing()

    def version(self) -> str:
        return native.version()

    def bind(self, *args: Any) -> Any:
        return native.bind(*args)


class CSimd(C):
    """Hand-written C in a form that the compiler vectorises, mathematical functions included."""

    name = "csimd"


SYSTEMS = {
    cls.name: cls for cls in (Ftrace, Jax, Torch, TorchCompiled, Autograd, Numba, System, C, CSimd)
}
