"""Mistakes that users make, each with the class of error it must raise.

One short function per mistake, written as a user would write it; `test_errors.py` runs each and
compares the message with its section in `errors/<class>.txt`. Not here: `CallbackError`
(tests/api), and `BackendError` with its kin, which no mistake of a user provokes (tests/gpu).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.core.check import check_jaxpr
from ftrace.core.jaxpr import Jaxpr


@dataclass
class Mistake:
    """A function that raises, and what."""

    run: Callable[[], Any]
    error: type[Exception]


MISTAKES: dict[str, Mistake] = {}


def raises(error: type[Exception]) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a function into the table under its name, in words."""

    def enter(run: Callable[[], Any]) -> Callable[[], Any]:
        name = run.__name__.strip("_").replace("_", " ")
        assert name not in MISTAKES, name
        MISTAKES[name] = Mistake(run, error)
        return run

    return enter


@raises(errors.ConfigError)
def _a_setting_that_does_not_exist():
    with ftrace.config.update(compiled=False):
        pass


@raises(errors.ConfigError)
def _a_setting_of_the_wrong_type():
    ftrace.config.set_default(traceback="short")


@dataclass
class Layer:
    """Parameters of one layer, as users have them."""

    w: Any
    b: Any
    name: str = field(default="dense", metadata={"static": True})


def predict(params, x):
    return np.tanh(x @ params["hidden"].w + params["hidden"].b)


def loss(params, x, y):
    return np.mean((predict(params, x) - y) ** 2)


def network():
    return {"hidden": Layer(np.ones((3, 2)), np.zeros(2))}


# ---------------------------------------------------------------------------------- arguments


@raises(errors.DtypeError)
def grad_of_something_that_is_no_function():
    return ftrace.grad(3.0)


@raises(errors.DtypeError)
def grad_of_the_value_instead_of_the_function():
    return ftrace.grad(np.sum(np.ones(3)))(1.0)


@raises(errors.DtypeError)
def an_argument_that_is_a_string():
    return ftrace.jit(lambda x, mode: x)(1.0, "fast")


@raises(errors.DtypeError)
def an_object_deep_inside_the_parameters():
    params = {"hidden": Layer(Ellipsis, np.zeros(2))}
    return ftrace.grad(loss)(params, np.ones((4, 3)), np.ones((4, 2)))


@raises(errors.DtypeError)
def an_array_of_objects():
    return ftrace.vmap(np.sin)(np.array([1.0, None]))


@raises(errors.DtypeError)
def an_array_of_dates():
    return ftrace.jit(lambda day: day)(np.array(["2024-01-01"], "datetime64[D]"))


@raises(errors.DtypeError)
def the_gradient_of_an_array_of_integers():
    return ftrace.grad(lambda x: np.sum(x**2))(np.array([1, 2, 3]))


@raises(errors.DtypeError)
def the_gradient_of_parameters_that_are_all_integers():
    params = {"hidden": Layer(np.ones((3, 2), int), np.zeros(2, int))}
    return ftrace.grad(loss)(params, np.ones((4, 3)), np.ones((4, 2)))


@raises(errors.DtypeError)
def the_gradient_of_a_boolean():
    return ftrace.grad(lambda flag, x: x * flag, argnums=(1, 0))(True, 2.0)


@raises(errors.DtypeError)
def the_jacobian_of_integers():
    return ftrace.jacfwd(lambda x: x * 2.0)(np.arange(3))


@raises(errors.DtypeError)
def the_reverse_jacobian_of_integers():
    return ftrace.jacrev(lambda x: x * 2.0)(np.arange(3))


@raises(errors.DtypeError)
def a_complex_result_without_holomorphic():
    return ftrace.grad(lambda z: z * z)(1.0 + 2.0j)


@raises(errors.DtypeError)
def an_integer_result():
    return ftrace.grad(lambda x: np.argmax(x))(np.array([1.0, 3.0]))


@raises(errors.DtypeError)
def a_real_argument_with_holomorphic():
    return ftrace.grad(lambda z: z * z, holomorphic=True)(1.0)


@raises(errors.DtypeError)
def a_real_result_with_holomorphic():
    return ftrace.grad(lambda z: np.abs(z), holomorphic=True)(1.0j)


@raises(errors.TreeError)
def an_argnum_beyond_the_arguments():
    return ftrace.grad(loss, argnums=3)(network(), np.ones((4, 3)), np.ones((4, 2)))


@raises(errors.TreeError)
def an_argnum_by_a_name_that_is_not_there():
    return ftrace.grad(loss, argnums="weights")(network(), np.ones((4, 3)), np.ones((4, 2)))


@raises(errors.TreeError)
def an_argnum_that_is_passed_by_keyword():
    return ftrace.grad(lambda a, b: a * b, argnums=1)(2.0, b=3.0)


@raises(errors.DtypeError)
def an_argnum_that_is_no_integer():
    return ftrace.grad(lambda a, b: a * b, argnums=1.0)(2.0, 3.0)


@raises(errors.TreeError)
def an_argnum_twice():
    return ftrace.grad(lambda a, b: a * b, argnums=(0, -2))(2.0, 3.0)


@raises(errors.ShapeError)
def a_window_over_the_end():
    return ftrace.jit(lambda x, k: x[k : k + 3].sum())(np.arange(5.0), 3)


@raises(errors.ConcretizationTypeError)
def a_result_of_unknown_size():
    return ftrace.jit(lambda x, n: x[:n])(np.arange(5.0), 3)


@raises(errors.ConcretizationTypeError)
def a_slice_of_unknown_size_beside_an_array():
    return ftrace.jit(lambda x, n: x[:n, [0, 2]].sum())(np.ones((3, 3)), 2)


