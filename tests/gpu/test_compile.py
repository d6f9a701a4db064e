"""CUDA C to machine code: every kind of device, the cache, what a refused text says."""

import ctypes
import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import ftrace
from ftrace import errors
from ftrace.gpu.machine_code import cubin as compiling
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.prelude.cuda_source import source
from tests.gpu import sheet

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
WORDS = "template <int N> struct Words { long long w[N]; };\n"
TWICE = (
    WORDS
    + """extern "C" __global__ void __launch_bounds__(256) twice(const Words<3> a) {
  const float4* x = (const float4*) a.w[0];
  float4* y = (float4*) a.w[1];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.w[2]) return;
  const float4 v = x[i];
  y[i] = make_float4(v.x * v.x + 1.0f, v.y * v.y + 1.0f, v.z * v.z + 1.0f, v.w * v.w + 1.0f);
}
"""
)
ELF = b"\x7fELF"


@pytest.fixture(scope="module", autouse=True)
def _compiler():
    try:
        nvrtc.load()
    except errors.BackendError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture
def home(tmp_path):
    """An empty cache."""
    with ftrace.config.update(cache_directory=str(tmp_path)):
        yield tmp_path / "code"


@pytest.fixture
def runs(monkeypatch):
    """The options of each compilation."""
    done = []
    compiled = nvrtc.Nvrtc.compile

    def counted(self, source, options):
        done.append(tuple(options))
        return compiled(self, source, options)

    monkeypatch.setattr(nvrtc.Nvrtc, "compile", counted)
    return done


# --- compiling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_machine_code_is_made_for_each_kind_of_device(home, arch):
    code = compiling.cubin(TWICE, arch)
    assert code.startswith(ELF)
    assert b"twice" in code
    assert sheet.instructions(TWICE, arch)["twice"]["EXIT"] >= 1


def test_machine_code_differs_between_devices(home):
    assert len({compiling.cubin(TWICE, arch) for arch in ARCHS}) == len(ARCHS)


def test_products_and_sums_are_not_contracted_and_subnormals_are_kept(home):
    found = sheet.instructions(TWICE, "sm_90")["twice"]
    assert found["FFMA"] == 0
    assert found["FMUL"] == found["FADD"] == 4
    assert not [name for name in found if name.endswith(".FTZ")]


def test_kernels_need_no_headers() -> None:
    """NVRTC comes without those of the toolkit."""
    assert "#include" not in source([])


def test_functions_need_no_device_qualifier(home):
    text = WORDS + "inline float f(float x) { return x + 1.0f; }\n" + TWICE[len(WORDS) :]
    assert compiling.cubin(text.replace("v.x * v.x + 1.0f", "f(v.x * v.x)"), "sm_90")


def test_several_threads_compile_at_once(home):
    texts = [TWICE.replace("1.0f", f"{n}.0f") for n in range(4)]
    alone = [compiling.compiled(text, "sm_90").cubin for text in texts]
    found = {}

    def work(n):
        found[n] = compiling.compiled(texts[n], "sm_90").cubin

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(4)] == alone


# --- errors -------------------------------------------------------------------------------------


def test_a_refused_text_shows_the_line_and_holds_the_source(home):
    text = TWICE.replace("v.x * v.x", "v.x * nothing")
    with pytest.raises(errors.KernelError) as caught:
        compiling.cubin(text, "sm_90")
    said = str(caught.value)
    assert "NVRTC_ERROR_COMPILATION" in said
    assert 'identifier "nothing" is undefined' in said
    assert re.search(r"^> +8 .*nothing", said, re.MULTILINE)
    assert re.search(r"^ +7 .*const float4 v", said, re.MULTILINE)
    assert re.search(r"^ +9 ", said, re.MULTILINE)
    assert "bug of ftrace" in said
    assert caught.value.source == text
    assert isinstance(caught.value, errors.BackendError)
    assert not list(home.glob("*")) if home.exists() else True


def test_the_refused_line_is_shown_among_its_neighbours() -> None:
    source = "\n".join("abcdefghijklmnop")
    shown = compiling._excerpt(source, "kernels.cu(9): error")
    assert " ".join(shown.split()) == "5 e 6 f 7 g 8 h > 9 i 10 j 11 k 12 l 13 m"
    assert compiling._excerpt(source, "no line is named") == ""


def test_what_the_compiler_reports_is_named():
    with pytest.raises(errors.BackendError, match=r"reports NVRTC_ERROR_OUT_OF_MEMORY\."):
        nvrtc.load()._check(1)


def test_a_text_that_only_the_assembler_refuses_is_an_error(home):
    text = TWICE.replace(
        "  if (i >=", "  __shared__ float s[20000]; s[i] = i; __syncthreads();\n  if (s[7] + i >="
    )
    with pytest.raises(errors.KernelError, match="shared"):
        compiling.cubin(text, "sm_90")


