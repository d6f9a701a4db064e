"""Compiled functions, and functions that use gradients, are sent to processes started anew."""

import subprocess
import sys
import textwrap


def test_pools_of_spawned_processes_run_what_they_are_sent(tmp_path):
    (tmp_path / "work.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            import ftrace

            def f(x):
                return np.sum(np.sin(x) * x) if x[0] > 0 else np.sum(x)

            slope = ftrace.grad(f)

            def slopes(x):
                return slope(x)
            compiled = ftrace.jit(slopes)

            @ftrace.jit
            def total(x):
                return f(x) * 2

            """
        )
    )
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing
            import numpy as np
            import ftrace
            import work

            if __name__ == "__main__":
                xs = [np.array([1.0, 2.0]), np.array([-1.0, 2.0])]
                functions = [work.compiled, work.total, work.slopes]
                work.total(xs[0])  # compiled here, which is not sent
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    for g in functions:
                        for found, x in zip(pool.map(g, xs), xs, strict=True):
                            assert np.array_equal(found, g(x)), (g, found)
                print("right")
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("right", 0), done.stderr[-2000:]
