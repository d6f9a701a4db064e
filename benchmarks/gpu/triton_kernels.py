"""Triton kernels written by hand: the gradient of the HM-LSTM cell, softmax of rows.

Imported only where triton is. `tanh` is written by the sigmoid, which every version has.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024
WIDEST = 32768


@triton.jit
def _cell_grad(  # noqa: PLR0913
    c, f, i, g, z1, z2, dc, df, di, dg, n, zr, zc, total, BLOCK: tl.constexpr
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < total
    row = k // n
    z = row * zr + (k - row * n) * zc
    a = tl.load(z1 + z, mask=inside, other=0.0)
    b = tl.load(z2 + z, mask=inside, other=0.0)
    x = tl.load(c + k, mask=inside, other=0.0)
    s = tl.sigmoid(tl.load(f + k, mask=inside, other=0.0))
    t = tl.sigmoid(tl.load(i + k, mask=inside, other=0.0))
    h = 2.0 * tl.sigmoid(2.0 * tl.load(g + k, mask=inside, other=0.0)) - 1.0
    update = (a == 0.0) & (b == 1.0)
    copy = (a == 0.0) & (b == 0.0)
    tl.store(dc + k, tl.where(copy, 1.0, tl.where(update, s, 0.0)), mask=inside)
    tl.store(df + k, tl.where(update, s * (1.0 - s) * x, 0.0), mask=inside)
    tl.store(di + k, tl.where(copy, 0.0, t * (1.0 - t) * h), mask=inside)
    tl.store(dg + k, tl.where(copy, 0.0, t * (1.0 - h * h)), mask=inside)


@triton.jit
def _softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=inside)


def cell_grad(c: Any, f: Any, i: Any, g: Any, z1: Any, z2: Any) -> list[Any]:
    """The four partials of the cell's sum."""
    n, total = c.shape[0], c.numel()
    outs = [torch.empty_like(c) for _ in range(4)]
    by_row = z1.shape[0] > 1
    zr, zc = int(by_row), int(not by_row and z1.shape[1] > 1)
    grid = (triton.cdiv(total, BLOCK),)
    _cell_grad[grid](c, f, i, g, z1, z2, *outs, n, zr, zc, total, BLOCK=BLOCK, num_warps=8)
    return outs


def softmax(x: Any) -> Any:
    """Softmax of rows of up to 32768 numbers, each held by one program."""
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    if block > WIDEST:
        raise NotImplementedError(f"rows of {columns} numbers do not fit one program")
    warps = min(16, max(4, block // 1024))
    _softmax[(rows,)](x, out, columns, BLOCK=block, num_warps=warps)
    return out
