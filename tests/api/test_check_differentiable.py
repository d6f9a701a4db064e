"""`check_differentiable`: every kind of finding, its line, and agreement with what grad does."""

import numpy as np
import pytest

import ftrace
from ftrace import check_differentiable, errors, external, grad, jit, lax, vmap

V = ftrace.ShapeDtypeStruct((3,), np.float64)
S = ftrace.ShapeDtypeStruct((), np.float64)


def opaque(x):
    return ftrace.pure_callback(np.copy, ftrace.ShapeDtypeStruct(x.shape, x.dtype), x)


CLEAN = {
    "arithmetic": (lambda x: np.sin(x) * x + 2, (V,)),
    "where of a comparison": (lambda x: np.where(x > 0, x, 0.0), (V,)),
    "cond": (lambda x: lax.cond(x > 0, lambda x: x, lambda x: 2 * x, x), (S,)),
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] * 2, c[1] * c[0]), (x, x))[1],
        (S,),
    ),
    "jit of vmap": (jit(vmap(lambda x: np.exp(x))), (V,)),
    "an integer argument": (lambda x, n: x * n, (V, 3)),
    "sorting": (lambda x: np.sort(x)[::-1].cumsum(), (V,)),
    "indexing": (lambda x, i: x[i], (V, ftrace.ShapeDtypeStruct((2,), np.int64))),
    "a rule over what is opaque": (
        lambda x: external(np.copy, lambda x: x, vjp=lambda a, y, ct: (ct,))(x),
        (V,),
    ),
    "differences": (lambda x: external(np.copy, lambda x: x, fd="central")(x), (V,)),
    "checkpoint": (ftrace.checkpoint(lambda x: np.sin(x)), (V,)),
    "an unread cut": (lambda x: (np.floor(x), x * 2)[1], (V,)),
    "printing": (lambda x: (ftrace.debug.print("{}", x), x * 2)[1], (V,)),
}


@pytest.mark.parametrize("case", CLEAN)
def test_nothing_is_found_where_nothing_blocks(case):
    fun, args = CLEAN[case]
    report = check_differentiable(fun, *args)
    assert report
    assert report.findings == ()
    assert all(report.outputs.values())
    assert "is differentiable with respect to" in str(report)
    assert "No differentiable path" not in str(report)


def rounded(x):
    y = np.sin(x)
    y = y.astype(int)
    return y.astype(float) * 2


def stopped(x):
    return lax.stop_gradient(x) * 2


def stepped(x):
    return np.floor(x) + 1


def signed(x):
    return np.sign(x) * 3


def compared(x):
    return (x > 0) * 2.0


def chosen(x):
    return np.where(x > 0, 1.0, 2.0)


def branched(x):
    return lax.cond(x[0] > 0, lambda x: 1.0, lambda x: 2.0, x)


def called(x):
    return opaque(x) * 2


def jitted(x):
    return jit(lambda v: np.sin(np.floor(v)))(x)


def in_a_branch(x):
    return lax.cond(x[0] > 0, lambda v: np.ceil(v), lambda v: np.floor(v), x)


def in_a_loop(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.rint(x)), (0, np.ones(3)))[1]


def mapped(x):
    return vmap(lambda v: np.trunc(v))(x)


def checkpointed(x):
    return ftrace.checkpoint(lambda v: np.floor(v))(x)


def argmax(x):
    return np.argmax(x) * 2.0


BLOCKED = {
    rounded: ("integer path", "y = y.astype(int)"),
    stopped: ("stop_gradient", "lax.stop_gradient(x) * 2"),
    stepped: ("piecewise constant", "np.floor(x) + 1"),
    signed: ("piecewise constant", "np.sign(x) * 3"),
    compared: ("comparison", "(x > 0) * 2.0"),
    chosen: ("comparison", "np.where(x > 0, 1.0, 2.0)"),
    branched: ("comparison", "lax.cond(x[0] > 0"),
    jitted: ("piecewise constant", "np.sin(np.floor(v))"),
    mapped: ("piecewise constant", "np.trunc(v)"),
    checkpointed: ("piecewise constant", "np.floor(v)"),
    argmax: ("integer path", "np.argmax(x) * 2.0"),
}


