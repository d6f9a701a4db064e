"""What generated programs are made of: templates of expressions, by the type of their value.

A type is one letter, because holes in templates are typed: `{v}` is filled with any expression of
type v. Sizes are those of the program: N and M. Numbers stay of order one, so that rounding means
rounding. Read next: `writing.py`, which fills the holes and writes statements around them.

| type | value |
|---|---|
| s, i, b | a float, a whole number from 0 to N-1, a truth value |
| v, w, u, r | floats of shape (N,), (M,), (N-1,), (M*N,) |
| m, t | floats of shape (M, N), (N, M) |
| k, g | masks of shape (N,), (M, N) |
| j | N whole numbers from 0 to N-1 |
| z | complex numbers of shape (N,) |
| q | floats of shape (N,) that no argument went into: always a plain array |
"""

ARRAYS = "svwurmtzq"  # what memory may be shared with: an s may be an array without axes

# What gives a new value: writing into it reaches nothing else.
FRESH = {
    "s": """
        {s} + {s} | {s} - {s} | {s} * {s} | {s} * {c} | {c} - {s} | -{s} | {s} / (1.5 + {s} * {s})
        np.sin({s}) | math.cos({s}) | np.tanh({s}) | math.exp(-abs({s})) | np.sqrt(abs({s}) + 0.1)
        abs({s}) | np.maximum({s}, {s}) | {s} ** 2 | pow({s}, 3)
        {v}[{i}] | {v}[{I}] | {v}[-1] | {m}[{J}, {i}] | {m}[{J}][{I}] | {t}[{i}, {J}] | {u}[0]
        {v}.sum() | np.sum({m}) | {w}.mean() | np.max({v}) | {m}.min() | {v} @ {v} | np.dot({v}, {v})
        np.prod(np.tanh({v})) | np.linalg.norm({v}) | np.sum({v}, where={k}) | np.trace({m})
        ({b} and {s}) * {c} | {i} * {c} | {s} * {b} | float({i}) | {s} * (not {b})
        sum([_e * {s} for _e in {v}]) | sum(_e * {c} for _e in {w})
        np.where({b}, {s}, {s}) + 0.0 | np.sum(np.abs({z})) | {z}.real.sum() | np.interp({s}, [-2.0, 0.0, 2.0], [0.5, -1.0, 1.5])
        np.clip({s}, -1.0, 1.0) | np.hypot({s}, {s} + 3.0) | math.hypot({s}, 1.5)
        {v} @ {q} | {q}[{i}] * {s} | np.sum({v}[:0]) + {s} | np.sum({m}, where={k}) | {q}.sum() * {s}
        np.einsum("i,i", {v}, {v}) | np.float64({s}) | round({c}, 1) + {s} | (lambda _p: _p * {s})({s})
        {v}[:{i}].sum() | {v}[{i}:].mean() | {v}[{i}::-1].max() | {m}[{J}, {i}:].sum() | {v}[:{i} + 1][-1] | {m}[:, {i}:].mean(axis=1)[{J}]
        (lambda _k: {v}[:_k] @ {v}[:_k])({i}) | (lambda _k: {v}[_k:_k + 1][0])({i}) | np.sort({v}[{i}:])[0] | {v}[{i}].item() + {s}
    """,
    "i": """
        {I} | {I} | {I} | ({i} + {i}) % {N} | int({b}) | np.argmax({v}) | int(np.sum({k})) % {N}
        len({v}) - 1 | {j}[{i}] | {j}[{I}] | ({I} if {b} else {i}) | min({i}, {I})
        int(abs({s})) % {N} | np.count_nonzero({k}) % {N} | {v}.shape[0] - 1 | ({N} - 1 - {i})
    """,
    "b": """
        {s} > {s} | {s} < {c} | {s} > 0 | {s} >= {c} | {i} == {I} | {i} < {i} | {i} != {i}
        {c} < {s} < {c} | {s} > {s} > {c} | not {b} | ({b} and {b}) | ({b} or {b}) | {k}[{i}] | {k}.any()
        np.all({k}) | {v}.sum() > {c} | {v}[{I}] > {s} | any(_e > {c} for _e in {v}) | np.any({g})
        np.logical_and({b}, {b}) | isinstance({s}, np.ndarray) | bool({s} > {c}) | {s} > 0 or {s} < {c} | all([{b}, {b}])
    """,
    "v": """
        (lambda _k: np.concatenate([{v}, {v}])[_k:_k + {N}])({i}) | (lambda _k: np.hstack([{v}, {v}])[_k + {N} - 1:_k - 1:-1])({i} + 1)
        {v} + {v} | {v} - {s} | {v} * {v} | {c} * {v} | -{v} | {v} * {s} | {v} / (1.5 + {v} * {v})
        np.sin({v}) | np.tanh({v}) | np.exp(-np.abs({v})) | np.abs({v}) | {v} ** 2 | np.maximum({v}, {s})
        np.where({k}, {v}, {v}) | np.where({v} > {s}, {v}, {c}) | np.where({v} > 0, np.sqrt(np.abs({v}) + 0.2), {v})
        {m}.sum(axis=0) | {t}.mean(axis=1) | {m}.max(0) | {w} @ {m} | {t} @ {w} | np.dot({w}, {m})
        np.cumsum({v}) | np.sort({v}) | np.roll({v}, 1) | {v}[{j}] | np.take({v}, {j}) | {m}[{J}, {j}]
        np.concatenate([{u}, {v}[:1]]) | np.concatenate(({v}[-1:], {u})) | np.hstack([{s}, {u}])
        np.array([{s} for _ in range({N})]) | np.array([_e * {s} for _e in {v}]) | np.full({N}, {s})
        np.zeros({N}) + {s} | np.ones({N}) * {s} | np.zeros({N}) | np.linspace({s}, 1.0, {N}) | np.arange({N}) * {s}
        np.zeros_like({v}) | np.full_like({v}, {c}) | np.copy({v}) | {v}.copy() | np.array({v}) | {v}.flatten()
        {v} * {k} | {v} * {b} | np.einsum("ij,i->j", {m}, {w}) | np.clip({v}, -1.0, {c}) | np.diff({v}, prepend={s})
        np.abs({z}) | {z}.imag * 2.0 | np.add.reduce({m}) | np.add({v}, {v}, where={k}, out=np.ones({N}))
        np.outer({w}, {v})[{J}] | np.append({u}, {s}) | np.stack([{s}, *{u}]) | np.select([{k}, {k}], [{v}, {v}], {c})
        np.fromiter((_e for _e in [{C}] * {N}), float) * {s} | np.pad({u}, (1, 0), constant_values={c})
        {v} * {q} | {v} + {q} | {q} * {s} | {q} - {v} | np.where({k}, {q}, {v}) | np.concatenate([{v}, {v}[:0]]) | {m}[:0].sum(axis=0) + {v}
        np.divide({v}, {v}, where={k}, out=np.zeros({N})) | np.sqrt({v}, where={v} > 0.1, out=np.ones({N})) | np.where({k}, {m}, {s})[{J}]
        np.choose({k}, [{v}, {v}]) | np.apply_along_axis(np.sum, 0, {m}) | np.piecewise({v}, [{v} > 0], [np.sin, np.cos])
    """,
    "w": """
        {w} + {w} | {w} * {s} | {c} - {w} | np.cos({w}) | {m}.sum(axis=1) | {m} @ {v} | {t}.max(axis=0)
        np.zeros({M}) | np.ones({M}) * {s} | {w}.copy() | {v} @ {t} | np.array([{s} for _ in range({M})])
        np.array([_e.sum() for _e in {m}]) | np.where({w} > {c}, {w}, {s}) | np.cumprod(np.tanh({w}))
    """,
    "u": "{u} * {s} | {u} + {u} | np.diff({v}) | {u}.copy() | np.zeros({N} - 1) | np.sin({u}) | np.delete({v}, {I})",
    "r": "{r} * {c} | {r} + {r} | {m}.flatten() | {r}.copy() | np.repeat({w}, {N}) | np.tile({v}, {M}) | {m}.flatten('F')",
    "m": """
        {m} + {m} | {m} * {s} | {m} * {v} | {m} - {w}[:, None] | np.sin({m}) | np.outer({w}, {v}) | {c} * {m}
        np.where({g}, {m}, {m}) | np.where({m} > {c}, {m}, {s}) | np.zeros(({M}, {N})) | np.ones(({M}, {N})) * {s}
        {m}.copy() | np.copy({m}, order="F") | np.zeros(({M}, {N}), order="F") | np.zeros_like({m}) | np.zeros_like({t}.T)
        np.array([{v} for _ in range({M})]) | np.stack([{v}] * {M}) | np.stack([{w}] * {N}, axis=1) | np.vstack([{v}] * {M})
        np.cumsum({m}, axis=1) | np.sort({m}, axis=0) | {m} * {g} | np.tanh({m}) / 2.0 | np.array({m}, order="F")
        {m} * {q} | np.where({k}, {m}, {v}) | np.where({k}, {v}, {m}) | np.multiply({m}, {v}, where={k}, out=np.ones(({M}, {N}))) | np.outer({w}, {q})
        np.full(({M}, {N}), {s} * 1.0) | np.asfortranarray({m} * 1.0) | np.array([[_e * {s} for _e in _q] for _q in {m}])
    """,
    "t": "{t} * {s} | {t} + {t} | np.outer({v}, {w}) | {t}.copy() | np.zeros(({N}, {M})) | np.array({m}.T) | np.copy({m}.T)",
    "k": "{v} > {s} | {v} < {v} | {v} >= {c} | ~{k} | {k} & {k} | {k} | {j} == {i} | np.isfinite({v}) | {k} ^ {k} | np.arange({N}) < {i} | np.arange({N}) % 2 == 0 | np.arange({N}) == {I} | np.array([{b}, *[False] * ({N} - 1)]) | {g}[{J}] | {g}.any(axis=0)",
    "g": "{m} > {s} | {m} < {v} | ~{g} | {g} & {k} | {m} >= {c} | np.arange({M} * {N}).reshape({M}, {N}) % 2 == 0 | {m} > {w}[:, None]",
    "j": "np.array([{I} for _ in range({N})]) | np.argsort({v}) | np.arange({N})[::-1] | ({j} + {i}) % {N} | {j}",
    "q": "np.arange({N}) * {c} | np.ones({N}) | np.full({N}, {c}) | {q} * {c} | {q} + {q} | {q}.copy() | np.array([{c}] * {N}) | np.linspace({c}, 1.0, {N})",
    "z": "{z} * {z} | {z} + {v} | {z} * 1j | np.exp(1j * {v}) | np.conj({z}) | {v} * (1 + 2j) | {z}.copy() | np.where({k}, {z}, {v})",
}