@raises(errors.ShapeError)
def the_gradient_of_a_vector():
    return ftrace.grad(lambda x: np.sin(x))(np.ones(3))


@raises(errors.TreeError)
def the_gradient_of_two_results():
    return ftrace.grad(lambda x: (x * x, x))(2.0)


@raises(errors.TreeError)
def has_aux_with_a_single_result():
    return ftrace.grad(lambda x: x * x, has_aux=True)(2.0)


@raises(errors.TreeError)
def a_function_that_forgot_to_return():
    def f(x):
        np.sin(x)

    return ftrace.grad(f)(1.0)


@raises(errors.DtypeError)
def a_result_that_is_a_string():
    return ftrace.jit(lambda x: (x, "done"))(1.0)


@raises(errors.DtypeError)
def a_gradient_of_a_result_that_is_a_string():
    return ftrace.grad(lambda x: "done")(1.0)


# ---------------------------------------------------------------------------------- jvp, vjp


@raises(errors.DtypeError)
def jvp_with_a_bare_primal():
    return ftrace.jvp(np.sin, 1.0, 1.0)


@raises(errors.TreeError)
def jvp_with_too_few_tangents():
    return ftrace.jvp(lambda a, b: a * b, (1.0, 2.0), (1.0,))


@raises(errors.TreeError)
def jvp_with_tangents_in_other_containers():
    params = network()
    return ftrace.jvp(lambda p: p["hidden"].w, (params,), ({"hidden": [np.ones((3, 2))]},))


@raises(errors.ShapeError)
def jvp_with_a_tangent_of_another_shape():
    return ftrace.jvp(lambda a, b: a * b, (np.ones(3), np.ones(3)), (np.ones(3), np.ones(4)))


@raises(errors.DtypeError)
def jvp_with_a_tangent_of_another_dtype():
    return ftrace.jvp(np.sin, (np.ones(3, np.float32),), (np.ones(3),))


@raises(errors.DtypeError)
def jvp_with_a_tangent_for_an_integer():
    return ftrace.jvp(lambda x, n: x * n, (2.0, np.int64(3)), (1.0, 1))


@raises(errors.ShapeError)
def a_pushforward_of_a_tangent_of_another_shape():
    _, push = ftrace.linearize(np.sin, np.ones(3))
    return push(np.ones(2))


@raises(errors.TreeError)
def a_cotangent_in_other_containers():
    _, pull = ftrace.vjp(lambda x: {"sin": np.sin(x), "cos": np.cos(x)}, 1.0)
    return pull((1.0, 1.0))


@raises(errors.ShapeError)
def a_cotangent_of_another_shape():
    _, pull = ftrace.vjp(lambda x: {"sin": np.sin(x)}, np.ones(3))
    return pull({"sin": np.ones(4)})


@raises(errors.DtypeError)
def a_complex_cotangent_of_a_real_result():
    _, pull = ftrace.vjp(np.sin, 1.0)
    return pull(1.0j)


@raises(errors.RuleError)
def the_transpose_of_a_function_that_is_not_linear():
    return ftrace.linear_transpose(np.sin, 1.0)(1.0)


@raises(errors.ShapeError)
def a_chunk_of_no_columns():
    return ftrace.jacfwd(np.sin, chunk_size=0)(np.ones(3))


@raises(errors.TreeError)
def hvp_with_directions_in_other_containers():
    return ftrace.hvp(lambda x: np.sum(x**3), (np.ones(2),), (np.ones(2), np.ones(2)))


# ---------------------------------------------------------------------------------- vmap


@raises(errors.ShapeError)
def vmap_over_axes_of_different_sizes():
    return ftrace.vmap(loss, in_axes=(None, 0, 0))(network(), np.ones((4, 3)), np.ones((5, 2)))


@raises(errors.ShapeError)
def vmap_over_nothing():
    return ftrace.vmap(lambda x: x * 2, in_axes=None)(1.0)


@raises(errors.ShapeError)
def vmap_with_another_axis_size():
    return ftrace.vmap(lambda x: x * 2, axis_size=4)(np.ones(3))


@raises(errors.AxisError)
def vmap_over_an_axis_that_is_not_there():
    return ftrace.vmap(loss)(network(), np.ones((3, 3)), 1.0)


@raises(errors.AxisError)
def vmap_with_an_out_axis_that_is_not_there():
    return ftrace.vmap(lambda x: x * 2, out_axes=1)(np.ones(3))


@raises(errors.TreeError)
def vmap_with_too_few_in_axes():
    return ftrace.vmap(lambda x, y: x + y, in_axes=(0,))(np.ones(3), np.ones(3))


@raises(errors.TreeError)
def vmap_with_in_axes_in_other_containers():
    axes = ({"hidden": Layer(0, None), "output": 0}, 0, 0)
    return ftrace.vmap(loss, in_axes=axes)(network(), np.ones((4, 3)), np.ones((4, 2)))


@raises(errors.TreeError)
def vmap_with_an_in_axis_that_is_no_integer():
    return ftrace.vmap(lambda x, y: x + y, in_axes=(0, "rows"))(np.ones(3), np.ones(3))


@raises(errors.DtypeError)
def vmap_with_in_axes_that_are_no_tuple():
    return ftrace.vmap(lambda x: x * 2, in_axes="rows")


@raises(errors.TreeError)
def vmap_with_out_axes_in_other_containers():
    return ftrace.vmap(lambda x: {"sin": np.sin(x)}, out_axes=(0, 0))(np.ones(3))


@raises(errors.TreeError)
def vmap_with_out_axes_none_for_a_mapped_result():
    return ftrace.vmap(lambda x: {"sin": np.sin(x)}, out_axes=None)(np.ones(3))


