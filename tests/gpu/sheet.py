"""What a kernel costs a GPU, found without one: registers, stack, spills, occupancy, instructions.

`resources` reads what the assembler reports while compiling, `occupancy` is the arithmetic of
NVIDIA's tables, and `instructions` disassembles with `cuobjdump` and `nvdisasm`, where they are.
"""

import re
from collections import Counter
from dataclasses import dataclass

from ftrace.gpu.machine_code import cubin as compiling
from ftrace.gpu.machine_code.disassembly import disassembled


@dataclass(frozen=True)
class Resources:
    """Of one kernel: registers and stack bytes per thread, spilled bytes, static shared bytes."""

    registers: int
    stack: int
    spilled: int
    shared: int


@dataclass(frozen=True)
class Processor:
    """What one multiprocessor has: threads, blocks, registers, shared memory; their granularity."""

    threads: int
    blocks: int
    shared: int
    shared_unit: int
    reserved: int  # shared bytes that the system takes of each block
    registers: int = 65536


PROCESSORS = {
    "sm_75": Processor(1024, 16, 64 << 10, 256, 0),
    "sm_80": Processor(2048, 32, 164 << 10, 128, 1024),
    "sm_86": Processor(1536, 16, 100 << 10, 128, 1024),
    "sm_89": Processor(1536, 24, 100 << 10, 128, 1024),
    "sm_90": Processor(2048, 32, 228 << 10, 128, 1024),
    "sm_100": Processor(2048, 32, 228 << 10, 128, 1024),
}

VERBOSE = ("-Xptxas", "-v")  # makes the compiler say it


def resources(source: str, arch: str) -> dict[str, Resources]:
    """What the assembler says about each kernel of a text."""
    return reported(compiling.compiled(source, arch, more=VERBOSE).log)


def reported(log: str) -> dict[str, Resources]:
    """The same of what the compiler said."""
    found: dict[str, Resources] = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part[: part.index("'")]
        # functions that were not inlined are listed first: a kernel needs what all of them need
        stacks = re.findall(r"(\d+) bytes stack frame", part)
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", part)
        shared = re.search(r"(\d+) bytes smem", part)
        found[name] = Resources(
            registers=int(re.search(r"Used (\d+) registers", part).group(1)),
            stack=sum(map(int, stacks)),
            spilled=sum(map(int, spills)),
            shared=int(shared.group(1)) if shared else 0,
        )
    return found


def occupancy(arch: str, registers: int, threads: int, shared: int = 0) -> float:
    """The part of a multiprocessor's warps that can be there at once, blocks being what they are.

    A warp gets registers in units of 256, and four warps share a unit of their allocation.
    """
    has = PROCESSORS[arch]
    warps = -(-threads // 32)
    of_a_warp = -(-registers * 32 // 256) * 256
    by_registers = has.registers // of_a_warp // 4 * 4 // warps
    of_a_block = -(-(shared + has.reserved) // has.shared_unit) * has.shared_unit
    by_shared = has.shared // of_a_block if of_a_block else has.blocks
    blocks = min(has.blocks, has.threads // 32 // warps, by_registers, by_shared)
    return blocks * warps / (has.threads // 32)


def instructions(source: str, arch: str) -> dict[str, Counter[str]]:
    """How often each machine instruction occurs in each kernel: `LDG.E.128`, `CALL.REL`..."""
    return parsed(disassembled(compiling.cubin(source, arch)))


def parsed(text: str) -> dict[str, Counter[str]]:
    """The same of a disassembly."""
    found: dict[str, Counter[str]] = {}
    for part in re.split(r"Function : ", text)[1:]:
        name = part[: part.index("\n")].strip()
        opcodes = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", part)
        found[name] = Counter(opcodes)
    return found
