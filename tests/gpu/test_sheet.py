"""Registers, spills, occupancy and instructions of kernels, for a GPU that is not here.

NVRTC's version is pinned, so that numbers are exact: a change of one is a change of the kernel, and
`make golden` shows it. Kernels are compiled together, one text for each kind of device.
"""

import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ftrace.core.errors import BackendError
from ftrace.gpu.handwritten import running, running_source
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.machine_code.cubin import compiled
from ftrace.gpu.machine_code.disassembly import disassembled
from ftrace.gpu.runtime.kernels import Planned, module
from tests.gpu import plans, sheet
from tests.gpu.kernel_samples import DTYPES, PROGRAMS, templates
from tests.gpu.plans import H200, array
from tests.gpu.shared_work import once

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
PINNED = (13, 4)
FILE = "gpu.txt"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def compiler():
    """The compiler whose numbers the sheet holds."""
    try:
        found = nvrtc.load()
    except BackendError as error:
        pytest.skip(str(error).splitlines()[0])
    if found.version != PINNED:
        pytest.skip(f"the sheet was made by NVRTC {PINNED}, this is {found.version}")
    return found


# --- everything that is compiled, once


@cache
def kernels_of(name: str) -> list[Planned]:
    f, args = PROGRAMS[name]
    return plans.kernels(plans.planned(f, *args))


@cache
def kernels_by_dtype(dtype: str) -> dict[str, list[Planned]]:
    found = templates(dtype)
    return {name: plans.kernels(plans.planned(f, *args)) for name, (f, args) in found.items()}


@cache
def product(n: int) -> list[Planned]:
    matrices = [array(4096, 4096)] * n
    return plans.kernels(plans.planned(plans.product_and_partials, *matrices))


@cache
def everything() -> list[Planned]:
    """Every kernel, in one order."""
    found = [k for name in PROGRAMS for k in kernels_of(name)]
    found += [k for d in DTYPES for ks in kernels_by_dtype(d).values() for k in ks]
    return found + [k for n in range(1, 25) for k in product(n)]


@pytest.fixture(scope="session")
def machine(tmp_path_factory, request):
    """What the compiler says of every function on the GPU of the sheet, and its instructions."""
    source = module(everything())

    def make():
        made = compiled(source, H200.arch, more=sheet.VERBOSE)
        return [made.log, sheet.parsed(disassembled(made.cubin))]

    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # that of all workers
    digest = hashlib.sha256(source.encode()).hexdigest()
    log, instructions = once(folder / "sheet", digest, make)
    return Machine(sheet.reported(log), instructions)


@dataclass(frozen=True)
class Machine:
    """By the name of a function: what it needs, and how often each of its instructions occurs."""

    needs: dict[str, sheet.Resources]
    instructions: dict[str, dict[str, int]]

    def occupancies(self, kernels: list[Planned]) -> list[float]:
        """The occupancy of every stage."""
        found: list[float] = []
        for k in kernels:
            for number, stage in enumerate(k.stages):
                needs = self.needs[f"{k.symbol}_{number}"]
                threads = math.prod(stage.block)
                found.append(sheet.occupancy(H200.arch, needs.registers, threads, needs.shared))
        return found

    def lines(self, kernels: list[Planned]) -> str:
        """A line of the sheet for each stage."""
        found: list[str] = []
        part = iter(self.occupancies(kernels))
        for k in kernels:
            for number, stage in enumerate(k.stages):
                needs, team = self.needs[f"{k.symbol}_{number}"], k.layout
                where = "then" if number else f"{team.team} x{team.width} {team.index}"
                amounts = (needs.stack, needs.spilled, needs.shared)
                names = ("stack", "spilled", "shared")
                extra = "".join(f", {n} {w}" for n, w in zip(amounts, names, strict=True) if n)
                found.append(
                    f"{where}, {math.prod(stage.block)} threads: {needs.registers} registers"
                    f"{extra}, occupancy {next(part):.3g}"
                )
        return "\n".join(found)

    def opcodes(self, kernels: list[Planned]) -> Counter[str]:
        """The instructions of kernels."""
        found: Counter[str] = Counter()
        for k in kernels:
            for number in range(len(k.stages)):
                found.update(self.instructions[f"{k.symbol}_{number}"])
        return found

    def widths(self, kernels: list[Planned]) -> dict[str, int]:
        """Loads and stores of device memory by how many bits they move."""
        found: Counter[str] = Counter()
        for name, count in named(self.opcodes(kernels), "LDG", "STG").items():
            bits = next((b for b in ("128", "64") if b in name.split(".")), "32")
            found[f"{name[:3]}.{bits}"] += count
        return dict(found)


