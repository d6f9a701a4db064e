"""The emulation knows nothing that CUDA does not: NVRTC compiles all that its header supplies."""

import re
from typing import Any

import pytest

from tests.gpu import by_hand
from tests.gpu.emulation import driver
from tests.gpu.emulation.device import HostDevice

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
TEXTS = {
    name: text
    for name, text in vars(by_hand).items()
    if isinstance(text, str) and "__global__" in text
}
HEADER = (driver.HERE / "cuda.h").read_text()


def listed(name: str) -> list[str]:
    """The functions of one of the header's lists."""
    found = re.search(rf"#define {name}\(m\) ((?:.*\\\n)*.*)", HEADER)
    assert found
    return re.findall(r"m\((\w+)\)", found.group(1))


def of_numbers() -> str:
    """A text that calls the functions of the lists, for doubles and floats."""
    calls = [
        call
        for names, more in ((listed("FTRACE_EACH1") + listed("FTRACE_EACH_MORE"), ""),)
        for name in names
        for call in (f"d += {name}(d{more})", f"f += {name}f(f{more})")
    ]
    for name in listed("FTRACE_EACH2"):
        calls += [f"d += {name}(d, d)", f"f += {name}f(f, f)", f"f += {name}(f, f)"]
    return ";\n".join(calls)


OTHERS = r"""
d += fma(d, d, d) + ldexp(d, 2) + scalbn(d, 2) + frexp(d, &i) + modf(d, &e) + ilogb(d) + jn(2, d);
f += fmaf(f, f, f) + ldexpf(f, 2) + scalbnf(f, 2) + frexpf(f, &i) + modff(f, &g) + ilogbf(f);
f += fma(f, f, f) + rhypotf(f, f) + fdividef(f, f); d += rhypot(d, d) + yn(2, d);
l += llrint(d) + llrintf(f) + llround(d) + llroundf(f);
sincos(d, &d, &e); sincosf(f, &f, &g); sincospi(d, &d, &e); sincospif(f, &f, &g);
i += isnan(d) + isnan(f) + isinf(d) + isinf(f) + isfinite(d) + isfinite(f) + signbit(d);
i += min(i, i) + max(i, i) + abs(i); u += min(u, u) + max(u, u); f += min(f, g) + max(f, g);
l += min(l, l) + max(l, l) + abs(l) + llabs(l); d += min(d, e) + max(d, e); ul += max(ul, ul);
f += abs(f); d += abs(d);
i += __float_as_int(f) + __double2hiint(d) + __double2loint(d); u += __float_as_uint(f);
f += __int_as_float(i) + __uint_as_float(u); d += __longlong_as_double(l) + __hiloint2double(i, i);
l += __double_as_longlong(d);
i += __clz(i) + __clzll(l) + __ffs(i) + __ffsll(l) + __popc(u) + __popcll(ul) + __mulhi(i, i);
u += __umulhi(u, u); l += __mul64hi(l, l); ul += __umul64hi(ul, ul);
f += __fadd_rn(f, f) + __fsub_rn(f, f) + __fmul_rn(f, f) + __fdiv_rn(f, f) + __fsqrt_rn(f);
d += __dadd_rn(d, d) + __dsub_rn(d, d) + __dmul_rn(d, d) + __ddiv_rn(d, d) + __dsqrt_rn(d);
f += __frcp_rn(f) + __fmaf_rn(f, f, f) + __frsqrt_rn(f) + __fdividef(f, f) + __saturatef(f);
d += __drcp_rn(d) + __fma_rn(d, d, d);
f += __expf(f) + __exp10f(f) + __logf(f) + __log2f(f) + __log10f(f) + __powf(f, f);
f += __sinf(f) + __cosf(f) + __tanf(f);
i += atomicAdd((int*)p, i) + atomicSub((int*)p, i) + atomicMax((int*)p, i) + atomicMin((int*)p, i);
i += atomicAnd((int*)p, i) + atomicOr((int*)p, i) + atomicXor((int*)p, i) + atomicExch((int*)p, i);
u += atomicAdd((unsigned*)p, u) + atomicCAS((unsigned*)p, u, u) + atomicSub((unsigned*)p, u);
ul += atomicAdd(p, ul) + atomicMax(p, ul) + atomicCAS(p, ul, ul) + atomicExch(p, ul);
l += atomicMax((long long*)p, l) + atomicMin((long long*)p, l);
f += atomicAdd((float*)p, f) + atomicExch((float*)p, f); d += atomicAdd((double*)p, d);
ul += __ldg(p) + __ldcg(p) + __ldca(p) + __ldcs(p) + __ldlu(p) + __ldcv(p);
__stcg(p, ul); __stcs(p, ul); __stwb(p, ul); __stwt(p, ul);
__threadfence(); __threadfence_block(); __threadfence_system();
f += make_float1(f).x + make_float2(f, f).y + make_float3(f, f, f).z + make_float4(f, f, f, f).w;
d += make_double2(d, d).y; l += make_longlong2(l, l).y; i += make_int4(i, i, i, i).w;
i += make_char4(1, 2, 3, 4).w + make_uchar4(1, 2, 3, 4).w + make_short4(1, 2, 3, 4).w;
i += sizeof(float3) + sizeof(float4) + alignof(float4) + alignof(double2) + alignof(float2);
i += alignof(short4) + alignof(char4) + alignof(int3) + alignof(ulonglong2) + sizeof(dim3);
i += blockDim.x + gridDim.y + blockIdx.z + warpSize;
if (i == 12345) __trap();
"""