@raises(errors.AxisError)
def a_collective_over_an_axis_that_has_no_such_name():
    return ftrace.vmap(lambda x: x / lax.psum(x, "batch"), axis_name="rows")(np.ones(3))


# ---------------------------------------------------------------------------------- jit


@raises(errors.DtypeError)
def a_static_argument_that_cannot_be_hashed():
    f = ftrace.jit(lambda x, sizes: np.reshape(x, sizes), static_argnums=1)
    return f(np.ones(6), [2, 3])


@raises(errors.TreeError)
def a_static_argnum_beyond_the_parameters():
    return ftrace.jit(lambda x, n: x * n, static_argnums=2)


@raises(errors.TreeError)
def a_static_argname_that_is_no_parameter():
    return ftrace.jit(lambda x, n: x * n, static_argnames="m")


@raises(errors.DtypeError)
def a_static_argument_of_checkpoint_that_cannot_be_hashed():
    f = ftrace.checkpoint(lambda x, sizes: np.sum(np.reshape(x, sizes)), static_argnums=1)
    return ftrace.grad(f)(np.ones(6), [2, 3])


@raises(errors.TreeError)
def a_static_argnum_of_make_jaxpr_beyond_the_arguments():
    return ftrace.make_jaxpr(lambda x, n: x * n, static_argnums=5)(1.0, 2)


# ---------------------------------------------------------------------------------- conversions


@raises(errors.TracerBoolConversionError)
def a_branch_on_a_traced_value():
    @ftrace.jit(lift=False)
    def relu(x):
        if x > 0:
            return x
        return 0 * x

    return relu(1.0)


@raises(errors.TracerBoolConversionError)
def a_chained_comparison():
    return ftrace.jit(lambda x: np.where(0 < x < 1, x, 0.0), lift=False)(np.ones(3))


@raises(errors.TracerBoolConversionError)
def a_while_loop_in_vmap():
    def halve(x):
        while x > 1:
            x = x / 2
        return x

    return ftrace.vmap(halve, lift=False)(np.array([3.0, 5.0]))


@raises(errors.TracerBoolConversionError)
def the_truth_of_an_array():
    return ftrace.jit(lambda x: x if not x.any() else -x, lift=False)(np.ones(2))


@raises(errors.TracerIntegerConversionError)
def a_range_over_a_traced_integer():
    @ftrace.jit(lift=False)
    def power(x, n):
        for _ in range(n):
            x = x * x
        return x

    return power(2.0, 3)


@raises(errors.TracerIntegerConversionError)
def a_list_index_that_is_traced():
    table = [1.0, 2.0, 3.0]
    return ftrace.vmap(lambda i: table[i], lift=False)(np.arange(3))


@raises(errors.TracerIntegerConversionError)
def a_shape_that_is_traced():
    return ftrace.jit(lambda x, n: np.reshape(x, (n, -1)))(np.ones(6), 2)


@raises(errors.TracerIntegerConversionError)
def the_integer_of_a_traced_value():
    return ftrace.jit(lambda x: int(x), lift=False)(2.0)


@raises(errors.TracerArrayConversionError)
def the_float_of_a_value_with_a_derivative():
    return ftrace.grad(lambda x: float(x) * x, lift=False)(2.0)


@raises(errors.TracerArrayConversionError)
def a_function_of_math():
    import math

    return ftrace.grad(lambda x: math.sin(x), lift=False)(1.0)


@raises(errors.TracerArrayConversionError)
def an_array_made_of_traced_values():
    return ftrace.grad(lambda x: np.sum(np.array([x, 1.0])), lift=False)(2.0)


@raises(errors.TracerArrayConversionError)
def a_store_into_a_plain_array():
    def f(x):
        out = np.zeros(3)
        out[0] = x
        return np.sum(out)

    return ftrace.grad(f, lift=False)(2.0)


@raises(errors.TracerArrayConversionError)
def a_store_of_an_array_into_a_plain_array():
    def f(x):
        out = np.zeros((2, 3))
        out[1] = x
        return np.sum(out)

    return ftrace.grad(f, lift=False)(np.ones(3))


@raises(errors.TracerArrayConversionError)
def a_plain_out_argument():
    def f(x):
        out = np.empty(3)
        np.sin(x, out=out)
        return out

    return ftrace.jit(f, lift=False)(np.ones(3))


@raises(errors.TracerArrayConversionError)
def an_addition_into_a_plain_array():
    def f(x):
        total = np.zeros(3)
        total += x
        return np.sum(total)

    return ftrace.grad(f, lift=False)(np.ones(3))


@raises(errors.TracerArrayConversionError)
def a_plain_array_in_add_at():
    def histogram(x):
        counts = np.zeros(3)
        np.add.at(counts, [0, 1, 1], x)
        return counts

    return ftrace.jit(histogram, lift=False)(np.ones(3))


@raises(errors.ConcretizationTypeError)
def a_result_whose_shape_depends_on_values():
    return ftrace.jit(lambda x: x[x > 0])(np.array([1.0, -1.0]))


@raises(errors.LiftError)
def a_print_in_a_lifted_function():
    def f(x):
        print("x is", x)
        return x if x > 0 else -x

    return ftrace.jit(f)(1.0)


@raises(errors.LiftError)
def a_captured_array_written_by_a_function_that_is_traced_twice():
    counts = np.zeros(2)

    def f(x):
        counts[0] += 1
        return x if x > 0 else -x

    return ftrace.jit(f)(1.0)


@raises(errors.LiftError)
def a_list_of_unlike_things_with_a_traced_index():
    return ftrace.jit(lambda i: [1.0, "two"][i])(0)


# ---------------------------------------------------------------------------------- mutation