@pytest.mark.parametrize("fun", BLOCKED, ids=lambda f: f.__name__)
def test_what_cuts_the_only_path_is_found_with_its_line(fun):
    kind, code = BLOCKED[fun]
    report = check_differentiable(fun, V)
    assert not report
    (finding,) = report.findings
    assert (finding.kind, finding.blocks) == (kind, True)
    assert f"{__file__}:" in finding.where
    assert code in finding.where
    assert not any(report.outputs.values())
    assert f"{fun.__name__} is not differentiable with respect to x." in str(report)
    assert "No differentiable path leads to result." in str(report)
    x = np.array([0.5, -1.5, 2.5])
    np.testing.assert_array_equal(grad(lambda x: np.sum(fun(x)))(x), np.zeros(3))  # indeed


def test_every_cut_of_a_value_is_found():
    report = check_differentiable(in_a_branch, V)
    assert [f.kind for f in report.findings] == ["piecewise constant"] * 2
    assert {f.what.split()[0] for f in report.findings} == {"ceil", "floor"}
    assert not report
    report = check_differentiable(in_a_loop, V)
    assert [f.what.split()[0] for f in report.findings] == ["round"]
    assert not report


CUT = lax.stop_gradient


def scanned(body, *carry, turns=4):
    """The last carry and what the turns leave; `body` takes and gives tuples of the carry."""
    return lax.scan(lambda c, _: body(*c), carry, None, length=turns)


def through_an_integer(x):
    return lax.fori_loop(0, 3, lambda i, c: c.astype(int) * 1.5, x)


CUT_IN_EVERY_TURN = {
    "scan": lambda x: scanned(lambda c: ((CUT(c) * 2.0,), None), x)[0],
    "the carry after the next": lambda x: scanned(lambda a, b: ((b, CUT(a)), None), x, x)[0],
    "what a turn leaves": lambda x: scanned(lambda c: ((c,), np.floor(c)), x)[1],
    "a cut two turns ago": lambda x: scanned(
        lambda a, b, c: ((b, c, CUT(c)), None), x, x, x, turns=3
    )[0][0],
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, CUT(c[1])), (0, x))[
        1
    ],
    "fori_loop": through_an_integer,
    "a loop in a loop": lambda x: scanned(
        lambda c: (scanned(lambda d: ((np.sign(d),), None), c)[0], None), x
    )[0],
    "jit": jit(lambda x: scanned(lambda c: ((CUT(c),), None), x)[0]),
    "mapped": vmap(lambda v: scanned(lambda c: ((CUT(c),), None), v)[0]),
}


@pytest.mark.parametrize("case", CUT_IN_EVERY_TURN)
def test_a_carry_that_every_turn_cuts_is_found(case):
    fun = CUT_IN_EVERY_TURN[case]
    report = check_differentiable(fun, V)
    assert not report
    assert [f.blocks for f in report.findings] == [True]
    assert f"{__file__}:" in report.findings[0].where
    assert not any(report.outputs.values())
    x = np.array([0.5, -1.5, 2.5])
    total = grad(lambda x: sum(np.sum(y) for y in ftrace.tree_util.tree_leaves(fun(x))))
    np.testing.assert_array_equal(total(x), np.zeros(3))  # indeed


