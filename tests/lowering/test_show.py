"""Printed kernels, scripts that rebuild them, and renumbering."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from ftrace.lowering.kernel import ir, reference, show
from ftrace.lowering.kernel.ir import Block, Buffer, Fold, Kernel, KernelVar, Let, Lit, Loop
from tests.lowering.kernels import SAMPLES, Nest, Sample, kernels
from tests.lowering.nests import f8, i8


def shifted(kernel: Kernel) -> Kernel:
    """The same kernel with other variable numbers."""
    names = {name: getattr(ir, name) for name in dir(ir)} | {"inf": np.inf, "nan": np.nan}
    names["KernelVar"] = lambda **var: KernelVar(1000 - 3 * var["id"], var["dtype"])
    return eval(show.constructors(kernel), names)


def rebuilt(kernel: Kernel) -> Kernel:
    names = {name: getattr(ir, name) for name in dir(ir)} | {"inf": np.inf, "nan": np.nan}
    return eval(show.constructors(kernel), names)


def test_every_kind_of_statement_prints_as_documented() -> None:
    k = Nest("all")
    k.buffer("x", "f8", ["any", "one"])
    k.buffer("y", "f8", ["minus"], "out")
    n, scale = k.scalar(), k.scalar("f8")
    folds = Fold("sum", "f8", 4, 64), Fold("argmax", "f8")
    with k.loop(n, *folds, inits=[f8(0)]) as i:
        v = k.load("x", i.axis, i8(0))
        with k.part() as then:
            k.store("y", [i.axis], v, "sum")
            then.leave(v)
        with k.part() as orelse:
            orelse.leave(f8(-0.0))
        (w,) = k.branch(k.let("gt", v, scale), then, orelse)
        state = k.fresh("f8")
        with k.part() as cond:
            cond.leave(k.let("lt", state, f8(9)))
        with k.part(state) as body:
            body.leave(k.let("add", state, w))
        k.repeat([w], cond, body)
        i.leave(v, w, i.axis, k.let("cast", i.axis, to="f8"))
    assert (
        show.text(k.kernel())
        == """\
kernel all(in x:f8[*, 1], out y:f8[-1]; n0:i8, n1:f8):
  v1:f8, v2:f8, v3:i8, v4:f8 = for v5 < n0, v6:f8=0.0:
    v7:f8 = x[v5, 0]
    v8:b1 = gt v7 n1
    v9:f8 = if v8:
      y[v5] sum= v7
      leave v7
    else:
      leave -0.0
    v10:f8 = while v11:f8=v9:
      v12:b1 = lt v11 9.0
      test v12
      v13:f8 = add v11 v9
      next v13
    v14:f8 = cast v5
    fold sum<f8, 4 ways, blocks of 64> v7
    fold argmax<f8> v9, v5
    next v14"""
    )


def test_a_statement_prints_with_the_names_of_its_kernel() -> None:
    kernel = SAMPLES["padded"]().kernel
    (loop,) = kernel.body.stmts
    assert isinstance(loop, Loop)
    assert show.statement(kernel, loop.body.stmts[-1]) in show.text(kernel)


def test_constructors_rebuild_the_samples() -> None:
    for make in SAMPLES.values():
        kernel = make().kernel
        assert rebuilt(kernel) == kernel


@settings(max_examples=8)
@given(kernels())
def test_constructors_rebuild_random_kernels(sample: Sample) -> None:
    assert rebuilt(sample.kernel) == sample.kernel


@settings(max_examples=8)
@given(kernels())
def test_numbers_of_variables_do_not_matter(sample: Sample) -> None:
    kernel, other = sample.kernel, shifted(sample.kernel)
    assert kernel != other
    assert show.canonical(kernel) == show.canonical(other)
    assert hash(show.canonical(kernel)) == hash(show.canonical(other))
    assert show.text(kernel) == show.text(other) == show.text(show.canonical(kernel))


def test_a_canonical_kernel_stays_and_numbers_from_zero() -> None:
    kernel = show.canonical(SAMPLES["softmax"]().kernel)
    assert show.canonical(kernel) == kernel
    assert [v.id for v in kernel.scalars] == [0, 1]


@pytest.mark.parametrize("change", [Lit(-0.0, "f8"), Lit(float("nan"), "f8"), Lit(0.0, "f4")])
def test_kernels_that_differ_in_a_literal_are_different_keys(change: Lit) -> None:
    let = Let(KernelVar(0, "f8"), "neg", (Lit(0.0, "f8"),))
    one = Kernel("k", (), (), Block((let,)))
    two = Kernel("k", (), (), Block((replace(let, args=(change,)),)))
    assert show.canonical(one) != show.canonical(two)
    assert show.canonical(two) == show.canonical(shifted(two))
    assert len({show.canonical(k) for k in (one, two, shifted(two))}) == 2


def run_script(text: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(text, "report.py", "exec"), names)
    return names


@pytest.mark.parametrize("name", ["softmax", "total_float32", "half_precision"])
def test_a_script_runs_the_kernel_on_its_operands(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = SAMPLES[name]()
    names = run_script(show.script(sample.kernel, sample.operands(), sample.scalars))
    assert names["kernel"] == sample.kernel
    assert show.text(sample.kernel) in capsys.readouterr().out
    expected = sample.operands()
    reference.run(sample.kernel, expected, sample.scalars)
    for buffer, (memory, offset, steps) in names["buffers"].items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(memory, expected[buffer][0])
        assert memory.dtype == expected[buffer][0].dtype
        assert (offset, steps) == expected[buffer][1:]


@pytest.mark.parametrize(
    "name", ["three_axes", "gather_rows", "padded", "newton_roots", "booleans"]
)
def test_a_script_finds_small_operands_by_itself(name: str) -> None:
    kernel = SAMPLES[name]().kernel
    names = run_script(show.script(kernel))
    assert names["kernel"] == kernel
    assert all(memory.size for memory, _, _ in names["buffers"].values())  # type: ignore[attr-defined]


def test_a_script_is_a_program_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "report.py"
    path.write_text(show.script(SAMPLES["newton_roots"]().kernel))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kernel newton_roots(")
    assert "rounds [5 4 0 0]" in done.stdout


def test_a_malformed_kernel_still_prints() -> None:
    loop = Loop(
        (KernelVar(5, "f8"),),
        KernelVar(1, "i8"),
        KernelVar(9, "i8"),
        Block(()),
        (Fold("sum", "f8"),),
    )
    kernel = Kernel("broken", (Buffer("x", "f8", ("odd",), "in"),), (), Block((loop,)))
    assert "fold sum<f8> " in show.text(kernel)
    assert "Loop(" in show.script(kernel)