@raises(errors.MutationError)
def a_write_to_an_argument():
    def f(x):
        x[0] = 0.0
        return np.sum(x)

    return ftrace.grad(f)(np.ones(3))


@raises(errors.MutationError)
def a_write_to_a_view_of_an_argument():
    def f(x):
        row = x[0]
        row += 1.0
        return x

    return ftrace.jit(f)(np.ones((2, 2)))


@raises(errors.MutationError)
def a_write_to_an_array_of_the_function_outside():
    def outer(x):
        total = fnp.zeros(3)

        def step(y):
            total[0] = y
            return y

        return np.sum(total) + ftrace.jit(step)(x)

    return ftrace.grad(outer)(1.0)


@raises(errors.MutationError)
def a_write_to_an_operand_of_cond():
    def f(x):
        def double(y):
            y *= 2
            return y

        return lax.cond(x[0] > 0, double, lambda y: y, x)

    return ftrace.jit(f)(np.ones(2))


@raises(errors.MutationError)
def a_write_to_a_large_captured_array():
    weights = np.ones(20_000)

    def f(x):
        y = np.sum(weights * x)
        weights[0] = 5.0
        return y

    return ftrace.grad(f)(2.0)


@raises(errors.MutationError)
def a_write_to_a_read_only_view():
    def f(x):
        y = x * 2
        diagonal = np.diagonal(y)
        diagonal[0] = 1.0
        return y

    return ftrace.jit(f)(np.ones((2, 2)))


# ---------------------------------------------------------------------------------- leaks


@raises(errors.UnexpectedTracerError)
def a_value_kept_in_a_list():
    history = []

    def f(x):
        history.append(x)
        return x * x

    ftrace.grad(f)(1.0)
    return history[0] + 1.0


@raises(errors.UnexpectedTracerError)
def a_value_kept_from_an_earlier_call():
    cache = {}

    def f(x):
        scale = cache.setdefault("scale", x)
        return np.sum(x * scale)

    ftrace.jit(f)(np.ones(2))
    return ftrace.grad(f)(np.ones(2))


@raises(errors.UnexpectedTracerError)
def a_closure_that_outlives_the_transformation():
    def make(x):
        made.append(lambda y: y * x)
        return x

    made = []
    ftrace.jvp(make, (2.0,), (1.0,))
    return made[0](3.0)


@raises(errors.UnexpectedTracerError)
def an_inner_result_that_is_used_outside():
    inner = []

    def f(x):
        ftrace.vmap(lambda y: inner.append(y) or y)(fnp.ones(2))
        return x * inner[0]

    return ftrace.grad(f)(1.0)


@raises(errors.UnexpectedTracerError)
def a_thread_inside_a_transformed_function():
    from concurrent.futures import ThreadPoolExecutor

    def f(x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: np.sin(x)).result()

    return ftrace.grad(f)(1.0)


@raises(errors.UnexpectedTracerError)
def a_rule_that_closes_over_a_value():
    class Model:
        scale: Any

    def f(x):
        model = Model()
        model.scale = x
        g = ftrace.custom_jvp(lambda y: y * 2.0)
        g.defjvp(lambda p, t: (g(*p), t[0] * model.scale))
        return g(x)

    return ftrace.grad(f)(3.0)


@raises(errors.UnexpectedTracerError)
def a_traced_value_evaluated_at_once():
    def f(x):
        with ftrace.ensure_compile_time_eval():
            n = fnp.sum(x)
        return x * n

    return ftrace.jit(f)(np.ones(3))


# ---------------------------------------------------------------------------------- control flow


@raises(errors.ShapeError)
def cond_with_an_array_as_predicate():
    return lax.cond(np.ones(3) > 0, np.sin, np.cos, 1.0)


@raises(errors.DtypeError)
def cond_with_a_complex_predicate():
    return lax.cond(1j, np.sin, np.cos, 1.0)


@raises(errors.TreeError)
def cond_with_branches_that_return_other_containers():
    return lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)


@raises(errors.ShapeError)
def cond_with_branches_of_different_shapes():
    return lax.cond(True, lambda x: x, lambda x: x[:2], np.ones(3))


@raises(errors.DtypeError)
def cond_with_branches_of_different_dtypes():
    return lax.cond(True, lambda x: {"y": x}, lambda x: {"y": np.float32(1)}, np.float64(2))


@raises(errors.DtypeError)
def cond_with_a_value_instead_of_a_function():
    return lax.cond(True, np.sin(1.0), np.cos(1.0))


@raises(errors.ShapeError)
def a_loop_whose_carry_grows():
    return lax.while_loop(
        lambda c: c["i"] < 3,
        lambda c: {"i": c["i"] + 1, "xs": np.append(c["xs"], 1.0)},
        {"i": 0, "xs": np.zeros(1)},
    )


@raises(errors.DtypeError)
def a_loop_whose_carry_changes_its_dtype():
    return lax.while_loop(lambda i: i < 3, lambda i: i + 0.5, 0)


@raises(errors.TreeError)
def a_loop_whose_carry_changes_its_containers():
    return lax.while_loop(lambda c: c[0] < 3, lambda c: [c[0] + 1, c[1]], (0, 1.0))


@raises(errors.DtypeError)
def a_loop_whose_condition_is_no_boolean():
    return lax.while_loop(lambda i: 10 - i, lambda i: i + 1, 0)


@raises(errors.ShapeError)
def a_loop_whose_condition_is_an_array():
    return lax.while_loop(lambda x: x < 3, lambda x: x + 1, np.zeros(2))


@raises(errors.TreeError)
def a_loop_whose_condition_is_a_pair():
    return lax.while_loop(lambda i: (i < 3, i), lambda i: i + 1, 0)