def test_an_unknown_kind_of_device_is_named_with_those_that_are_known(home):
    with pytest.raises(errors.BackendError, match=r"does not compile for sm_10, only for sm_\d\d,"):
        compiling.cubin(TWICE, "sm_10")


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "_candidates", lambda majors: iter(()))
    for newest, extra in ((13, "cuda13"), (12, "cuda12"), (14, "cuda13")):
        with pytest.raises(errors.BackendError, match=rf"pip install 'ftrace\[{extra}\]'"):
            nvrtc.load.__wrapped__(newest)


def test_a_library_that_cannot_be_loaded_is_named_and_the_next_is_taken(monkeypatch, tmp_path):
    broken = tmp_path / "libnvrtc.so.13"
    broken.write_bytes(b"no library")
    good = nvrtc.load().path
    monkeypatch.setattr(nvrtc, "_candidates", lambda majors: iter([str(broken), good]))
    assert nvrtc.load.__wrapped__(13).path == good
    monkeypatch.setattr(nvrtc, "_candidates", lambda majors: iter([str(broken)]))
    with pytest.raises(errors.BackendError, match=re.escape(str(broken))):
        nvrtc.load.__wrapped__(13)


def test_libraries_are_searched_by_version_then_wheels_then_toolkits(monkeypatch, tmp_path):
    wheel, toolkit = tmp_path / "wheel", tmp_path / "toolkit"
    for folder, name in ((wheel, "13"), (toolkit, "13"), (wheel, "12")):
        folder.mkdir(exist_ok=True)
        (folder / f"libnvrtc.so.{name}").touch()
    monkeypatch.setattr(nvrtc, "_wheels", lambda: iter([wheel]))
    monkeypatch.setattr(nvrtc, "_toolkits", lambda: iter([toolkit]))
    monkeypatch.setattr(sys, "platform", "linux")
    twelve = [str(wheel / "libnvrtc.so.12"), "libnvrtc.so.12"]
    thirteen = [str(path / "libnvrtc.so.13") for path in (wheel, toolkit)] + ["libnvrtc.so.13"]
    assert list(nvrtc._candidates([13, 12])) == thirteen + twelve
    assert list(nvrtc._candidates([12])) == twelve


def test_libraries_of_one_folder_are_tried_in_the_order_of_their_names(monkeypatch) -> None:
    names = ["libnvrtc.so.13.1", "libnvrtc.so.13", "libnvrtc.so.13.0"]
    folder = SimpleNamespace(glob=lambda pattern: iter(names))
    monkeypatch.setattr(nvrtc, "_wheels", lambda: iter([folder]))
    monkeypatch.setattr(nvrtc, "_toolkits", lambda: iter([]))
    assert list(nvrtc._candidates([13]))[:-1] == sorted(names)


def test_a_module_that_happens_to_be_called_nvidia_holds_no_wheels(monkeypatch) -> None:
    spec = SimpleNamespace(submodule_search_locations=None)
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: spec)
    assert list(nvrtc._wheels()) == []