# What may share memory with an array in it.
SHARED = {
    "s": "({s} if {b} else {s}) | min({s}, {s}) | max({s}, {c}) | max([{s}, {s}, {c}])",
    "v": """
        {v}[:] | {v}[::-1] | {m}[{J}] | {m}[-1] | {m}[{J}, :] | {t}[:, {J}] | {m}[{J}].reshape({N}) | np.asarray({v})
        {v}.reshape({N}) | {v}.ravel() | np.ravel({v}) | np.ascontiguousarray({v}) | {v}.astype(float, copy=False)
        {v}.T | {v}[...] | {r}[:{N}] | {r}[-{N}:] | {r}[::{M}] | {r}[::-{M}] | {m}[::-1][{J}] | {m}[{J}, ::-1] | {m}[::-1, ::-1][-1] | np.squeeze({v}[None]) | {v}[None][0] | np.flip({v})
        {r}.reshape({M}, {N})[{J}] | np.atleast_1d({v}) | {z}.real | {z}.imag | ({v} if {b} else {v}) | np.expand_dims({v}, 0)[0]
        np.transpose({m})[:, {J}] | {m}.T[:, {J}] | np.split({r}, {M})[{J}] | list({m})[{J}] | np.swapaxes({m}, 0, 1)[:, 0] | {m}[None].transpose(2, 0, 1)[:, 0, {J}] | next(iter({m}))
    """,
    "w": "{w}[::-1] | {m}[:, {I}] | {t}[{I}] | {m}.T[{I}] | {w}[:] | {r}[:{M}] | {m}[..., -1] | {w}.reshape(-1) | {r}[::{N}]",
    "u": "{v}[1:] | {v}[:-1] | {u}[::-1] | {v}[:{N} - 1] | {v}[:0:-1] | {v}[-2::-1] | {v}[::-1][1:] | {v}[1:].reshape(-1) | np.split({v}, [1])[1] | np.ravel({v}[1:])",
    "r": "{m}.ravel() | {m}.reshape(-1) | {r}[::-1] | {r}[:] | {r}[...] | np.flip({r})",
    "m": """
        {m}[:] | {m}[::-1] | {m}[:, ::-1] | {m}[::-1, ::-1] | {t}[::-1].T | {t}.T[::-1] | {t}.T | np.transpose({t}) | {t}.swapaxes(0, 1) | {r}.reshape({M}, {N})
        {m}.reshape(({M}, {N})) | np.asarray({m})
        {m}[...] | np.moveaxis({t}, 0, 1) | {m}.astype(np.float64, copy=False) | {m}.reshape({M}, {N}, order="F")
        np.atleast_2d({m}) | np.squeeze({m}[:, None], axis=1) | ({m} if {b} else {m}) | np.flipud({m}) | np.rot90({t}, 1) | {m}[None].transpose(1, 2, 0)[..., 0] | np.moveaxis({t}[:, :, None], 1, 0)[..., 0] | {t}.transpose(1, 0)
    """,
    "t": "{m}.T | {t}[::-1] | np.transpose({m}) | {t}[:] | {r}.reshape({N}, {M}) | {m}.swapaxes(0, 1) | np.moveaxis({m}, 0, 1)",
    "q": "{q}[::-1] | {q}[:] | {q}.reshape(-1) | np.asarray({q})",
    "z": "{z}[::-1] | {z}[:] | {z}.reshape(-1) | np.asarray({z})",
}