@raises(errors.TreeError)
def scan_with_a_function_that_returns_no_pair():
    return lax.scan(lambda c, x: c + x, 0.0, np.ones(3))


@raises(errors.TreeError)
def scan_with_a_carry_in_other_containers():
    return lax.scan(lambda c, x: ([c[0], c[1]], x), (0.0, 1.0), np.ones(3))


@raises(errors.DtypeError)
def scan_with_a_carry_of_another_dtype():
    return lax.scan(lambda c, x: (c + x, None), 0, np.ones(3))


@raises(errors.ShapeError)
def scan_with_xs_of_different_lengths():
    return lax.scan(lambda c, x: (c, None), 0.0, {"a": np.ones(3), "b": np.ones(4)})


@raises(errors.ShapeError)
def scan_with_a_length_that_is_not_that_of_xs():
    return lax.scan(lambda c, x: (c, None), 0.0, np.ones(3), length=4)


@raises(errors.ShapeError)
def scan_over_a_scalar():
    return lax.scan(lambda c, x: (c, None), 0.0, {"a": np.ones(3), "b": 2.0})


@raises(errors.TreeError)
def scan_without_xs_or_a_length():
    return lax.scan(lambda c, x: (c, None), 0.0)


@raises(errors.ShapeError)
def scan_of_a_negative_length():
    return lax.scan(lambda c, x: (c, None), 0.0, length=-1)


@raises(errors.ShapeError)
def map_in_batches_of_none():
    return lax.map(np.sin, np.ones(3), batch_size=0)


@raises(errors.DtypeError)
def fori_loop_up_to_a_float():
    return lax.fori_loop(0, 2.5, lambda i, x: x, 1.0)


@raises(errors.DtypeError)
def switch_on_a_boolean():
    return lax.switch(True, [np.sin, np.cos], 1.0)


@raises(errors.ShapeError)
def switch_on_an_array():
    return lax.switch(np.array([0, 1]), [np.sin, np.cos], 1.0)


@raises(errors.TreeError)
def switch_without_branches():
    return lax.switch(0, [], 1.0)


@raises(errors.ShapeError)
def switch_with_branches_of_different_shapes():
    return lax.switch(1, [lambda x: x, lambda x: x * 2, lambda x: x[:1]], np.ones(3))


# ---------------------------------------------------------------------------------- custom rules


@ftrace.custom_jvp
def without_a_rule(x):
    return np.sin(x)


def with_jvp(rule, fun=np.sin):
    f = ftrace.custom_jvp(lambda x: fun(x))
    f.defjvp(rule)
    return f


def with_vjp(fwd, bwd):
    f = ftrace.custom_vjp(lambda x, y: np.sin(x["a"]) * y)
    f.defvjp(fwd, bwd)
    return f


def call_vjp(fwd, bwd):
    f = with_vjp(fwd, bwd)
    return ftrace.grad(lambda x: np.sum(f(x, 2.0)))({"a": np.ones(3)})


def good_fwd(x, y):
    return np.sin(x["a"]) * y, (x["a"], y)


@raises(errors.CustomRuleError)
def custom_jvp_without_a_rule():
    return ftrace.grad(without_a_rule)(1.0)


@raises(errors.CustomRuleError)
def custom_vjp_without_rules():
    return ftrace.custom_vjp(np.sin)(1.0)


@raises(errors.CustomRuleError)
def a_jvp_rule_that_returns_only_the_tangent():
    return ftrace.grad(with_jvp(lambda p, t: t[0]))(1.0)


@raises(errors.CustomRuleError)
def a_jvp_rule_whose_tangent_has_other_containers():
    return ftrace.grad(with_jvp(lambda p, t: (np.sin(p[0]), t)))(1.0)


@raises(errors.CustomRuleError)
def a_jvp_rule_whose_tangent_has_another_shape():
    return ftrace.jvp(with_jvp(lambda p, t: (p[0], np.sum(t[0]))), (np.ones(3),), (np.ones(3),))


@raises(errors.CustomRuleError)
def a_jvp_rule_whose_tangent_has_another_dtype():
    f = with_jvp(lambda p, t: (np.sin(p[0]), t[0].astype(np.float32)))
    return ftrace.jvp(f, (np.ones(3),), (np.ones(3),))


@raises(errors.CustomRuleError)
def a_jvp_rule_whose_result_differs_from_the_function():
    f = with_jvp(lambda p, t: (np.sum(p[0]), np.sum(t[0])))
    return ftrace.grad(ftrace.jit(lambda x: np.sum(f(x))))(np.ones(3))


@raises(errors.CustomRuleError)
def defjvps_with_too_few_rules():
    f = ftrace.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, z, x, y: t * y)
    return ftrace.grad(f)(1.0, 2.0)


@raises(errors.CustomRuleError)
def a_fwd_rule_that_returns_only_the_result():
    return call_vjp(lambda x, y: np.sin(x["a"]) * y, lambda res, ct: (None, None))


@raises(errors.CustomRuleError)
def a_bwd_rule_that_returns_one_cotangent_of_two():
    return call_vjp(good_fwd, lambda res, ct: ({"a": ct},))


@raises(errors.CustomRuleError)
def a_bwd_rule_that_returns_a_bare_cotangent():
    return call_vjp(good_fwd, lambda res, ct: ct)


@raises(errors.CustomRuleError)
def a_bwd_rule_whose_cotangent_has_other_containers():
    return call_vjp(good_fwd, lambda res, ct: (ct, None))


@raises(errors.CustomRuleError)
def a_bwd_rule_whose_cotangent_has_another_shape():
    return call_vjp(good_fwd, lambda res, ct: ({"a": ct[:2]}, None))


