"""Convolutions with JAX's signatures: layouts, padding, dilation and groups around one row.

Like JAX's, and unlike `numpy.convolve`, they do not turn the kernel around. Operands are brought
to the layout of the row `conv` (`primitives/conv.py`) by moves, padded by `pad`, and the result
is moved back. Products have full precision, whatever `precision` says.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.lax.binding import Ints, as_dtype, bind, dtype_of, own, shape_of
from ftrace.lax.dimension_numbers import (
    Pads,
    conv_dimension_numbers,
    dilated,
    explicit_pads,
    padtype_to_pads,
    positive,
)
from ftrace.lax.making import rev, transpose
from ftrace.numpy.precision import check_precision
from ftrace.primitives import conv as rows
from ftrace.primitives import linear, shape, slicing

# ---------------------------------------------------------------------------------- convolution


def conv_general_dilated(  # noqa: PLR0913 - JAX's signature
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution of any rank, layout, padding, dilation and grouping.

    Args:
        lhs: an array with a batch axis, a feature axis and axes of space.
        rhs: the kernel, with axes for out features, in features and space; same dtype as `lhs`.
        window_strides: step of the kernel along each axis of space.
        padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each axis of space; negative
            numbers cut.
        lhs_dilation: distance to which elements of `lhs` are pulled apart, zeros between them.
        rhs_dilation: distance of the kernel's elements.
        dimension_numbers: which axes are what, see `conv_dimension_numbers`.
        feature_group_count: groups of features, each with its own out features.
        batch_group_count: groups of batch members, each with its own out features.
        precision: as in JAX; the product has full precision in any case.
        preferred_element_type: convert both to this dtype first.

    Returns:
        An array laid out as `dimension_numbers` say.

    Raises:
        ShapeError: sizes that do not fit.
        DtypeError: operands of two dtypes, or of booleans.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x, kernel, axes = np.ones((1, 3, 3, 1)), np.ones((2, 2, 1, 1)), ("NHWC", "HWIO", "NHWC")
        >>> y = lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=axes)
        >>> y[0, :, :, 0]
        array([[4., 4.], [4., 4.]])
    """
    name = "conv_general_dilated"
    check_precision(name, precision)
    numbers = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    if preferred_element_type is not None:
        lhs, rhs = (as_dtype(x, dtype_of(preferred_element_type)) for x in (lhs, rhs))
    x = linear.transpose(lhs, permutation=numbers.lhs_spec)
    kernel = linear.transpose(rhs, permutation=numbers.rhs_spec)
    ndim = len(shape_of(x)) - 2
    strides = positive(name, "window_strides", window_strides, ndim)
    steps = positive(name, "lhs_dilation", lhs_dilation, ndim)
    spread = positive(name, "rhs_dilation", rhs_dilation, ndim)
    window = dilated(shape_of(kernel)[2:], spread)
    x = _padded(x, _pads(padding, shape_of(x)[2:], window, strides, steps), steps)
    x, kernel = _grouped(x, kernel, feature_group_count, batch_group_count)
    z = _ungrouped(bind(rows.conv, x, kernel, strides=strides, dilation=spread))
    back = map(numbers.out_spec.index, range(ndim + 2))
    return own(linear.transpose(z, permutation=tuple(back)), lhs, rhs)


def _pads(padding: Any, space: Ints, window: Ints, strides: Ints, steps: Ints) -> Pads:
    """The padding of each axis of space in numbers."""
    if not isinstance(padding, str):
        return explicit_pads("conv_general_dilated", padding, len(space))
    if any(step != 1 for step in steps):
        raise ShapeError(
            f"lax.conv_general_dilated was given the padding {padding!r} and lhs_dilation {steps}.",
            "Give (low, high) for each axis, or use lax.conv_transpose.",
        )
    return tuple(padtype_to_pads(space, window, strides, padding))


def _padded(x: Any, pads: Pads, steps: Ints) -> Any:
    """Zeros around and between the elements along the axes of space."""
    edges = zip(pads, steps, strict=True)
    config = ((0, 0, 0), (0, 0, 0), *((low, high, step - 1) for (low, high), step in edges))
    if config == ((0, 0, 0),) * len(config):
        return x
    zero = typeof(x).dtype.type(0)
    slicing.pad.type(typeof(x), typeof(zero), padding_config=config)
    return slicing.pad(x, zero, padding_config=config)