def named(found: Counter[str], *starts: str) -> dict[str, int]:
    """The instructions whose names start so."""
    return {name: count for name, count in found.items() if name.startswith(starts)}


# --- the sheet


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_needs_what_its_golden_section_says(name, golden, machine):
    golden.check(FILE, name, machine.lines(kernels_of(name)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_templates_of_a_dtype_need_what_their_golden_section_says(dtype, golden, machine):
    found = kernels_by_dtype(dtype)
    golden.check(
        FILE, dtype, "\n".join(f"{name}: {machine.lines(ks)}" for name, ks in found.items())
    )


def test_products_need_what_their_golden_section_says(golden, machine):
    table = "\n".join(f"{n}: {machine.lines(product(n))}" for n in range(1, 25))
    golden.check(FILE, "product of N and N partials", table)


RUNNING = {
    "short lines": ("add", "f4", 50, 100_000, 1),
    "lines of a warp": ("add", "f4", 1000, 10_000, 1),
    "lines of a block": ("add", "f4", 4096, 4096, 1),
    "one long line": ("add", "f4", 1 << 26, 1, 1),
    "across": ("add", "f4", 4096, 4096, 4096),
    "one long line of float64": ("add", "f8", 1 << 26, 1, 1),
    "largest of a block": ("max", "f4", 4096, 4096, 1),
    "logs of a block": ("logaddexp", "f4", 4096, 4096, 1),
}


def test_running_sums_need_what_their_golden_section_says(golden):
    lines: list[str] = []
    for name, (kind, dtype, n, count, inner) in RUNNING.items():
        how, size = running_source.joining(kind, np.dtype(dtype)), np.dtype(dtype).itemsize
        plan = running.along(n, size, how.bytes)
        if inner > 1:
            plan = running.across(n, count, how.bytes)
        single = plan.short or n <= plan.length
        aligned = inner == 1 and n % plan.pack == 0
        text = running_source.source(how, plan, False, aligned, inner > 1, single)
        (needs,) = sheet.resources(text, H200.arch).values()
        assert needs.spilled <= 160, "measured: a few spills cost less than smaller tiles"
        part = sheet.occupancy(H200.arch, needs.registers, plan.threads, needs.shared)
        lines.append(
            f"{name}: {plan.threads} threads: {needs.registers} registers, "
            f"spilled {needs.spilled}, shared {needs.shared}, "
            f"occupancy {part:.3g}"
        )
    golden.check(FILE, "running sums", "\n".join(lines))


def test_no_section_is_out_of_date(golden):
    expected = {*PROGRAMS, *DTYPES, "product of N and N partials", "running sums"}
    assert set(golden.sections(FILE)) == expected


# --- what must hold, whatever the numbers


def test_nothing_spills(machine):
    assert [name for name, needs in machine.needs.items() if needs.spilled] == []


def test_only_sines_of_large_arguments_have_a_stack(machine):
    stacks = {name for name, needs in machine.needs.items() if needs.stack}
    projectile = kernels_of("projectile and its derivative")
    assert stacks <= {f"{kernel.symbol}_0" for kernel in projectile}
    assert all(needs.stack <= 40 for needs in machine.needs.values())


@pytest.mark.parametrize("n", range(1, 25))
def test_products_of_up_to_ten_fill_a_processor(n, machine):
    (part,) = machine.occupancies(product(n))
    assert part == 1.0 or n > 10
    assert part >= 0.5


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "4 partials" in name])
def test_the_cell_with_its_partials_leaves_room(name, machine):
    """40 registers with branches, 32 with selects: the arms are cheap enough for selects."""
    (kernel,) = kernels_of(name)
    by_rows = "by rows" in name  # all of a row takes one arm: branches, which save loads
    assert ("if (v" in kernel.text) is by_rows
    assert kernel.layout.width == (1 if by_rows else 2)
    assert machine.needs[f"{kernel.symbol}_0"].registers <= 32
    assert machine.occupancies([kernel]) == [1.0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", [a for a in ARCHS if a != H200.arch])
def test_every_kernel_compiles(arch):
    assert compiled(module(everything()), arch).cubin.startswith(b"\x7fELF")


# --- instructions


SINGLE = [
    "HM-LSTM value",
    "HM-LSTM value and 4 partials",
    "HM-LSTM value and 4 partials, control by rows",
    "HM-LSTM gradient of sum",
    "HM-LSTM value and pullback",
    "softmax of 512",
    "softmax of 4096",
    "layernorm of 512",
    "pullback of layernorm of 4096",
    "logsumexp of 512",
    "pullback of a bias",
    "sigmoid",
    "gradient of sigmoid",
    "sums of 2^32 elements",
]


DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "F2F.F64", "F2F.F32.F64", "MUFU.RCP64H")


