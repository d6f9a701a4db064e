"""Random kernels around a `While` that lanes leave at different times, for various reasons.

What is carried is chosen by the conditions that end the loop, more often than by others; some of it
is read by turns, some behind the loop, some by both and some by nobody. Operations are exact.
"""

import random

import numpy as np

from ftrace.lowering.kernel.ir import Atom, KernelVar, Lit
from tests.lowering.nests import Nest, Sample, f8, i8

FALSE, TRUE = Lit(False, "b1"), Lit(True, "b1")


def repetition(seed: int) -> Sample:
    """The kernel of a number: up to 70 elements with 0 to 9 turns each."""
    return _Writer(seed).sample()


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.k = Nest("repetition")
        self.floats: list[Atom] = []
        self.bools: list[Atom] = []

    def any(self, dtype: str) -> Atom:
        return self.rng.choice(self.floats if dtype == "f8" else self.bools)

    def step(self) -> None:
        """One more value."""
        k, rng = self.k, self.rng
        kind = rng.choice(["float", "float", "bool", "chosen", "div"])
        if kind == "float":
            op = rng.choice(["add", "sub", "mul", "min"])
            self.floats.append(k.let(op, self.any("f8"), self.any("f8")))
        elif kind == "div":
            self.floats.append(k.let("div", self.any("f8"), self.any("f8")))
        elif kind == "chosen":
            dtype = rng.choice(["f8", "b1"])
            pool = self.floats if dtype == "f8" else self.bools
            pool.append(k.let("select", self.any("b1"), self.any(dtype), self.any(dtype)))
        else:
            op = rng.choice(["lt", "and", "or", "not"])
            dtype = "f8" if op == "lt" else "b1"
            operands = [self.any(dtype) for _ in range(1 if op == "not" else 2)]
            self.bools.append(k.let(op, *operands))

    def after(self, param: KernelVar, init: Atom, hits: list[Atom]) -> Atom:
        """The next value of something carried."""
        dtype, rng = param.dtype, self.rng
        ways = [param, init, self.any(dtype), self.any(dtype)]
        at_exit = self.k.let("select", rng.choice(hits), self.any(dtype), rng.choice([init, *ways]))
        twice = self.k.let("select", rng.choice(hits), self.any(dtype), at_exit)
        ways += hits if dtype == "b1" else []
        return rng.choice([*ways, at_exit, at_exit, twice, twice])

    def sample(self) -> Sample:
        k, rng = self.k, self.rng
        buffers = [k.buffer(f"x{i}", "f8", ["one"]) for i in range(2)]
        m, n = k.buffer("m", "i8", ["one"]), k.scalar()
        scalar = k.scalar("f8")
        arrays: dict[str, np.ndarray] = {}
        size = rng.choice([1, 7, 33, 70])
        with k.loop(n) as lane:
            inputs = [k.load(b, lane.axis) for b in buffers]
            most = k.load(m, lane.axis)
            self.floats = [*inputs, scalar, f8(0), f8(1)]
            self.bools = [k.let("lt", *inputs), FALSE, TRUE]
            dtypes = ["f8"] * rng.randint(1, 5) + ["b1"] * rng.randint(0, 3)
            inits = [rng.choice([self.any(d), Lit(d == "b1" and rng.random() < 0.5, d)])
                     for d in dtypes]  # fmt: skip
            inits = [f8(0) if a == Lit(False, "f8") else a for a in inits]
            flag = rng.choice(["none", "alone", "beside", "beside", "either"])
            first = rng.choice([TRUE, TRUE, self.bools[0]])
            found = self.loop(dtypes, inits, most, flag, first)
            for out in found:
                if rng.random() < 0.6:
                    name = f"o{len(arrays)}"
                    k.buffer(name, out.dtype, ["one"], "out")
                    k.store(name, [lane.axis], out)
                    arrays[name] = np.ones(size, {"b1": "?"}.get(out.dtype, out.dtype))
        made = np.random.default_rng(rng.randrange(1 << 30))
        arrays |= {b: np.round(made.normal(size=size) * 4) / 4 for b in buffers}
        arrays["m"] = made.integers(0, 10, size)
        return Sample(k.kernel(), arrays, [size, 0.5], exact=True)

    def loop(
        self, dtypes: list[str], inits: list[Atom], most: KernelVar, flag: str, first: Atom
    ) -> tuple[KernelVar, ...]:
        """The loop; a counter ends it, whatever else does."""
        k, rng = self.k, self.rng
        params = [k.fresh(d) for d in dtypes]
        count, going = k.fresh("i8"), k.fresh("b1")
        with k.part() as cond:
            few = going if flag == "alone" else k.let("lt", count, most)
            if flag in ("beside", "either"):
                few = k.let("and" if flag == "beside" else "or", *rng.sample([going, few], 2))
            cond.leave(few)
        with k.part(*params, count, going) as body:
            body.leave(*self.turn(params, inits, (count, most, flag)))
        return k.repeat([*inits, i8(0), first], cond, body)

    def turn(self, params: list[KernelVar], inits: list[Atom], end: tuple) -> list[Atom]:
        k, rng = self.k, self.rng
        count, most, flag = end
        outside = self.floats, self.bools
        self.floats = [*self.floats, *(p for p in params if p.dtype == "f8")]
        self.bools = [*self.bools, *(p for p in params if p.dtype == "b1")]
        for _ in range(rng.randint(2, 10)):
            self.step()
        more = k.let("add", count, i8(1))
        hits = [k.let("lt", self.any("f8"), self.any("f8")) for _ in range(rng.randint(1, 2))]
        over = hits[0] if len(hits) == 1 else k.let("or", *hits)
        if flag in ("alone", "either"):
            over = k.let("or", over, k.let("ge", more, most))
        if rng.random() < 0.5:
            self.bools += hits
        hits = [*hits, *hits, *rng.choices(self.bools, k=2)]
        left = [self.after(p, a, hits) for p, a in zip(params, inits, strict=True)]
        at_end = k.let("select", over, i8(0), more) if flag in ("alone", "beside") else more
        left += [rng.choice([more, at_end]), k.let("not", over)]
        self.floats, self.bools = outside
        return left