@raises(errors.CustomRuleError)
def a_bwd_rule_whose_cotangent_has_another_dtype():
    return call_vjp(good_fwd, lambda res, ct: ({"a": ct.astype(np.float32)}, None))


@raises(errors.CustomRuleError)
def forward_mode_through_a_bwd_rule_that_is_not_linear():
    f = with_vjp(good_fwd, lambda res, ct: ({"a": ct * ct}, None))
    return ftrace.jvp(lambda x: f(x, 2.0), ({"a": np.ones(3)},), ({"a": np.ones(3)},))


@raises(errors.CustomRuleError)
def a_keyword_only_argument_of_a_custom_rule():
    @ftrace.custom_jvp
    def f(x, *, scale=2.0):
        return x * scale

    f.defjvps(lambda t, y, x: t)
    return f(1.0, scale=3.0)


@raises(errors.CustomRuleError)
def a_custom_function_that_closes_over_a_value():
    def f(x):
        g = ftrace.custom_jvp(lambda y: y * x)
        g.defjvps(lambda t, z, y: t)
        return g(x)

    return ftrace.grad(f)(3.0)


@raises(errors.CustomRuleError)
def a_custom_function_that_closes_over_an_attribute():
    class Model:
        scale: Any

    def f(x):
        model = Model()
        model.scale = x
        g = ftrace.custom_jvp(lambda y: y * model.scale)
        g.defjvps(lambda t, z, y: t)
        return g(x)

    return ftrace.jit(f)(3.0)


@raises(errors.CustomRuleError)
def forward_mode_through_a_bwd_rule_that_adds_something():
    return ftrace.jvp(lambda x: ftrace.replace_gradient(x, lambda ct: ct + 1.0), (2.0,), (1.0,))


@raises(errors.CustomRuleError)
def forward_mode_through_a_bwd_rule_that_ignores_the_cotangent():
    return ftrace.jvp(lambda x: ftrace.replace_gradient(x, lambda ct: 1.0), (2.0,), (1.0,))


@raises(errors.CustomRuleError)
def forward_mode_through_clip_gradient():
    return ftrace.jvp(lambda x: ftrace.clip_gradient(x, -1.0, 1.0), (2.0,), (1.0,))


@raises(errors.DtypeError)
def clip_gradient_without_bounds():
    return ftrace.grad(lambda x: ftrace.clip_gradient(x))(2.0)


@raises(errors.DtypeError)
def clip_gradient_with_bounds_and_a_norm():
    return ftrace.grad(lambda x: ftrace.clip_gradient(x, -1.0, max_norm=1.0))(2.0)


@raises(errors.DtypeError)
def clip_gradient_of_complex_numbers():
    return ftrace.clip_gradient(np.array([1j]), -1.0, 1.0)


@raises(errors.CustomRuleError)
def custom_gradient_that_returns_the_result_only():
    f = ftrace.custom_gradient(lambda x: np.sin(x))
    return f(1.0)


@raises(errors.CustomRuleError)
def custom_gradient_with_one_cotangent_of_two():
    f = ftrace.custom_gradient(lambda x, y: (x * y, lambda ct: ct * y))
    return ftrace.grad(f)(1.0, 2.0)


@raises(errors.CustomRuleError)
def an_adjoint_with_one_cotangent_of_two():
    f = ftrace.custom_vjp(lambda x, y: x * y)
    f.defadjoint(lambda ct, z, x, y: ct * y)
    return ftrace.grad(f)(1.0, 2.0)


@raises(errors.TreeError)
def a_converted_function_called_without_its_argument():
    converted, hoisted = ftrace.closure_convert(lambda x, y: x * y, 1.0, 2.0)
    return converted(1.0, *hoisted)


@raises(errors.CustomRuleError)
def custom_rule_without_a_rule():
    return ftrace.custom_rule(np.sin)


@raises(errors.CustomRuleError)
def custom_rule_with_a_jacobian_and_a_jvp():
    return ftrace.custom_rule(
        np.sin, jacobian=lambda y, x: ftrace.Diagonal(y), jvp=lambda p, t: (p[0], t[0])
    )


@raises(errors.DtypeError)
def custom_rule_with_a_pair_for_jvp():
    return ftrace.custom_rule(np.sin, jvp=(np.sin, np.cos))


def with_jacobian(jacobian, fun=lambda x: np.sin(x), x=None):
    f = ftrace.custom_rule(fun, jacobian=jacobian)
    return ftrace.jvp(f, (np.ones(3) if x is None else x,), (np.ones(3) if x is None else x,))


@raises(errors.CustomRuleError)
def a_diagonal_of_another_shape():
    return with_jacobian(lambda y, x: ftrace.Diagonal(np.ones(2)))


@raises(errors.CustomRuleError)
def a_diagonal_for_a_sum():
    return with_jacobian(lambda y, x: ftrace.Diagonal(2.0), lambda x: np.sum(x))


@raises(errors.CustomRuleError)
def a_vector_for_a_dense_jacobian():
    return with_jacobian(lambda y, x: np.cos(x))


@raises(errors.CustomRuleError)
def two_jacobians_for_one_argument():
    return with_jacobian(lambda y, x: (ftrace.Diagonal(y), ftrace.Diagonal(x)))


@raises(errors.CustomRuleError)
def a_jacobian_of_a_container():
    return with_jacobian(lambda y, x: ftrace.Diagonal(2.0), lambda x: x["a"], {"a": np.ones(3)})


@raises(errors.CustomRuleError)
def a_right_product_of_another_shape():
    return with_jacobian(lambda y, x: ftrace.Products(right=lambda t: np.sum(t)))