PAST_THE_CUT = {
    "no turns": lambda x: scanned(lambda c: ((CUT(c),), None), x, turns=0)[0][0],
    "one turn": lambda x: scanned(lambda a, b: ((b, CUT(a)), None), x, x, turns=1)[0][0],
    "two of three turns": lambda x: scanned(
        lambda a, b, c: ((b, c, CUT(a)), None), x, x, x, turns=2
    )[0][0],
    "what the first turn leaves": lambda x: scanned(lambda c: ((CUT(c),), c * 2.0), x)[1],
    "what goes round": lambda x: scanned(lambda a, b: ((b, a), None), x, CUT(x), turns=10**9)[0][0],
    "a sum over turns": lambda x: scanned(lambda s, c: ((s + c, CUT(c)), None), 0.0 * x, x)[0][0],
    "while": lambda x: lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, c[2], CUT(c[1])), (0, x, x)
    )[1],
}


@pytest.mark.parametrize("case", PAST_THE_CUT)
def test_a_carry_that_some_turn_lets_through_is_no_obstacle(case):
    fun = PAST_THE_CUT[case]
    assert check_differentiable(fun, V)
    if case != "what goes round":
        assert np.all(grad(lambda x: np.sum(fun(x)))(np.array([0.5, -1.5, 2.5])) != 0)


def test_turns_are_counted_around_the_circle():
    """Of two carries that change places, one is cut; which is told by the turns' number."""

    def swapped(x, turns):
        return scanned(lambda a, b: ((b, a), None), x, CUT(x), turns=turns)[0][0]

    for turns in range(5):
        report = check_differentiable(lambda x, turns=turns: swapped(x, turns), V, wrt="x")
        assert bool(report) is (turns % 2 == 0)


def test_an_opaque_call_blocks_even_where_another_path_leads_past_it():
    report = check_differentiable(lambda x: jit(called)(x) + x, V)
    (finding,) = report.findings
    assert not report
    assert (finding.kind, finding.blocks) == ("opaque call", True)
    assert "pure_callback of copy: it is opaque" in finding.what
    assert "ftrace.pure_callback(np.copy" in finding.where
    with pytest.raises(errors.RuleError, match="pure_callback of copy: it is opaque"):
        grad(lambda x: (jit(called)(x) + x).sum())(np.ones(3))


def test_a_cut_beside_another_path_does_not_block():
    report = check_differentiable(lambda x: x * np.floor(x) + lax.stop_gradient(x), V)
    assert report
    assert [(f.kind, f.blocks) for f in report.findings] == [
        ("piecewise constant", False),
        ("stop_gradient", False),
    ]
    assert "(other paths lead past it)" in str(report)


def test_a_cut_of_one_input_blocks_it_though_the_output_has_another():
    report = check_differentiable(lambda x, y: x * np.floor(y), V, V)
    assert not report
    assert report.outputs == {"result": True}
    assert [f.blocks for f in report.findings] == [True]
    assert check_differentiable(lambda x, y: x * np.floor(y), V, V, wrt=0)


def test_a_cut_in_one_arm_does_not_block():
    report = check_differentiable(
        lambda x: lax.cond(x > 0, lambda x: np.sign(x), lambda x: x, x), 1.0
    )
    assert report
    assert [f.kind for f in report.findings] == ["piecewise constant"]


def test_inputs_and_outputs_are_named():
    def loss(params, x, unused):
        return {"loss": (params["w"] * x).sum(), "count": np.argmax(x), "one": np.ones(2)}

    report = check_differentiable(loss, {"w": V, "b": S}, V, unused=S)
    assert not report
    kinds = {(f.kind, f.what.split(" ")[0]) for f in report.findings if f.kind != "integer path"}
    assert kinds == {
        ("non-float output", "result['count']"),
        ("constant output", "result['one']"),
        ("unused input", "No"),
    }
    text = str(report)
    assert "No output depends on params['b']." in text
    assert "No output depends on unused." in text
    assert report.outputs == {
        "result['count']": False,
        "result['loss']": True,
        "result['one']": False,
    }


