"""What the axes of a convolution are, and how named paddings and dilations become numbers.

Shared by `convolution.py` and `window_reductions.py`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.lax.binding import Ints, ints, one_per_axis

Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """Which axes of the operands and of the result are what.

    Attributes:
        lhs_spec: (batch, feature, space...) axes of the left operand.
        rhs_spec: (out feature, in feature, space...) axes of the kernel.
        out_spec: (batch, feature, space...) axes of the result.
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


# ---------------------------------------------------------------------------------- layouts


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The axes that strings like `("NHWC", "HWIO", "NHWC")` name.

    Args:
        lhs_shape, rhs_shape: of the operands, which have one rank.
        dimension_numbers: three strings, in which N, C, O, I name batch, feature, out and in
            feature and any other letters axes of space; a `ConvDimensionNumbers`; or None for
            axes in the order `("NC...", "OI...", "NC...")`.

    Raises:
        ShapeError: the shapes have different ranks, or the strings do not fit.
        AxisError: axes are missing or named twice.

    Example:
        >>> import ftrace.lax as lax
        >>> lax.conv_dimension_numbers((1, 8, 8, 3), (2, 2, 3, 4), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim or ndim < 2:
        raise ShapeError(
            f"A convolution was given arrays of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}.",
            "Both need a batch axis, a feature axis and the same number of axes of space.",
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(ndim)),) * 3)
    specs = tuple(dimension_numbers) if isinstance(dimension_numbers, tuple | list) else ()
    if len(specs) == 3 and all(isinstance(spec, str) for spec in specs):
        return _named_axes(specs, ndim)
    if len(specs) != 3 or any(isinstance(spec, str) for spec in specs):
        raise DtypeError(
            f"A convolution was given the dimension numbers {dimension_numbers!r}.",
            "Give three strings, such as ('NHWC', 'HWIO', 'NHWC'), or three tuples of axes.",
        )
    numbers = ConvDimensionNumbers(*map(ints, specs))
    for spec in numbers:
        if sorted(spec) != list(range(ndim)):
            raise AxisError(
                f"The dimension numbers {spec} are no permutation of {ndim} axes.",
                "Name every axis once: batch, feature, then space.",
            )
    return numbers


def _named_axes(specs: tuple[str, str, str], ndim: int) -> ConvDimensionNumbers:
    lhs, rhs, out = specs
    space = [c for c in rhs if c not in "OI"]
    for spec, leading in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if len(spec) != ndim or set(spec) != {*leading, *space} or len(set(spec)) != ndim:
            raise ShapeError(
                f"The dimension numbers {specs} do not name the {ndim} axes of the operands: "
                f"{spec!r} needs each of {[*leading, *space]} once.",
                "Use N and C for operand and result, O and I for the kernel, and the same letters "
                "for space in all three.",
            )

    def axes(spec: str, leading: str) -> Ints:
        return tuple(spec.index(c) for c in (*leading, *space))

    return ConvDimensionNumbers(axes(lhs, "NC"), axes(rhs, "OI"), axes(out, "NC"))


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """How many elements a named padding adds before and after each axis.

    Args:
        in_shape: sizes of the axes.
        window_shape: sizes of the windows, dilation included.
        window_strides: steps of the windows.
        padding: "VALID" adds none, "SAME" as many as make the number of windows `size / stride`,
            rounded up, the odd one at the end; "SAME_LOWER" puts the odd one in front.

    Raises:
        ShapeError: another name.

    Example:
        >>> import ftrace.lax as lax
        >>> lax.padtype_to_pads((5, 5), (2, 3), (1, 2), "SAME")
        [(0, 1), (1, 1)]
    """
    kind = padding.upper()
    if kind not in ("SAME", "SAME_LOWER", "VALID"):
        raise ShapeError(
            f"The padding {padding!r} does not exist.",
            "Use 'SAME', 'SAME_LOWER', 'VALID', or (low, high) for each axis.",
        )
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    pads: list[tuple[int, int]] = []
    for n, w, s in zip(in_shape, window_shape, window_strides, strict=True):
        missing = max(0, (-(-n // s) - 1) * s + w - n)
        low = missing // 2 if kind == "SAME" else missing - missing // 2
        pads.append((low, missing - low))
    return pads


def dilated(sizes: Sequence[int], dilation: Sequence[int]) -> Ints:
    """Sizes of windows whose elements are some distance apart."""
    return tuple((n - 1) * d + 1 if n else 0 for n, d in zip(sizes, dilation, strict=True))


def explicit_pads(name: str, padding: Any, ndim: int) -> Pads:
    """(low, high) for each axis, as the user gave them.

    Raises:
        ShapeError: they are no such pairs.
    """
    try:
        pads = tuple((int(low), int(high)) for low, high in map(ints, padding))
    except (TypeError, ValueError):
        raise ShapeError(
            f"lax.{name} was given the padding {padding!r}.",
            "Use 'SAME', 'SAME_LOWER', 'VALID', or (low, high) for each axis.",
        ) from None
    one_per_axis(name, "paddings", pads, ndim)
    return pads


def positive(name: str, what: str, values: Any, ndim: int) -> Ints:
    """Sizes per axis, 1 where none are given.

    Raises:
        ShapeError: there is not one for each axis, or one is not positive.
    """
    found = (1,) * ndim if values is None else ints(values)
    one_per_axis(name, what, found, ndim)
    if any(v < 1 for v in found):
        raise ShapeError(f"lax.{name} was given {what} {found}.", "They must be at least 1.")
    return found
