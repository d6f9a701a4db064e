"""Samples are JAX's: the values of `jax.random` 0.10.2, with 64-bit types enabled.

`FUSED`: XLA multiplies and adds with one rounding, ftrace with two. `NEAR`: logarithms and the
normal quantile are others. Gamma and counts by rejection read other bits than JAX and are not here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ftrace import random

KEY = random.PRNGKey(42)
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]))
P = np.array([0.1, 0.2, 0.3, 0.4])
MEAN, COVARIANCE = np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])

EXACT, FUSED, NEAR = 0.0, 1.0, 64.0  # tolerance, in units of the last place
Case = tuple[Callable[[], Any], str, Any, float]

CASES: dict[str, Case] = {
    "key 0": (lambda: random.PRNGKey(0), "uint32", [0, 0], EXACT),
    "key 1": (lambda: random.PRNGKey(1), "uint32", [0, 1], EXACT),
    "key -1": (lambda: random.PRNGKey(-1), "uint32", [4294967295, 4294967295], EXACT),
    "key 1099511627783": (lambda: random.PRNGKey(2**40 + 7), "uint32", [256, 7], EXACT),
    "key i32 -5": (lambda: random.PRNGKey(np.int32(-5)), "uint32", [0, 4294967291], EXACT),
    "split2": (
        lambda: random.split(KEY),
        "uint32",
        [[1832780943, 270669613], [64467757, 2916123636]],
        EXACT,
    ),
    "split 2x3": (
        lambda: random.split(KEY, (2, 3)),
        "uint32",
        [
            [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
            [[3134548294, 894150801], [2954079971, 3276725750], [2765691542, 824333390]],
        ],
        EXACT,
    ),
    "fold": (lambda: random.fold_in(KEY, 123), "uint32", [2238821533, 719561804], EXACT),
    "bits uint8": (
        lambda: random.bits(KEY, (2, 3), np.uint8),
        "uint8",
        [[162, 217, 249], [215, 21, 216]],
        EXACT,
    ),
    "bits uint16": (
        lambda: random.bits(KEY, (2, 3), np.uint16),
        "uint16",
        [[5026, 12505, 63993], [49623, 29461, 20184]],
        EXACT,
    ),
    "bits uint32": (
        lambda: random.bits(KEY, (2, 3), np.uint32),
        "uint32",
        [[2098992034, 2919706841, 2646866425], [2409546199, 1935504149, 2516274904]],
        EXACT,
    ),
    "bits uint64": (
        lambda: random.bits(KEY, (2, 3), np.uint64),
        "uint64",
        [
            [7871734211187709741, 276886910877598708, 10591095138341673235],
            [13462782411356743825, 12687676868490354166, 11878554724538143822],
        ],
        EXACT,
    ),
    "uniform float16": (
        lambda: random.uniform(KEY, (2, 3), np.float16),
        "float16",
        [[0.076171875, 0.1904296875, 0.9755859375], [0.7568359375, 0.44921875, 0.3076171875]],
        EXACT,
    ),
    "uniform -2 3 float16": (
        lambda: random.uniform(KEY, (4,), np.float16, -2, 3),
        "float16",
        [-1.619140625, -1.0478515625, 2.87890625, 1.7841796875],
        FUSED,
    ),
    "uniform float32": (
        lambda: random.uniform(KEY, (2, 3), np.float32),
        "float32",
        [
            [0.48870956897735596, 0.6797971725463867, 0.6162714958190918],
            [0.5610160827636719, 0.4506446123123169, 0.58586585521698],
        ],
        EXACT,
    ),
    "uniform -2 3 float32": (
        lambda: random.uniform(KEY, (4,), np.float32, -2, 3),
        "float32",
        [0.4435478448867798, 1.3989858627319336, 1.081357479095459, 0.8050804138183594],
        FUSED,
    ),
    "uniform float64": (
        lambda: random.uniform(KEY, (2, 3), np.float64),
        "float64",
        [
            [0.4267275666499091, 0.015010069515314584, 0.5741444178995352],
            [0.7298188969046309, 0.687800341230566, 0.6439377419166104],
        ],
        EXACT,
    ),
    "uniform -2 3 float64": (
        lambda: random.uniform(KEY, (4,), np.float64, -2, 3),
        "float64",
        [0.13363783324954537, -1.924949652423427, 0.8707220894976759, 1.6490944845231543],
        FUSED,
    ),
    "normal float32": (
        lambda: random.normal(KEY, (2, 3), np.float32),
        "float32",
        [
            [-0.02830461598932743, 0.4671318531036377, 0.2957029640674591],
            [0.15354591608047485, -0.12403281778097153, 0.21692314743995667],
        ],
        NEAR,
    ),
    "normal float64": (
        lambda: random.normal(KEY, (2, 3), np.float64),
        "float64",
        [
            [-0.18471174528191162, -2.169824560397754, 0.18693555179382582],
            [0.6122653570510959, 0.4896249504757018, 0.36900430470828355],
        ],
        NEAR,
    ),
    "randint 3 20 int8": (
        lambda: random.randint(KEY, (5,), 3, 20, np.int8),
        "int8",
        [5, 12, 9, 5, 10],
        EXACT,
    ),
    "randint full int8": (
        lambda: random.randint(KEY, (5,), -128, 128, np.int8),
        "int8",
        [68, -110, 55, 65, 13],
        EXACT,
    ),
    "randint 3 20 uint8": (
        lambda: random.randint(KEY, (5,), 3, 20, np.uint8),
        "uint8",
        [5, 12, 9, 5, 10],
        EXACT,
    ),
    "randint full uint8": (
        lambda: random.randint(KEY, (5,), 0, 256, np.uint8),
        "uint8",
        [196, 18, 183, 193, 141],
        EXACT,
    ),
    "randint 3 20 int16": (
        lambda: random.randint(KEY, (5,), 3, 20, np.int16),
        "int16",
        [5, 12, 9, 5, 10],
        EXACT,
    ),
    "randint full int16": (
        lambda: random.randint(KEY, (5,), -32768, 32768, np.int16),
        "int16",
        [-19260, 12306, 1207, 15553, 17037],
        EXACT,
    ),
    "randint 3 20 int32": (
        lambda: random.randint(KEY, (5,), 3, 20, np.int32),
        "int32",
        [5, 12, 9, 5, 10],
        EXACT,
    ),
    "randint full int32": (
        lambda: random.randint(KEY, (5,), -2147483648, 2147483648, np.int32),
        "int32",
        [977810628, 1236381714, -1367112521, -1019495231, -1671904627],
        EXACT,
    ),
    "randint 3 20 uint32": (
        lambda: random.randint(KEY, (5,), 3, 20, np.uint32),
        "uint32",
        [5, 12, 9, 5, 10],
        EXACT,
    ),
    "randint full uint32": (
        lambda: random.randint(KEY, (5,), 0, 4294967296, np.uint32),
        "uint32",
        [3125294276, 3383865362, 780371127, 1127988417, 475579021],
        EXACT,
    ),
    "randint 3 20 int64": (
        lambda: random.randint(KEY, (5,), 3, 20, np.int64),
        "int64",
        [14, 12, 17, 5, 14],
        EXACT,
    ),
    "randint full int64": (
        lambda: random.randint(KEY, (5,), -9223372036854775808, 9223372036854775807, np.int64),
        "int64",
        [
            4466307427195926069,
            869870568124700350,
            -8118644187909895017,
            -3282265486791233489,
            8391861063664870305,
        ],
        EXACT,
    ),
    "randint 3 20 uint64": (
        lambda: random.randint(KEY, (5,), 3, 20, np.uint64),
        "uint64",
        [14, 12, 17, 5, 14],
        EXACT,
    ),
    "bern": (
        lambda: random.bernoulli(KEY, 0.3, (5,)),
        "bool",
        [False, True, False, False, False],
        EXACT,
    ),
    "rad": (lambda: random.rademacher(KEY, (5,)), "int64", [1, 1, -1, -1, -1], EXACT),
    "norm c128": (
        lambda: random.normal(KEY, (4,), np.complex128),
        "complex128",
        [
            (-0.5093295292642132 + 0.45954304860759587j),
            (-0.18428781404443714 + 0.08377702715980621j),
            (1.1890484933280285 - 1.1000597312985396j),
            (-0.1355719453452989 - 0.3266293557593727j),
        ],
        NEAR,
    ),
    "exponential": (
        lambda: random.exponential(KEY, (4,)),
        "float64",
        [0.5563942243855916, 0.015123860720489336, 0.8536549993431988, 1.30866279263241],
        NEAR,
    ),
    "gumbel": (
        lambda: random.gumbel(KEY, (4,)),
        "float64",
        [0.16062720630382138, -1.4348544993307841, 0.5890136500161952, 1.1553132453508888],
        NEAR,
    ),
    "laplace": (
        lambda: random.laplace(KEY, (4,)),
        "float64",
        [0.15846230602649014, 3.5058868215207473, -0.16050781878325354, -0.6155156120724649],
        NEAR,
    ),
    "logistic": (
        lambda: random.logistic(KEY, (4,)),
        "float64",
        [-0.29521526220084393, -4.183910141360207, 0.29878068416298553, 0.9937039305821678],
        NEAR,
    ),
    "cauchy": (
        lambda: random.cauchy(KEY, (4,)),
        "float64",
        [-0.23434604341667786, -21.19070234669309, 0.23723777098183235, 0.8806079282226775],
        NEAR,
    ),
    "trunc": (
        lambda: random.truncated_normal(KEY, -1.0, 2.0, (4,)),
        "float64",
        [0.01998452592513169, -0.9504476695340623, 0.32827144083703297, 0.693751830608632],
        NEAR,
    ),
    "lognormal": (
        lambda: random.lognormal(KEY, 0.5, (4,)),
        "float64",
        [0.9117806140267735, 0.33793142787224595, 1.0979752215045038, 1.3581624935912568],
        NEAR,
    ),
    "categorical": (
        lambda: random.categorical(KEY, LOGITS[0], shape=(5,)),
        "int64",
        [2, 2, 2, 2, 2],
        EXACT,
    ),
    "categorical2": (
        lambda: random.categorical(KEY, LOGITS, shape=(5, 2)),
        "int64",
        [[2, 0], [2, 0], [2, 0], [1, 1], [1, 1]],
        EXACT,
    ),
    "permutation": (
        lambda: random.permutation(KEY, 10),
        "int64",
        [7, 4, 2, 5, 3, 6, 8, 9, 0, 1],
        EXACT,
    ),
    "perm big": (
        lambda: random.permutation(KEY, 3000)[:5],
        "int64",
        [2629, 116, 2048, 2566, 2509],
        EXACT,
    ),
    "perm arr": (
        lambda: random.permutation(KEY, np.arange(12).reshape(3, 4), axis=1),
        "int64",
        [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]],
        EXACT,
    ),
    "perm ind": (
        lambda: random.permutation(KEY, np.arange(12).reshape(3, 4), 1, independent=True),
        "int64",
        [[2, 3, 0, 1], [7, 4, 5, 6], [10, 11, 8, 9]],
        EXACT,
    ),
    "choice": (lambda: random.choice(KEY, 10, (4,)), "int64", [5, 8, 3, 1], EXACT),
    "choice norep": (
        lambda: random.choice(KEY, 10, (4,), replace=False),
        "int64",
        [7, 4, 2, 5],
        EXACT,
    ),
    "choice p": (lambda: random.choice(KEY, 4, (5,), p=P), "int64", [2, 3, 2, 1, 2], EXACT),
    "choice p norep": (
        lambda: random.choice(KEY, 4, (3,), replace=False, p=P),
        "int64",
        [3, 2, 0],
        EXACT,
    ),
    "pareto": (
        lambda: random.pareto(KEY, 3.0, (5,)),
        "float64",
        [
            1.203777755582976,
            1.0050540155743009,
            1.3291659848108275,
            1.5468505040400933,
            1.4740849945615087,
        ],
        NEAR,
    ),
    "maxwell": (
        lambda: random.maxwell(KEY, (5,)),
        "float64",
        [
            2.1856811186160847,
            0.866467331447922,
            0.8407561365101462,
            1.838019102640401,
            1.110862544345438,
        ],
        NEAR,
    ),
    "double_sided_maxwell": (
        lambda: random.double_sided_maxwell(KEY, 1.0, 2.0, (5,)),
        "float64",
        [
            -2.6956351413757687,
            -3.6877952518604795,
            4.7138077011187836,
            4.037642910563967,
            -1.4915268508405068,
        ],
        NEAR,
    ),
    "weibull_min": (
        lambda: random.weibull_min(KEY, 2.0, 3.0, (5,)),
        "float64",
        [
            1.644968300998198,
            0.49459632533297715,
            1.8972480932167475,
            2.1876235030437146,
            2.10391551505305,
        ],
        NEAR,
    ),
    "rayleigh": (
        lambda: random.rayleigh(KEY, 2.0, (5,)),
        "float64",
        [
            2.6101486342144358,
            5.795884058247333,
            2.1068921475580344,
            1.5873471253641838,
            1.7303333432959414,
        ],
        NEAR,
    ),
    "wald": (
        lambda: random.wald(KEY, 2.0, (5,)),
        "float64",
        [
            5.324020671222717,
            1.3862836856025678,
            0.2658722707168426,
            1.5262703615965054,
            12.209922424524205,
        ],
        NEAR,
    ),
    "geometric": (lambda: random.geometric(KEY, 0.2, (5,)), "int64", [4, 19, 3, 2, 2], EXACT),
    "triangular": (
        lambda: random.triangular(KEY, 0.0, 1.0, 3.0, (5,)),
        "float64",
        [
            1.1453748087280424,
            0.21220322463606378,
            1.4015215069939824,
            1.7267810013307943,
            1.6313517790839736,
        ],
        NEAR,
    ),
    "mvn": (
        lambda: random.multivariate_normal(KEY, MEAN, COVARIANCE, (3,)),
        "float64",
        [
            [0.738778144692716, -0.09499048743076521],
            [1.2643667926365265, 2.638813497128136],
            [1.6924342454389927, 2.518280481975531],
        ],
        NEAR,
    ),
    "orthogonal": (
        lambda: random.orthogonal(KEY, 3),
        "float64",
        [
            [-0.24985348168396393, -0.9679399318215844, 0.025797792068838043],
            [0.8281911415011259, -0.19982480469811717, 0.5236119560957534],
            [0.5016698823224919, -0.1521917731435747, -0.851566200220483],
        ],
        NEAR,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_samples_are_those_of_jax(name: str) -> None:
    draw, dtype, expected, tolerance = CASES[name]
    found = draw()
    assert (dtype, np.shape(expected)) == (str(found.dtype), found.shape)
    if tolerance == EXACT:
        np.testing.assert_array_equal(found, np.array(expected, dtype))
        return
    eps = np.finfo(found.dtype).eps * tolerance
    scale = np.finfo(found.dtype).eps * tolerance * np.max(np.abs(expected))
    np.testing.assert_allclose(found, np.array(expected, dtype), rtol=eps, atol=scale)
