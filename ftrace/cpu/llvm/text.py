"""LLVM text, a line at a time: typed values, splats, blocks and intrinsics.

The emitters and the mathematics write through this small builder, because making text and
parsing it is several times faster than building LLVM's objects from Python. A `Typed` is a
scalar (`lanes == 1`) or a vector; both are written with the same calls. No optimisation passes
run afterwards, so what is written here is what runs: splat where a value is defined, hoist by
hand. Booleans are `i1` in registers and one byte in memory.
"""

import struct
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

LLVM_TYPE = {
    "b1": "i1",
    "i1": "i8",
    "u1": "i8",
    "i2": "i16",
    "u2": "i16",
    "i4": "i32",
    "u4": "i32",
    "i8": "i64",
    "u8": "i64",
    "f2": "half",
    "f4": "float",
    "f8": "double",
}
MANGLED = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"} | {
    "half": "f16",
    "float": "f32",
    "double": "f64",
}


class Typed(NamedTuple):
    """A typed operand in LLVM text: `name` is `%t3` or a constant."""

    name: str
    dtype: str
    lanes: int


class Processor(NamedTuple):
    """What the code is made for.

    Attributes:
        vector_bytes: bytes of a vector register: 64, 32 or 16.
        fma: whether a fused multiply-add is one instruction.
        masked: whether masked loads and stores are (AVX-512, AVX2 for 4 and 8 bytes).
        cpu, features: LLVM's names.
    """

    vector_bytes: int
    fma: bool
    masked: bool
    cpu: str
    features: str


def type_of(dtype: str, lanes: int) -> str:
    """`<8 x double>` or `double`."""
    base = LLVM_TYPE[dtype]
    return base if lanes == 1 else f"<{lanes} x {base}>"


def memory_type(dtype: str) -> str:
    """The type of an element in memory, where booleans take a byte."""
    return "i8" if dtype == "b1" else LLVM_TYPE[dtype]


def literal(value: bool | int | float, dtype: str) -> str:
    """A scalar constant, exactly."""
    if dtype == "b1":
        return "true" if value else "false"
    if dtype[0] in "iu":
        return str(int(value))
    if dtype == "f2":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    exact = float(np.float32(value)) if dtype == "f4" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