# Arrays of type m whose order NumPy takes from another: what is a view of them depends on it.
LAID = """
    np.zeros_like(np.zeros(({N}, {M})).T) | np.full_like(np.zeros(({N}, {M})).T, {s}) | np.full(({N}, {M}), {s} * 1.0).T.copy("K")
    np.copy(np.full(({N}, {M}), {s} * 1.0).T) | np.full(({M}, {N}), {s} * 1.0, order="F").copy("A") | np.ones(({N}, {M})).T.astype(float)
    np.asfortranarray(np.full(({M}, {N}), {s} * 1.0)).copy("K") | np.full(({M}, {N}), {s} * 1.0, order="F")
"""

# Writes into {a}, an array of the type that shares memory with nothing outside of the function.
WRITES = {
    "v": """
        {a}[{i}] = {s} | {a}[{I}] += {s} | {a}[{I}] = {c} | {a}[1:] = {u} | {a}[:-1] *= {s} | {a}[:] = {v} | {a}[...] = {s} | {a}[::-1] += {v}
        {a} += {v} | {a} *= {s} | {a} -= {c} | {a}[{k}] = {s} | {a}[{k}] *= {c} | {a}[{j}] = {v} | {a}[{j}] += {v}
        np.add({v}, {v}, out={a}) | np.multiply({a}, {s}, out={a}) | np.sin({v}, out={a}) | np.copyto({a}, {v}) | np.copyto({a}, {s}, where={k})
        np.add.at({a}, {j}, {v}) | np.add.at({a}, {i}, {s}) | np.putmask({a}, {k}, {v}) | {a}.fill({s}) | {a}.sort() | np.multiply({a}, {v}, out={a}, where={k})
        np.subtract.at({a}, {j}, {s}) | np.put({a}, {i}, {s}) | np.cumsum({v}, out={a}) | np.clip({a}, -1.0, 1.0, out={a}) | np.place({a}, {k}, {s})
        np.add({a}[::-1], {v}, out={a}) | np.multiply({a}, {a}[::-1], out={a}) | np.add({a}[1:], {u}, out={a}[:-1]) | {a}[:] = {a}[::-1] | {a}[::-1] = {a} | np.cumsum({a}[::-1], out={a})
        {a}[::-2] = {c} | {a}[-1:0:-1] = {u} | {a}[{N}:] = {s} | {a}[:0] += {c} | {a}[1:][:1] = {s} | np.add({v}, {s}, out={a}, where={k}) | np.copyto({a}, {v}, where={k}) | {a} += {q} | {a}[:] = {q} | np.copyto({a}[::-1], {v}, where={k})
        {a}[:{i}] = {s} | {a}[{i}:] *= {s} | {a}[{i}::-1] += {c} | {a}[{i}:][0] = {s} | {a}[:{i} + 1][-1] *= {s} | {a}[{i}:][...] = {s} | {a}[:{i}] = {a}[{I}]
        {a}[{I}], {a}[-1] = {a}[-1], {a}[{I}] | {a}[0] = {a}[-1] = {s} | {a}[1:] += {a}[:-1] | {a}[:-1] = {a}[1:] | np.maximum({a}, {s}, {a}) | {a}.put({I}, {s})
        {a}[slice(1, None)] = {s} | {a}.T[{I}] = {s} | {a}.reshape(-1)[{I}] += {s} | {a}.ravel()[{I}] = {s} | {a}[None][0, {I}] = {s} | {a}.flat[{I}] = {s} | {a}.real[{I}] = {s}
        np.matmul({w}, {m}, out={a}) | np.sum({m}, axis=0, out={a}) | {a}[{I}] = {a}.sum() | {a} /= (2.0 + {s} * {s}) | {a} **= 2
    """,
    "w": "{a}[{J}] = {s} | {a} += {w} | {a}[:] = {s} | {a} *= {s} | np.matmul({m}, {v}, out={a}) | {a}[{J}] *= {a}[-1]",
    "u": "{a}[0] = {s} | {a}[:] = {u} | {a} *= {s} | {a}[::-1] -= {s} | {a} += {u}",
    "r": "{a}[{I}] = {s} | {a}[::2] *= {s} | {a}.reshape({M}, {N})[{J}] = {v} | {a} += {r} | {a}[-1] += {s}",
    "m": """
        {a}[{w} > {c}] = {s} | {a}[{w} > {c}] = {v} | {a}[:, {k}] = {s} | np.copyto({a}, {v}, where={k}) | np.copyto({a}, {m}, where={k}) | np.add({m}, {v}, out={a}, where={k}) | np.add({a}[::-1], {m}, out={a}) | {a}[::-1, ::-1] = {m}
        {a}[{J}] = {v} | {a}[{J}, {I}] = {s} | {a}[:, {I}] = {w} | {a} += {m} | {a} *= {v} | {a}[{g}] = {s} | {a}.T[{I}] += {w} | {a}[:, ::-1] -= {m}
        {a}.T[{i}, {J}] = {s} | {a}.ravel()[{I}] = {s} | {a}.reshape(-1)[{I}] *= {s} | np.add({m}, {m}, out={a}) | np.copyto({a}, {v}) | np.copyto({a}, {m}, where={g})
        np.add.at({a}, ({J}, {j}), {v}) | np.fill_diagonal({a}, {s}) | np.multiply({a}, {s}, out={a}, where={g}) | {a}[{J}, {j}] = {v} | {a}[{J}][{i}] = {s} | {a}[..., {I}] += {s}
        {a}[{J}, {i}:] = {s} | {a}[:, :{i}] *= {c} | {a}[:{i} + 1, {I}] = {s} | {a}[{J}][{i}:] -= {c}
        {a}[:] = {m} | {a}[{J}] += {a}[0] | {a}[1:, 1:] *= {c} | np.putmask({a}, {g}, {s}) | {a}.sort(axis=0) | np.sin({a}, out={a}) | {a}.fill({s}) | {a}[{J}][1:] = {u}
    """,
    "t": "{a}[{I}] = {w} | {a}[{k}] = {s} | {a}[{k}] = {w} | {a}[:, {J}] = {v} | {a}.T[{J}] *= {s} | {a}.reshape(-1)[{I}] = {s} | {a} += {t} | {a}.T[...] = {m}",
    "q": "{a}[{I}] = {c} | {a}[:] = {q} | {a} *= {c} | {a} += {q} | {a}[::-1] -= {q} | {a}[{I}] += {a}[-1] | {a}[1:] = {c} | {a}.fill({c}) | {a}.sort() | np.add({q}, {q}, out={a})",
    "z": "{a}[{I}] = {s} | {a} *= {z} | {a}.real[{I}] = {s} | {a}.imag += {v} | {a}.real[...] = {v}",
}

# Where an expression ends.
LEAVES = {
    "s": "{c}",
    "i": "{I}",
    "b": "{s} > {c}",
    "v": "np.ones({N}) * {s}",
    "w": "np.ones({M})",
    "u": "{v}[1:]",
    "r": "np.ones({M} * {N})",
    "m": "np.ones(({M}, {N})) * {s}",
    "t": "{m}.T",
    "k": "{v} > {c}",
    "g": "{m} > {c}",
    "j": "np.arange({N})",
    "z": "{v} * (0.5 + 1j)",
    "q": "np.arange({N}) * {c}",
}


def _read(table: dict[str, str]) -> dict[str, list[str]]:
    lines = {t: text.replace("\n", " | ").split(" | ") for t, text in table.items()}
    return {t: [part.strip() for part in parts if part.strip()] for t, parts in lines.items()}


FRESH_TEMPLATES, SHARED_TEMPLATES, WRITE_TEMPLATES = map(_read, (FRESH, SHARED, WRITES))
LAID_TEMPLATES = _read({"m": LAID})["m"]
