"""CUDA C on a CPU, over true `cupy.ndarray`s: what the tests of the GPU backend run on.

`cuda.h` is what CUDA C has beyond C++, `runtime.cpp` runs the threads of a block as fibres;
`driver.py` compiles, loads and launches; `memory.py` holds the arrays, if need be against guard
pages; `device.py` puts these together as a `Device`. The emitted text is compiled unchanged.

What it finds: barriers that not all threads reach, shuffles whose mask is wrong, results that
depend on the order of threads or blocks, accesses outside of arrays (also of shared ones),
misaligned vectors, values read before they are written, undefined behaviour of C++. What it does
not find: races inside a warp that both orders hide, the last digits of CUDA's own mathematics.
"""