def test_the_disassembler_shows_doubles_where_they_are(machine):
    """So that their absence means something."""
    assert named(machine.opcodes(kernels_by_dtype("f8")["linear"]), *DOUBLE)
    assert named(machine.opcodes(kernels_by_dtype("f8")["rows"]), *DOUBLE)


@pytest.mark.parametrize("name", SINGLE)
def test_float32_stays_float32_and_in_registers(name, machine):
    found = machine.opcodes(kernels_of(name))
    assert named(found, *DOUBLE, "LDL", "STL") == {}


@pytest.mark.parametrize("name", [n for n in SINGLE if "HM-LSTM" in n or "sigmoid" in n])
def test_a_sigmoid_calls_nothing(name, machine):
    assert named(machine.opcodes(kernels_of(name)), "CALL") == {}


def test_neighbours_are_read_and_written_sixteen_bytes_at_once(machine):
    assert machine.widths(kernels_of("sigmoid")) == {"LDG.128": 1, "STG.128": 1}
    assert machine.widths(kernels_by_dtype("f4")["linear"]) == {"LDG.128": 2, "STG.128": 1}
    assert machine.widths(kernels_by_dtype("f8")["linear"]) == {"LDG.128": 2, "STG.128": 1}
    assert machine.widths(kernels_by_dtype("f4")["row and column"])["STG.128"] == 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_what_lies_across_is_read_and_written_sixteen_bytes_at_once(dtype, machine):
    """Two operands are read: the one that lies across goes through shared memory."""
    found = kernels_by_dtype(dtype)["transposed"]
    assert set(machine.widths(found)) == {"LDG.128", "STG.128"}
    assert named(machine.opcodes(found), "STS", "LDS", "BAR")


def test_a_ragged_end_is_read_and_written_one_by_one(machine):
    found = machine.widths(kernels_by_dtype("f4")["ragged"])
    assert found["LDG.128"] == 2
    assert found["STG.128"] == 1
    assert found["LDG.32"] == 8
    assert found["STG.32"] == 4


def test_a_misaligned_window_is_read_one_by_one(machine):
    found = machine.widths(kernels_by_dtype("f4")["window"])
    assert "LDG.32" in found


@pytest.mark.parametrize("name", ["rows", "few long rows", "all"])
def test_long_sums_read_sixteen_bytes_at_once(name, machine):
    kernel = kernels_by_dtype("f4")[name]
    assert machine.widths(kernel[:1])["LDG.128"] >= 1