@raises(errors.CustomRuleError)
def products_without_a_product():
    return with_jacobian(lambda y, x: ftrace.Products())


def mapped(rule, fun=lambda x: np.sin(x)):
    f = ftrace.custom_vmap(fun)
    f.def_vmap(rule)
    return ftrace.vmap(f)(np.ones((2, 3)))


@raises(errors.CustomRuleError)
def custom_vmap_without_a_rule():
    return ftrace.custom_vmap(np.sin)(1.0)


@raises(errors.CustomRuleError)
def a_batching_rule_that_returns_the_result_only():
    return mapped(lambda size, batched, x: np.sin(x))


@raises(errors.CustomRuleError)
def a_batching_rule_that_says_too_much():
    return mapped(lambda size, batched, x: (np.sin(x), (True, True)))


@raises(errors.CustomRuleError)
def a_batching_rule_without_the_new_axis():
    return mapped(lambda size, batched, x: (np.sum(x), True))


@raises(errors.CustomRuleError)
def a_batching_rule_whose_result_has_other_containers():
    f = ftrace.custom_vmap(lambda x: {"a": x})
    f.def_vmap(lambda size, batched, x: ((x,), True))
    return ftrace.vmap(ftrace.jit(f))(np.ones(3))


@raises(errors.CustomRuleError)
def a_batching_rule_whose_members_have_another_shape():
    f = ftrace.custom_vmap(lambda x: np.sum(x))
    f.def_vmap(lambda size, batched, x: (x * 1.0, True))
    return ftrace.vmap(ftrace.jit(f))(np.ones((2, 3)))


@raises(errors.CustomRuleError)
def a_function_with_a_batching_rule_that_closes_over_a_mapped_value():
    def f(x):
        g = ftrace.custom_vmap(lambda y: y * x)
        g.def_vmap(lambda size, batched, y: (y * x, True))
        return g(2.0)

    return ftrace.vmap(f)(np.ones(3))


# ---------------------------------------------------------------------------------- arrays


@raises(errors.ShapeError)
def operands_that_do_not_broadcast():
    return ftrace.grad(loss)(network(), np.ones((4, 3)), np.ones((5, 2)))


@raises(errors.ShapeError)
def a_product_of_matrices_that_do_not_fit():
    return ftrace.jit(predict)(network(), np.ones((4, 5)))


@raises(errors.ShapeError)
def a_reshape_to_another_size():
    return ftrace.jit(lambda x: x.reshape(2, 2))(np.ones(6))


@raises(errors.ShapeError)
def a_concatenation_of_unequal_rows():
    return ftrace.jit(lambda x, y: np.concatenate([x, y]))(np.ones((2, 3)), np.ones((2, 4)))


@raises(errors.ShapeError)
def a_store_of_a_value_that_does_not_fit():
    def f(x):
        out = fnp.zeros((2, 3))
        out[0] = x
        return out

    return ftrace.jit(f)(np.ones(4))


@raises(errors.ShapeError)
def an_einsum_of_sizes_that_differ():
    return ftrace.jit(lambda a, b: np.einsum("ij,jk->ik", a, b))(np.ones((2, 3)), np.ones((4, 5)))


@raises(errors.DtypeError)
def a_store_of_a_complex_value_into_a_real_array():
    def f(z):
        out = fnp.zeros(3)
        out += z
        return out

    return ftrace.jit(f)(np.ones(3) * 1j)


@raises(errors.AxisError)
def a_sum_over_an_axis_that_is_not_there():
    return ftrace.jit(lambda x: np.sum(x, axis=2))(np.ones((2, 3)))


@raises(errors.AxisError)
def a_sum_over_an_axis_twice():
    return ftrace.jit(lambda x: np.sum(x, axis=(1, -1)))(np.ones((2, 3)))


@raises(IndexError)
def an_index_beyond_the_axis():
    return ftrace.grad(lambda x: x[3])(np.ones(3))


@raises(IndexError)
def too_many_indices():
    return ftrace.jit(lambda x: x[0, 1])(np.ones(3))


@raises(errors.RuleError)
def a_numpy_function_without_a_rule():
    return ftrace.jit(lambda x: np.array_repr(x))(np.eye(2))


@raises(errors.AbsentNameError)
def a_name_of_jax_without_meaning_here():
    return ftrace.lax.with_sharding_constraint(np.ones(3), None)


@raises(errors.MatrixError)
def an_inverse_of_what_is_not_square():
    return ftrace.jit(np.linalg.inv)(np.ones((2, 3)))


@raises(errors.RuleError)
def a_numpy_option_without_a_rule():
    return ftrace.jit(lambda x: np.add(x, 1.0, where=x > 0))(np.ones(3))


@raises(errors.TreeError)
def a_tree_map_over_different_containers():
    return ftrace.tree.map(lambda a, b: a + b, network(), {"output": Layer(1, 2)})


# ---------------------------------------------------------------------------------- effects


@raises(errors.RuleError)
def an_effect_inside_checkpoint():
    def noisy(x):
        ftrace.io_callback(print, None, x)
        return np.sin(x)

    return ftrace.grad(ftrace.checkpoint(noisy))(1.0)


@raises(errors.TreeError)
def a_fori_loop_whose_carry_loses_an_entry():
    return lax.fori_loop(0, 3, lambda i, c: {"a": c["a"]}, {"a": 1.0, "b": (2.0, 3.0)})


@raises(errors.TreeError)
def switch_with_branches_that_return_other_containers():
    branches = [lambda x: {"a": x}, lambda x: {"a": x}, lambda x: {"a": (x, x)}]
    return lax.switch(1, branches, 1.0)