def test_wrt_chooses_arguments_by_position_and_name():
    def f(x, y, n):
        return x * np.floor(y) * n

    assert check_differentiable(f, V, V, 2, wrt=0)
    assert check_differentiable(f, V, V, 2, wrt="n").wrt == ("n",)
    assert not check_differentiable(f, V, V, 2, wrt=(0, "y"))
    assert not check_differentiable(f, V, y=V, n=2, wrt="y")
    report = check_differentiable(f, V, V, np.int64(2), wrt=(0, 2))
    assert [f.kind for f in report.findings if f.blocks] == ["non-float input"]
    with pytest.raises(errors.TreeError, match="argnums=5 names an argument"):
        check_differentiable(f, V, V, 2, wrt=5)


def test_a_conversion_by_python_is_found():
    report = check_differentiable(lambda x: int(x) * 2.0 + x, S)
    (finding,) = report.findings
    assert not report
    assert finding.kind == "conversion"
    assert "int() needs the plain value" in finding.what
    assert "int(x) * 2.0" in finding.where


def test_python_control_flow_is_looked_into():
    assert check_differentiable(lambda x: x if x > 0 else -x, S)
    report = check_differentiable(lambda x: np.floor(x) if x > 0 else np.ceil(x), S)
    assert {f.kind for f in report.findings} >= {"piecewise constant"}


def test_a_missing_rule_is_found():
    row = ftrace.Primitive(
        name="twice",
        impl=lambda x: 2 * x,
        type=lambda x: x,
        jvp=ftrace.core.primitive.Unsupported("twice has no derivative"),
        transpose=ftrace.core.primitive.Unsupported("no"),
        batch=ftrace.core.primitive.Unsupported("no"),
        doc="Two times x.",
    )
    (finding,) = check_differentiable(lambda x: row(x) + x, V).findings
    assert (finding.kind, finding.what, finding.blocks) == (
        "missing rule",
        "twice has no derivative",
        True,
    )


def test_a_result_that_is_asked_for_as_an_error():
    with pytest.raises(errors.RuleError, match=r"(?s)rounded is not diff.*integer path.*astype"):
        check_differentiable(rounded, V, raise_=True)
    assert check_differentiable(np.sin, V, raise_=True)
    with pytest.raises(errors.DtypeError, match="takes a function first"):
        check_differentiable(3.0, V)


def test_nothing_of_the_function_runs():
    ran = []

    def f(x):
        ftrace.io_callback(lambda v: ran.append(1), None, x)
        return external(lambda v: ran.append(1) or v, lambda x: x, fd="central")(x)

    assert check_differentiable(f, V)
    assert ran == []


def test_a_report_names_the_inputs_that_are_blocked_and_no_others():
    """Others than these have their derivatives, whatever happens to those."""
    programs = [
        (lambda a, b: a * 2 + np.round(b), (1.0, 2.0), ("b",)),
        (lambda a, b: np.floor(a) + b * np.sign(a), (1.0, 2.0), ("a",)),
        (lambda a, b: a * 2, (1.0, 2.0), ("b",)),
        (lambda a, b: a["x"] * b + np.rint(a["y"]), ({"x": 1.0, "y": 2.0}, 3.0), ("a['y']",)),
        (lambda a, b: np.round(a) + np.floor(b), (1.0, 2.0), ("a", "b")),
        (lambda a, b: np.round(a) * a + b, (1.0, 2.0), ()),
        (lambda a, b: (a * 2, np.round(b)), (1.0, 2.0), ("b",)),
        (lambda a, b: a * 2 + lax.stop_gradient(b), (1.0, np.ones(2)), ("b",)),
    ]
    for f, args, blocked in programs:
        report = check_differentiable(f, *args)
        assert report.blocked == blocked
        assert bool(report) is not bool(blocked)
        if blocked:
            first = str(report).splitlines()[0]
            assert first.endswith(f"is not differentiable with respect to {', '.join(blocked)}.")
    whole = check_differentiable(programs[0][0], 1.0, 2.0, wrt=0)
    assert whole
    assert whole.blocked == ()
    integers = check_differentiable(lambda a, n: a * n, 1.0, np.ones(2, int), wrt=(0, 1))
    assert integers.blocked == ("n",)
