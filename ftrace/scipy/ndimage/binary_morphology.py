"""Morphology of images of booleans, distances to what is false, and labels of connected parts.

SciPy computes them when the program runs, on the host: their results are integers, or distances
that do not move with an image's values, so that there are no derivatives.
"""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.errors import RuleError
from ftrace.core.lazy import lazy
from ftrace.numpy.cells import write_out
from ftrace.numpy.promote import value
from ftrace.scipy.borrowing import at_run_time, scipys
from ftrace.scipy.ndimage.borders import is_array


def _found(name: str, output: Any, *args: Any, **options: Any) -> Any:
    """What SciPy's function finds, written into an array if one is given."""
    found = at_run_time(lazy("scipy.ndimage", name), *map(value, args), **options)
    return write_out(output, fnp.astype(found, output.dtype)) if is_array(output) else found


@scipys("scipy.ndimage", asked=False)
def binary_erosion(
    input: Any,
    structure: Any = None,
    iterations: int = 1,
    mask: Any = None,
    output: Any = None,
    border_value: int = 0,
    origin: Any = 0,
    brute_force: bool = False,
    *,
    axes: Any = None,
) -> Any:
    """Where an element and all its neighbours are true.

    Args:
        input: an array; what is not zero is true.
        structure: which neighbours count, a boolean array; None for those that share a side.
        iterations: how often; less than 1 until nothing changes.
        mask: where elements may change, a boolean array; None for everywhere.
        output: None, or an array to write the result into.
        border_value: what is outside, 0 or 1.
        origin: by how many elements the structure is moved, along all axes or each of them.
        brute_force: whether all elements are looked at in every iteration.
        axes: along which the structure is; None for all.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_erosion
        >>> ftrace.jit(binary_erosion)(np.array([0, 1, 1, 1, 0]))
        array([False, False,  True, False, False])
    """
    return _found(
        "binary_erosion",
        output,
        input,
        structure=structure,
        iterations=iterations,
        mask=mask,
        border_value=border_value,
        origin=origin,
        brute_force=brute_force,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_dilation(
    input: Any,
    structure: Any = None,
    iterations: int = 1,
    mask: Any = None,
    output: Any = None,
    border_value: int = 0,
    origin: Any = 0,
    brute_force: bool = False,
    *,
    axes: Any = None,
) -> Any:
    """Where an element or one of its neighbours is true.

    Args:
        input, structure, iterations, mask, output, border_value, origin, brute_force, axes: as in
            `binary_erosion`.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_dilation
        >>> ftrace.jit(binary_dilation)(np.array([0, 0, 1, 0, 0]))
        array([False,  True,  True,  True, False])
    """
    return _found(
        "binary_dilation",
        output,
        input,
        structure=structure,
        iterations=iterations,
        mask=mask,
        border_value=border_value,
        origin=origin,
        brute_force=brute_force,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_opening(
    input: Any,
    structure: Any = None,
    iterations: int = 1,
    output: Any = None,
    origin: Any = 0,
    mask: Any = None,
    border_value: int = 0,
    brute_force: bool = False,
    *,
    axes: Any = None,
) -> Any:
    """A dilation of an erosion: true parts that hold no structure are taken away.

    Args:
        input, structure, iterations, mask, output, border_value, origin, brute_force, axes: as in
            `binary_erosion`.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_opening
        >>> ftrace.jit(binary_opening)(np.array([1, 0, 1, 1, 1, 0]))
        array([False, False,  True,  True,  True, False])
    """
    return _found(
        "binary_opening",
        output,
        input,
        structure=structure,
        iterations=iterations,
        mask=mask,
        border_value=border_value,
        origin=origin,
        brute_force=brute_force,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_closing(
    input: Any,
    structure: Any = None,
    iterations: int = 1,
    output: Any = None,
    origin: Any = 0,
    mask: Any = None,
    border_value: int = 0,
    brute_force: bool = False,
    *,
    axes: Any = None,
) -> Any:
    """An erosion of a dilation: false parts that hold no structure are filled.

    Args:
        input, structure, iterations, mask, output, border_value, origin, brute_force, axes: as in
            `binary_erosion`.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_closing
        >>> ftrace.jit(binary_closing)(np.array([0, 1, 0, 1, 0, 0]))
        array([False,  True,  True,  True, False, False])
    """
    return _found(
        "binary_closing",
        output,
        input,
        structure=structure,
        iterations=iterations,
        mask=mask,
        border_value=border_value,
        origin=origin,
        brute_force=brute_force,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_hit_or_miss(
    input: Any,
    structure1: Any = None,
    structure2: Any = None,
    output: Any = None,
    origin1: Any = 0,
    origin2: Any = None,
    *,
    axes: Any = None,
) -> Any:
    """Where neighbours of one structure are true, and those of another are false.

    Args:
        input, output, axes: as in `binary_erosion`.
        structure1: neighbours that are true, a boolean array; None for those that share a side.
        structure2: neighbours that are false; None for all others.
        origin1, origin2: by how many elements the structures are moved.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_hit_or_miss
        >>> hit = lambda x: binary_hit_or_miss(x, np.array([0, 1, 1]), np.array([1, 0, 0]))
        >>> ftrace.jit(hit)(np.array([0, 1, 1, 1, 0]))
        array([False,  True, False, False, False])
    """
    return _found(
        "binary_hit_or_miss",
        output,
        input,
        structure1=structure1,
        structure2=structure2,
        origin1=origin1,
        origin2=origin2,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_propagation(
    input: Any,
    structure: Any = None,
    mask: Any = None,
    output: Any = None,
    border_value: int = 0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Dilations until nothing changes, within a mask.

    Args:
        input, structure, mask, output, border_value, origin, axes: as in `binary_erosion`.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_propagation
        >>> f = lambda x: binary_propagation(x, mask=np.array([1, 1, 0, 1]))
        >>> ftrace.jit(f)(np.array([1, 0, 0, 0]))
        array([ True,  True, False, False])
    """
    return _found(
        "binary_propagation",
        output,
        input,
        structure=structure,
        mask=mask,
        border_value=border_value,
        origin=origin,
        axes=axes,
    )


@scipys("scipy.ndimage", asked=False)
def binary_fill_holes(
    input: Any,
    structure: Any = None,
    output: Any = None,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """An image whose false parts that do not reach its border are filled.

    Args:
        input, structure, output, origin, axes: as in `binary_erosion`.

    Returns:
        A boolean array of the input's shape.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import binary_fill_holes
        >>> ftrace.jit(binary_fill_holes)(np.array([0, 1, 0, 1, 0]))
        array([False,  True,  True,  True, False])
    """
    return _found("binary_fill_holes", output, input, structure=structure, origin=origin, axes=axes)


def _distances(name: str, input: Any, outputs: tuple[Any, Any], **options: Any) -> Any:
    """What a transform of SciPy's finds.

    Raises:
        RuleError: arrays to write into.
    """
    if any(v is not None for v in outputs):
        raise RuleError(
            f"{name} was given arrays to write into, which no traced function does here.",
            "Leave distances= and indices= out: the results are returned.",
        )
    return at_run_time(lazy("scipy.ndimage", name), value(input), **options)


@scipys("scipy.ndimage", asked=False)
def distance_transform_edt(
    input: Any,
    sampling: Any = None,
    return_distances: bool = True,
    return_indices: bool = False,
    distances: Any = None,
    indices: Any = None,
) -> Any:
    """The distance of each element from the nearest that is zero.

    Args:
        input: an array.
        sampling: the distance of neighbours, along all axes or each of them; None for 1.
        return_distances, return_indices: whether distances, and the index of the nearest zero along
            a first axis, are among the results.
        distances, indices: as they are by default.

    Returns:
        Distances, an array of the input's shape, indices, or both.


    Raises:
        RuleError: arrays to write into.
        RuntimeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import distance_transform_edt
        >>> ftrace.jit(distance_transform_edt)(np.array([1, 1, 0, 1]))
        array([2., 1., 0., 1.])
    """
    return _distances(
        "distance_transform_edt",
        input,
        (distances, indices),
        sampling=sampling,
        return_distances=return_distances,
        return_indices=return_indices,
    )


@scipys("scipy.ndimage", asked=False)
def distance_transform_cdt(
    input: Any,
    metric: Any = "chessboard",
    return_distances: bool = True,
    return_indices: bool = False,
    distances: Any = None,
    indices: Any = None,
) -> Any:
    """The distance of each element from the nearest that is zero, in steps.

    Args:
        input, return_distances, return_indices, distances, indices: as in
            `distance_transform_edt`.
        metric: "chessboard", "taxicab", or which neighbours are at distance 1, a boolean array.

    Returns:
        Distances, an array of the input's shape, indices, or both.


    Raises:
        RuleError: arrays to write into.
        RuntimeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import distance_transform_cdt
        >>> ftrace.jit(distance_transform_cdt)(np.array([1, 1, 0, 1]))
        array([2, 1, 0, 1], dtype=int32)
    """
    return _distances(
        "distance_transform_cdt",
        input,
        (distances, indices),
        metric=metric,
        return_distances=return_distances,
        return_indices=return_indices,
    )


@scipys("scipy.ndimage", asked=False)
def distance_transform_bf(
    input: Any,
    metric: str = "euclidean",
    sampling: Any = None,
    return_distances: bool = True,
    return_indices: bool = False,
    distances: Any = None,
    indices: Any = None,
) -> Any:
    """The distance of each element from the nearest that is zero, by looking at all of them.

    Args:
        input, return_distances, return_indices, distances, indices: as in
            `distance_transform_edt`.
        metric: "euclidean", "taxicab" or "chessboard".
        sampling: as in `distance_transform_edt`.

    Returns:
        Distances, an array of the input's shape, indices, or both.


    Raises:
        RuleError: arrays to write into.
        RuntimeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import distance_transform_bf
        >>> ftrace.jit(distance_transform_bf)(np.array([1, 1, 0, 1]))
        array([2., 1., 0., 1.])
    """
    return _distances(
        "distance_transform_bf",
        input,
        (distances, indices),
        metric=metric,
        sampling=sampling,
        return_distances=return_distances,
        return_indices=return_indices,
    )


@scipys("scipy.ndimage", asked=False)
def label(input: Any, structure: Any = None, output: Any = None) -> Any:
    """The connected parts of what is not zero, by numbers.

    Args:
        input: an array.
        structure: which neighbours are connected, a boolean array of size 3 along each axis; None
            for those that share a side.
        output: None, or the dtype of the labels.

    Returns:
        Labels from 1, an array of the input's shape in int32, and how many there are.


    Raises:
        RuleError: an array to write into.
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import label
        >>> ftrace.jit(label)(np.array([1, 0, 1, 1]))
        (array([1, 0, 2, 2], dtype=int32), np.int64(2))
    """
    if is_array(output):
        raise RuleError("label was given an array to write into.", "Its labels are returned.")
    return at_run_time(lazy("scipy.ndimage", "label"), value(input), structure, output)


@scipys("scipy.ndimage", asked=False)
def watershed_ift(input: Any, markers: Any, structure: Any = None, output: Any = None) -> Any:
    """An image's basins, flooded from markers.

    Args:
        input: an array of uint8 or uint16.
        markers: labels of where floods start, integers in an array of its shape, 0 elsewhere.
        structure: which neighbours are connected, as in `label`.
        output: None, or an array to write the result into.

    Returns:
        Labels, an array of the input's shape in the markers' dtype.


    Raises:
        RuntimeError, TypeError, ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import watershed_ift
        >>> image, markers = np.array([0, 1, 9, 1], "u1"), np.array([1, 0, 0, 2])
        >>> ftrace.jit(watershed_ift)(image, markers)
        array([1, 1, 2, 2])
    """
    return _found("watershed_ift", output, input, markers, structure=structure)