def test_what_a_compiler_opens_by_name_is_loaded_before_it(monkeypatch, tmp_path):
    """NVRTC 13.0 of a wheel finds it in no other way."""
    loaded = []

    class RefusedError(OSError):
        pass

    def load(path):
        loaded.append(path)
        if path == str(tmp_path / "libnvrtc.so.13"):
            raise RefusedError
        return path

    for name in (
        "libnvrtc-builtins.so.13.0",
        "libnvrtc-builtins.alt.so.13.0",
        "libnvrtc.alt.so.13",
    ):
        (tmp_path / name).touch()
    monkeypatch.setattr(ctypes, "CDLL", load)
    wanted = [str(tmp_path / "libnvrtc-builtins.so.13.0"), str(tmp_path / "libnvrtc.so.13")]
    with pytest.raises(RefusedError):
        nvrtc.Nvrtc(wanted[-1])
    assert loaded == wanted
    monkeypatch.chdir(tmp_path)  # a name for the system's loader says nothing about a folder
    monkeypatch.setattr(ctypes, "CDLL", lambda path: loaded.append(path) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        nvrtc.Nvrtc("libnvrtc.so.13")
    assert loaded[2:] == ["libnvrtc.so.13"]


@pytest.mark.parametrize(("newest", "asked"), [(14, [13, 12]), (13, [13, 12]), (12, [12])])
def test_no_compiler_is_newer_than_the_driver(monkeypatch, newest, asked):
    seen = []
    good = nvrtc.load().path
    monkeypatch.setattr(nvrtc, "_candidates", lambda majors: seen.append(majors) or iter([good]))
    nvrtc.load.__wrapped__(newest)
    assert seen == [asked]


def test_the_environment_names_a_toolkit(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert next(iter(nvrtc._toolkits())) == tmp_path / "lib64"


# --- the cache ----------------------------------------------------------------------------------


def test_the_second_time_nothing_is_compiled(home, runs):
    first = compiling.cubin(TWICE, "sm_90")
    assert compiling.cubin(TWICE, "sm_90") == first
    assert len(runs) == 1
    assert len(list(home.iterdir())) == 1


def test_text_device_version_and_options_are_told_apart(home, runs, monkeypatch):
    compiler = nvrtc.load()
    compiling.cubin(TWICE, "sm_90")
    compiling.cubin(TWICE + "\n", "sm_90")
    compiling.cubin(TWICE, "sm_80")
    monkeypatch.setattr(compiler, "build", (1, 2))
    compiling.cubin(TWICE, "sm_90")
    monkeypatch.setattr(compiler, "version", (99, 0))
    compiling.cubin(TWICE, "sm_90")
    monkeypatch.setattr(compiling, "OPTIONS", (*compiling.OPTIONS, "-lineinfo"))
    compiling.cubin(TWICE, "sm_90")
    assert len(runs) == 6
    assert len(list(home.iterdir())) == 6


def test_a_library_that_was_replaced_is_another_build(tmp_path):
    path = tmp_path / "libnvrtc.so.13"
    assert nvrtc._build(path) == ()
    path.write_bytes(b"one")
    first = nvrtc._build(path)
    os.utime(path, ns=(1, 1))
    assert len({first, nvrtc._build(path)}) == 2
    assert nvrtc.load().build


def test_the_compiler_that_is_given_compiles(home, monkeypatch) -> None:
    other = nvrtc.load.__wrapped__()
    seen = []
    monkeypatch.setattr(
        other, "compile", lambda *how: seen.append(how) or nvrtc.load().compile(*how)
    )
    compiling.cubin(TWICE, "sm_90", other)
    assert len(seen) == 1


def test_processes_share_the_cache(home):
    program = (
        "import sys\nfrom ftrace.gpu.machine_code import cubin as c\n"
        "from tests.gpu.test_compile import TWICE\n"
        "made = []\nwrite = c.disk_cache.write\n"
        "c.disk_cache.write = lambda name, body: (made.append(1), write(name, body))\n"
        "code = c.cubin(TWICE, 'sm_90')\nprint(len(made), hash(code), file=sys.stdout)\n"
    )
    environment = {
        **os.environ,
        "FTRACE_CACHE_DIRECTORY": str(home.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def start():
        command = [sys.executable, "-c", program]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    together = [process.communicate()[0].split() for process in (start(), start())]
    third = start().communicate()[0].split()
    assert {found[1] for found in together} == {third[1]}
    assert third[0] == "0"
    assert [path.suffix for path in home.iterdir()] == [".cubin"]


# --- the sheet of resources ---------------------------------------------------------------------


def test_the_sheet_counts_registers_stack_and_spills():
    found = sheet.resources(TWICE, "sm_90")["twice"]
    assert 8 <= found.registers <= 24
    assert (found.stack, found.spilled, found.shared) == (0, 0, 0)
    values = "".join(f"  const float v{n} = x[i + {n} * a.w[2]];\n" for n in range(64))
    total = " + ".join(f"v{n} * v{63 - n}" for n in range(64))
    text = (
        WORDS
        + 'extern "C" __global__ void __launch_bounds__(1024, 2) many(const Words<3> a) {\n'
        + "  const float* x = (const float*) a.w[0]; __shared__ float s[1024];\n"
        + "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        + values
        + "  s[threadIdx.x] = v0; __syncthreads();\n"
        + f"  ((float*) a.w[1])[i] = {total} + s[1023 - threadIdx.x];\n}}\n"
    )
    crowded = sheet.resources(text, "sm_90")["many"]
    assert crowded.registers == 32
    assert crowded.spilled > 0
    assert crowded.shared >= 4096


def test_the_sheet_knows_wide_loads():
    found = sheet.instructions(TWICE, "sm_90")["twice"]
    assert found["LDG.E.128"] == 1
    assert found["STG.E.128"] == 1
    assert not [name for name in found if name.startswith(("LDL", "STL", "CALL"))]


@pytest.mark.parametrize(
    ("registers", "part"),
    [(24, 1.0), (31, 1.0), (32, 1.0), (34, 0.75), (42, 0.625), (50, 0.5), (64, 0.5), (79, 0.375)],
)
def test_occupancy_follows_registers(registers, part):
    assert sheet.occupancy("sm_90", registers, 256) == part


def test_occupancy_follows_shared_memory_and_the_size_of_blocks():
    assert sheet.occupancy("sm_90", 32, 256, 48 << 10) == 4 * 8 / 64
    assert sheet.occupancy("sm_90", 16, 32) == 0.5  # 32 blocks of one warp
    assert sheet.occupancy("sm_75", 32, 256) == 1.0
    assert sheet.occupancy("sm_86", 32, 1024) == pytest.approx(2 / 3)
    assert sheet.occupancy("sm_80", 32, 256, 40 << 10) == 0.5  # 4 * (40 + 1) KiB is all there is
    assert sheet.occupancy("sm_80", 32, 256, (40 << 10) + 1) == 0.375
