"""Registers, spills, occupancy and instructions of kernels, for a GPU that is not here.

NVRTC's version is pinned, so that numbers are exact: a change of one is a change of the kernel, and
`make golden` shows it. Kernels are compiled together, one text for each kind of device.
"""

from collections import Counter
from functools import cache

import pytest

from ftrace.core.errors import BackendError
from ftrace.gpu import nvrtc
from ftrace.gpu.compile import compiled
from ftrace.gpu.disassembly import disassembled
from ftrace.gpu.kernels import Planned, module
from tests.gpu import plans, sheet
from tests.gpu.kernel_samples import DTYPES, PROGRAMS, templates
from tests.gpu.plans import H200, array

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
PINNED = (13, 4)
FILE = "gpu.txt"


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


@cache
def resources() -> dict[str, sheet.Resources]:
    """What each function of a kernel needs on the GPU of the sheet."""
    return sheet.resources(module(everything()), H200.arch)


# --- the sheet


def occupancies(kernels: list[Planned]) -> list[float]:
    """The occupancy of every stage that is launched."""
    found: list[float] = []
    for k in kernels:
        for number, stage in enumerate(k.stages):
            needs = resources()[f"{k.symbol}_{number}"]
            x, y, z = stage.block
            found.append(sheet.occupancy(H200.arch, needs.registers, x * y * z, needs.shared))
    return found


def lines(kernels: list[Planned]) -> str:
    """Kernels, a line for each stage."""
    found: list[str] = []
    part = iter(occupancies(kernels))
    for k in kernels:
        for number, stage in enumerate(k.stages):
            needs = resources()[f"{k.symbol}_{number}"]
            where = f"{k.layout.team} x{k.layout.width} {k.layout.index}" if not number else "then"
            extra = "".join(
                f", {amount} {what}"
                for amount, what in (
                    (needs.stack, "stack"),
                    (needs.spilled, "spilled"),
                    (needs.shared, "shared"),
                )
                if amount
            )
            x, y, z = stage.block
            found.append(
                f"{where}, {x * y * z} threads: {needs.registers} registers{extra},"
                f" occupancy {next(part):.3g}"
            )
    return "\n".join(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_needs_what_its_golden_section_says(name, golden):
    golden.check(FILE, name, lines(kernels_of(name)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_templates_of_a_dtype_need_what_their_golden_section_says(dtype, golden):
    found = kernels_by_dtype(dtype)
    golden.check(FILE, dtype, "\n".join(f"{name}: {lines(ks)}" for name, ks in found.items()))


def test_products_need_what_their_golden_section_says(golden):
    table = "\n".join(f"{n}: {lines(product(n))}" for n in range(1, 25))
    golden.check(FILE, "product of N and N partials", table)


def test_no_section_is_out_of_date(golden):
    expected = {*PROGRAMS, *DTYPES, "product of N and N partials"}
    assert set(golden.sections(FILE)) == expected


# --- what must hold, whatever the numbers


def test_nothing_spills():
    assert [name for name, needs in resources().items() if needs.spilled] == []


def test_only_sines_of_large_arguments_have_a_stack():
    stacks = {name for name, needs in resources().items() if needs.stack}
    allowed = [*kernels_of("sines"), *kernels_of("one of two arrays")]
    allowed += kernels_of("projectile and its derivative")
    assert stacks <= {f"{k.symbol}_{i}" for k in allowed for i in range(len(k.stages))}
    assert all(needs.stack <= 48 for needs in resources().values())


@pytest.mark.parametrize("n", range(1, 25))
def test_products_of_up_to_ten_fill_a_processor(n):
    (part,) = occupancies(product(n))
    assert part == 1.0 or n > 10
    assert part >= 0.5


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "4 partials" in name])
def test_the_cell_with_its_partials_leaves_room(name):
    """40 registers with branches, 32 with selects: these are branches that fit in 32."""
    (kernel,) = kernels_of(name)
    assert resources()[f"{kernel.symbol}_0"].registers <= 40
    assert occupancies([kernel]) == [1.0]


@pytest.mark.parametrize("arch", [a for a in ARCHS if a != H200.arch])
def test_every_kernel_compiles(arch):
    found = {k.symbol: k for k in everything()}
    machine = compiled(module(list(found.values())), arch)
    assert machine.cubin.startswith(b"\x7fELF")


# --- instructions


@cache
def instructions() -> dict[str, Counter[str]]:
    """The machine instructions of kernels that facts are about."""
    chosen = [k for name in SINGLE for k in kernels_of(name)]
    chosen += [k for ks in kernels_by_dtype("f4").values() for k in ks]
    chosen += [k for name in ("linear", "rows") for k in kernels_by_dtype("f8")[name]]
    source = module(list({k.symbol: k for k in chosen}.values()))
    return sheet.parsed(disassembled(compiled(source, H200.arch).cubin))


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


def opcodes(kernels: list[Planned]) -> Counter[str]:
    found: Counter[str] = Counter()
    for k in kernels:
        for number in range(len(k.stages)):
            found.update(instructions()[f"{k.symbol}_{number}"])
    return found


def named(found: Counter[str], *starts: str) -> dict[str, int]:
    return {name: count for name, count in found.items() if name.startswith(starts)}


DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "F2F.F64", "F2F.F32.F64", "MUFU.RCP64H")


def test_the_disassembler_shows_doubles_where_they_are():
    """So that their absence means something."""
    assert named(opcodes(kernels_by_dtype("f8")["linear"]), *DOUBLE)
    assert named(opcodes(kernels_by_dtype("f8")["rows"]), *DOUBLE)


@pytest.mark.parametrize("name", SINGLE)
def test_float32_stays_float32_and_in_registers(name):
    found = opcodes(kernels_of(name))
    assert named(found, *DOUBLE, "LDL", "STL") == {}


@pytest.mark.parametrize("name", [n for n in SINGLE if "HM-LSTM" in n or "sigmoid" in n])
def test_a_sigmoid_calls_nothing(name):
    assert named(opcodes(kernels_of(name)), "CALL") == {}


def widths(kernels: list[Planned]) -> dict[str, int]:
    """Loads and stores of device memory by how many bits they move."""
    found: Counter[str] = Counter()
    for name, count in named(opcodes(kernels), "LDG", "STG").items():
        bits = next((b for b in ("128", "64") if b in name.split(".")), "32")
        found[f"{name[:3]}.{bits}"] += count
    return dict(found)


def test_neighbours_are_read_and_written_sixteen_bytes_at_once():
    assert widths(kernels_of("sigmoid")) == {"LDG.128": 1, "STG.128": 1}
    assert widths(kernels_by_dtype("f4")["linear"]) == {"LDG.128": 2, "STG.128": 1}
    assert widths(kernels_by_dtype("f8")["linear"]) == {"LDG.128": 2, "STG.128": 1}
    assert widths(kernels_by_dtype("f4")["row and column"])["STG.128"] == 1


def test_a_ragged_end_is_read_and_written_one_by_one():
    found = widths(kernels_by_dtype("f4")["ragged"])
    assert found["LDG.128"] == 2
    assert found["STG.128"] == 1
    assert found["LDG.32"] == 8
    assert found["STG.32"] == 4


def test_a_misaligned_window_is_read_one_by_one():
    found = widths(kernels_by_dtype("f4")["window"])
    assert "LDG.32" in found


@pytest.mark.parametrize("name", ["rows", "few long rows", "all"])
def test_long_sums_read_sixteen_bytes_at_once(name):
    kernel = kernels_by_dtype("f4")[name]
    assert widths(kernel[:1])["LDG.128"] >= 1