EVERYTHING = (
    "static __device__ __forceinline__ int one() { return 1; }\n"
    "static __host__ __device__ __noinline__ int two() { return 2; }\n"
    "__constant__ int three = 3;\n"
    "struct __align__(16) Aligned { float at[4]; };\n"
    'extern "C" __global__ void __launch_bounds__(64)\n'
    "everything(const __grid_constant__ dim3 n, const float* __restrict__ q, double* out) {\n"
    "float f = q[threadIdx.x], g = f; double d = f, e = f; int i = one() + two() + three;\n"
    "unsigned u = i; long long l = i; unsigned long ul0 = i; unsigned long long ul = ul0;\n"
    "unsigned long long* p = (unsigned long long*)out; Aligned aligned = {};\n"
    "ptrdiff_t between = q + 1 - q; size_t size = between + n.x;\n"
    f"{of_numbers()};\n{OTHERS}\n"
    "out[threadIdx.x] = d + e + f + g + i + u + l + ul + size + aligned.at[0];\n}\n"
)


def nvrtc(text: str, arch: str) -> str:
    """What NVRTC says about a text; empty if it compiles."""
    from cupy.cuda import nvrtc as binding

    program: Any = binding.createProgram(text, "kernels.cu", [], [])
    options = ["-std=c++17", f"-arch={arch}", "-default-device", "-fmad=false"]
    try:
        binding.compileProgram(program, options)
    except binding.NVRTCError:
        return binding.getProgramLog(program) or "refused"
    return ""


@pytest.fixture
def compiles_cuda(emulation: None) -> None:
    from cupy.cuda import nvrtc as binding

    try:
        binding.getVersion()
    except (RuntimeError, ImportError) as missing:
        pytest.skip(f"NVRTC is not installed: {missing}")


@pytest.mark.usefixtures("compiles_cuda")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", TEXTS)
def test_texts_by_hand_are_cuda(name: str, arch: str):
    assert nvrtc(TEXTS[name], arch) == ""


@pytest.mark.usefixtures("compiles_cuda")
def test_what_the_header_supplies_is_cuda():
    assert nvrtc(EVERYTHING, "sm_75") == ""


def test_what_the_header_supplies_compiles(each_device: HostDevice):
    assert set(each_device.compile(EVERYTHING, ("everything",))) == {"everything"}


@pytest.mark.usefixtures("compiles_cuda")
def test_vectors_have_cudas_sizes_and_alignments(host_device: HostDevice):
    sizes = {"char": 1, "short": 2, "int": 4, "longlong": 8, "float": 4, "double": 8}
    checks = [
        f"static_assert(sizeof({sign}{name}{k}) == {size * k} && "
        f'alignof({sign}{name}{k}) == {min(size * (k if k != 3 else 1), 16)}, "");'
        for name, size in sizes.items()
        for sign in (["", "u"] if name not in ("float", "double") else [""])
        for k in (1, 2, 3, 4)
    ]
    text = "\n".join(checks) + '\nextern "C" __global__ void k(int n) {}\n'
    assert nvrtc(text, "sm_90") == ""
    host_device.compile(text, ("k",))