def _grouped(x: Any, kernel: Any, features: int, batches: int) -> tuple[Any, Any]:
    """Operands with groups as first axis."""
    (n, c, *space), (o, i, *window) = shape_of(x), shape_of(kernel)
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        raise ShapeError(
            f"A convolution was given feature_group_count={features} and "
            f"batch_group_count={batches}.",
            "Both are at least 1, and at most one of them is more.",
        )
    groups = max(features, batches)
    for what, size, count in (
        ("features of lhs", c, features),
        ("batch members of lhs", n, batches),
        ("out features of rhs", o, groups),
    ):
        if size % count:
            raise ShapeError(
                f"A convolution in {count} groups was given {size} {what}.",
                "Groups must have equal sizes.",
            )
    if c != i * features:
        raise ShapeError(
            f"A convolution was given {c} features of lhs in {features} groups and a kernel with "
            f"{i} in features.",
            "The kernel's in features must be those of one group.",
        )
    split = (n, groups, i, *space) if features > 1 else (groups, n // groups, c, *space)
    x = shape.reshape(x, new_sizes=split)
    x = linear.move_axis(x, 1, 0) if features > 1 else x
    return x, shape.reshape(kernel, new_sizes=(groups, o // groups, i, *window))


def _ungrouped(z: Any) -> Any:
    """(group, batch, feature, space...) as (batch, feature, space...)."""
    g, n, o, *space = shape_of(z)
    return shape.reshape(linear.move_axis(z, 0, 1), new_sizes=(n, g * o, *space))


# ---------------------------------------------------------------------------------- shorter forms


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution of (batch, feature, space...) by (out feature, in feature, space...).

    Args:
        lhs, rhs: arrays of one dtype.
        window_strides: step of the kernel along each axis of space.
        padding: "SAME", "SAME_LOWER" or "VALID".
        precision, preferred_element_type: as in `conv_general_dilated`.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x, kernel = np.array([[[1.0, 2.0, 4.0]]]), np.array([[[1.0, -1.0]]])
        >>> lax.conv(x, kernel, (1,), "VALID")
        array([[[-1., -2.]]])
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(  # noqa: PLR0913 - JAX's signature
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv` with explicit padding and dilations.

    Args:
        lhs, rhs: arrays of one dtype, laid out as in `conv`.
        window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
        precision, preferred_element_type: as in `conv_general_dilated`.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x, kernel = np.array([[[1.0, 2.0, 4.0]]]), np.array([[[1.0, -1.0]]])
        >>> lax.conv_with_general_padding(x, kernel, (1,), [(1, 0)], None, None)
        array([[[-1., -1., -2.]]])
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_TRANSPOSE_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(  # noqa: PLR0913 - JAX's signature
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """A convolution with a fractional stride: the shape of a convolution's transpose.

    Args:
        lhs: an array.
        rhs: the kernel, of the same dtype.
        strides: how many times longer each axis of space becomes.
        padding: "SAME" or "VALID", those of the convolution whose transpose this is; or
            (low, high) for each axis, those of this operation.
        rhs_dilation: distance of the kernel's elements.
        dimension_numbers: as in `conv_general_dilated`; by default features come last.
        transpose_kernel: turn the kernel around and exchange its features, as a derivative does.
        precision, preferred_element_type: as in `conv_general_dilated`.
        use_consistent_padding: numbers are those of the convolution, too.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x, kernel = np.array([[[1.0], [2.0]]]), np.ones((2, 1, 1))
        >>> lax.conv_transpose(x, kernel, (2,), "VALID")[0, :, 0]
        array([1., 1., 2., 2.])
    """
    ndim = len(shape_of(lhs))
    if dimension_numbers is None and ndim not in _TRANSPOSE_LAYOUTS:
        raise ShapeError(
            f"lax.conv_transpose has no default layout for {ndim} axes.", "Give dimension_numbers."
        )
    numbers = conv_dimension_numbers(
        shape_of(lhs), shape_of(rhs), dimension_numbers or _TRANSPOSE_LAYOUTS[ndim]
    )
    steps = positive("conv_transpose", "strides", strides, ndim - 2)
    spread = positive("conv_transpose", "rhs_dilation", rhs_dilation, ndim - 2)
    o, i, *space = numbers.rhs_spec
    window = dilated([shape_of(rhs)[a] for a in space], spread)
    pads = _transpose_pads(padding, window, steps, use_consistent_padding)
    if transpose_kernel:
        exchanged = {o: i, i: o}
        rhs = transpose(rev(rhs, space), [exchanged.get(a, a) for a in range(ndim)])
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * (ndim - 2),
        pads,
        steps,
        spread,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transpose_pads(padding: Any, window: Ints, strides: Ints, consistent: bool) -> Pads:
    """The padding of the operation that undoes one with the given padding."""
    if not isinstance(padding, str):
        pads = explicit_pads("conv_transpose", padding, len(window))
        if not consistent:
            return pads
        return tuple((k - a - 1, k - b - 1) for k, (a, b) in zip(window, pads, strict=True))
    kind = padding.upper()
    if kind not in ("SAME", "VALID"):
        raise ShapeError(
            f"lax.conv_transpose was given the padding {padding!r}.",
            "Use 'SAME', 'VALID', or (low, high) for each axis.",
        )
    found: list[tuple[int, int]] = []
    for k, s in zip(window, strides, strict=True):
        total = k + s - 2 + (max(k - s, 0) if kind == "VALID" else 0)
        low = k - 1 if kind == "VALID" or s > k - 1 else -(-total // 2)
        found.append((low, total - low))
    return tuple(found)