@raises(errors.TreeError)
def a_scan_that_keeps_other_containers():
    def step(c, x):
        return {"sum": c["sum"] + x, "n": [c["n"]]}, x

    return lax.scan(step, {"sum": 0.0, "n": 0}, np.ones(3))


@raises(errors.ShapeError)
def a_scan_whose_carry_grows():
    return lax.scan(
        lambda c, x: ({"v": fnp.concatenate([c["v"], c["v"]])}, x), {"v": np.ones(1)}, np.ones(2)
    )


@raises(errors.ShapeError)
def a_fori_loop_between_traced_bounds_whose_carry_grows():
    def loop(n):
        return lax.fori_loop(0, n, lambda i, c: fnp.concatenate([c, c]), np.ones(1))

    return ftrace.jit(loop)(3)


@raises(errors.DtypeError)
def a_predicate_that_is_a_string():
    return lax.cond("yes", np.sin, np.cos, 1.0)


# ---------------------------------------------------------------------------------- budgets


@raises(errors.DomainError)
def a_negative_probability():
    ftrace.random.choice(ftrace.random.key(0), 3, p=np.array([-1.0, 1.0, 1.0]))


@raises(errors.RangeError)
def an_offset_of_forty_digits():
    ftrace.jit(lambda x: np.diagonal(x, 10**40))(np.ones((2, 2)))


@raises(errors.TracerAttributeError)
def a_shape_that_is_set():
    def function(x):
        x.shape = (3, 2)
        return x

    ftrace.jit(function)(np.ones((2, 3)))


@raises(errors.DtypeError)
def a_decimal_of_a_traced_value():
    ftrace.grad(lambda x: x * float(Decimal(x)))(2.0)


@raises(errors.MutationError)
def an_argument_that_is_changed():
    def function(params):
        params["w"] = params["w"] * 2
        return params["w"] * 3

    ftrace.grad(function)({"w": 2.0})


@raises(errors.DtypeError)
def an_argument_that_is_no_integer():
    ftrace.lax.collapse(np.ones((2, 3)), "first")


@raises(errors.DtypeError)
def an_operand_too_many():
    ftrace.jit(lambda x: ftrace.lax.exp(x, x))(np.ones(3))


@raises(errors.HostMemoryError)
def a_jacobian_that_fits_no_memory():
    ftrace.jacfwd(np.sin)(np.ones(10**7))


@raises(errors.BudgetError)
def a_budget_that_is_too_small():
    with ftrace.config.update(compile=False):
        ftrace.grad(ftrace.checkpoint(lambda x: np.sum(np.sin(x) ** 2), budget="1kB"))(
            np.ones(1000)
        )


@raises(errors.BudgetError)
def a_budget_for_a_loop_of_unknown_length():
    def halved(x):
        return lax.while_loop(lambda v: v > 1.0, lambda v: np.sin(v) * 0.5, x)

    ftrace.grad(ftrace.checkpoint(halved, budget="1GiB"))(9.0)


# ---------------------------------------------------------------------------------- devices


@raises(errors.DeviceError)
def a_traced_value_that_is_moved():
    return ftrace.grad(lambda x: ftrace.device_get(x) ** 2)(1.0)


# ---------------------------------------------------------------------------------- solvers


@raises(errors.DerivativeError)
def a_rule_with_a_wrong_factor():
    rule = ftrace.custom_jvp(lambda x: x**3)
    rule.defjvps(lambda t, y, x: 2.0 * x**2 * t)
    return ftrace.testing.check_grads(rule, (2.0,))


@raises(errors.DerivativeError)
def a_rule_that_returns_another_value():
    rule = ftrace.custom_jvp(np.sin)
    rule.defjvp(lambda primals, tangents: (np.cos(*primals), np.cos(*primals) * tangents[0]))
    return ftrace.testing.check_grads(rule, (0.5,))


@raises(errors.SolverError)
def a_root_that_does_not_exist():
    return ftrace.implicit.root(lambda x, a: x**2 + a, np.array([0.3]), args=(1.0,))


@raises(errors.SolverError)
def an_interval_without_a_change_of_sign():
    return ftrace.implicit.brentq(lambda x: x**2 + 1.0, 1.0, 2.0)


@raises(errors.SolverError)
def the_derivative_of_a_double_root():
    return ftrace.grad(lambda a: ftrace.implicit.root(lambda x: a * x**2, np.zeros(1)).x[0])(2.0)


@raises(errors.SolverError)
def a_solver_with_too_few_iterations():
    return ftrace.implicit.cg(np.diag([1.0, 2.0]), np.ones(2), maxiter=1)


@raises(errors.RuleError)
def reverse_mode_without_a_transposed_solver():
    return ftrace.grad(
        lambda b: ftrace.lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda m, b: b / 2.0)
    )(1.0)


@raises(errors.RuleError)
def a_minimum_under_constraints():
    constraint = {"type": "eq", "fun": np.sum}
    return ftrace.implicit.minimize(np.sum, np.ones(2), constraints=constraint)


# ---------------------------------------------------------------------------------- own rows


@raises(errors.RuleError)
def a_row_without_a_transpose():
    from ftrace.core.primitive import Unsupported

    row = ftrace.Primitive(
        name="fused_step",
        impl=lambda x: 2 * x,
        type=lambda x: x,
        jvp="linear",
        transpose=Unsupported("fused_step has no transpose: it is for inference only."),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        doc="A step for inference.",
    )
    return ftrace.grad(lambda x: row(x) * x)(1.0)


@raises(errors.JaxprError)
def a_jaxpr_that_reads_what_was_never_bound():
    made = ftrace.make_jaxpr(lambda x: np.sin(x) * x)(1.0)
    check_jaxpr(Jaxpr(made.invars, made.eqns[1:], made.outvars))