class Text:
    """The body of one function, and the declarations it needs (shared by a module)."""

    def __init__(self, host: Processor, declarations: dict[str, str]) -> None:
        self.host = host
        self.declarations = declarations
        self.lines: list[str] = []
        self.block = "entry"
        self._numbers = count(1)

    # --- names and lines

    def fresh(self, stem: str = "t") -> str:
        """A new name without its sigil."""
        return f"{stem}{next(self._numbers)}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def let(self, expression: str, dtype: str, lanes: int) -> Typed:
        """`%new = expression`."""
        name = f"%t{next(self._numbers)}"
        self.lines.append(f"  {name} = {expression}")
        return Typed(name, dtype, lanes)

    def label(self, name: str) -> None:
        """Begin a block; the one before it must have ended with a branch."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, target: str) -> None:
        """Branch to a block."""
        self.line(f"br label %{target}")

    def branch(self, cond: Typed, then: str, orelse: str) -> None:
        """Branch on a scalar b1."""
        self.line(f"br i1 {cond.name}, label %{then}, label %{orelse}")

    def phi(self, dtype: str, lanes: int, incoming: Sequence[tuple[Typed, str]]) -> Typed:
        """A phi; `incoming` are (value, block)."""
        pairs = ", ".join(f"[ {v.name}, %{b} ]" for v, b in incoming)
        return self.let(f"phi {type_of(dtype, lanes)} {pairs}", dtype, lanes)

    # --- values

    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> Typed:
        """A constant in every lane."""
        text = literal(value, dtype)
        if lanes > 1:
            text = f"splat ({LLVM_TYPE[dtype]} {text})"
        return Typed(text, dtype, lanes)

    def splat(self, v: Typed, lanes: int) -> Typed:
        """A scalar in every lane."""
        if v.lanes == lanes:
            return v
        if not v.name.startswith("%"):
            return Typed(f"splat ({LLVM_TYPE[v.dtype]} {v.name})", v.dtype, lanes)
        kind = type_of(v.dtype, lanes)
        one = self.let(
            f"insertelement {kind} poison, {LLVM_TYPE[v.dtype]} {v.name}, i64 0", v.dtype, lanes
        )
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {one.name}, {kind} poison, {zeros}", v.dtype, lanes)

    def same(self, v: Typed, name: str) -> Typed:
        """A value of the type of another."""
        return Typed(name, v.dtype, v.lanes)

    # --- instructions; operands have one type

    def op(self, instruction: str, a: Typed, b: Typed) -> Typed:
        """A binary instruction: fadd, fmul, add, and, shl ..."""
        return self.let(
            f"{instruction} {type_of(a.dtype, a.lanes)} {a.name}, {b.name}", a.dtype, a.lanes
        )

    def fneg(self, a: Typed) -> Typed:
        """-a, exactly."""
        return self.let(f"fneg {type_of(a.dtype, a.lanes)} {a.name}", a.dtype, a.lanes)

    def compare(self, predicate: str, a: Typed, b: Typed) -> Typed:
        """icmp or fcmp, by the type of the operands (`olt`, `slt`, `eq` ...)."""
        word = "fcmp" if a.dtype[0] == "f" else "icmp"
        return self.let(
            f"{word} {predicate} {type_of(a.dtype, a.lanes)} {a.name}, {b.name}", "b1", a.lanes
        )

    def select(self, cond: Typed, a: Typed, b: Typed) -> Typed:
        """a where cond, else b, per lane."""
        kind = type_of(a.dtype, a.lanes)
        mask = type_of("b1", cond.lanes)
        return self.let(
            f"select {mask} {cond.name}, {kind} {a.name}, {kind} {b.name}", a.dtype, a.lanes
        )

    def convert(self, instruction: str, a: Typed, dtype: str) -> Typed:
        """sext, zext, trunc, sitofp, uitofp, fptosi, fpext, fptrunc, bitcast ... to a type."""
        source, target = type_of(a.dtype, a.lanes), type_of(dtype, a.lanes)
        return self.let(f"{instruction} {source} {a.name} to {target}", dtype, a.lanes)

    def intrinsic(self, name: str, args: Sequence[Typed], extra: Sequence[str] = ()) -> Typed:
        """`llvm.name` overloaded on the type of its first operand; `extra` are i1 immediates."""
        a = args[0]
        kind = type_of(a.dtype, a.lanes)
        mangled = MANGLED[LLVM_TYPE[a.dtype]]
        full = f"llvm.{name}.{mangled}" if a.lanes == 1 else f"llvm.{name}.v{a.lanes}{mangled}"
        types = [type_of(x.dtype, x.lanes) for x in args] + ["i1"] * len(extra)
        self.declare(full, f"declare {kind} @{full}({', '.join(types)})")
        given = [f"{type_of(x.dtype, x.lanes)} {x.name}" for x in args]
        given += [f"i1 {e}" for e in extra]
        return self.let(f"call {kind} @{full}({', '.join(given)})", a.dtype, a.lanes)

    def any(self, mask: Typed) -> Typed:
        """Whether any lane of a mask is true, as a scalar b1."""
        if mask.lanes == 1:
            return mask
        kind = f"i{mask.lanes}"
        bits = self.fresh()
        self.line(f"%{bits} = bitcast <{mask.lanes} x i1> {mask.name} to {kind}")
        return self.let(f"icmp ne {kind} %{bits}, 0", "b1", 1)

    def declare(self, name: str, text: str) -> None:
        """A declaration or helper function of the module, once."""
        self.declarations.setdefault(name, text)

    # --- short forms used by the mathematics

    def add(self, a: Typed, b: Typed) -> Typed:
        """a + b."""
        return self.op("fadd" if a.dtype[0] == "f" else "add", a, b)

    def sub(self, a: Typed, b: Typed) -> Typed:
        """a - b."""
        return self.op("fsub" if a.dtype[0] == "f" else "sub", a, b)

    def mul(self, a: Typed, b: Typed) -> Typed:
        """a * b."""
        return self.op("fmul" if a.dtype[0] == "f" else "mul", a, b)

    def div(self, a: Typed, b: Typed) -> Typed:
        """a / b of floats."""
        return self.op("fdiv", a, b)

    def fma(self, a: Typed, b: Typed, c: Typed) -> Typed:
        """a * b + c, fused where the host does it in one instruction, else in two."""
        if self.host.fma:
            return self.intrinsic("fma", (a, b, c))
        return self.add(self.mul(a, b), c)

    def fabs(self, a: Typed) -> Typed:
        """|a|."""
        return self.intrinsic("fabs", (a,))

    def like(self, a: Typed, value: bool | int | float) -> Typed:
        """A constant of the type of `a`."""
        return self.const(value, a.dtype, a.lanes)
