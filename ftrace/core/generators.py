"""Generators of random numbers: their classes, and what gives and sets their states.

`numpy.random` takes longer to load than a small trace. Before it is loaded no value can be of its
classes; where code names it, `shared` loads it.
"""

import pickle
import random
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_NUMPYS: Final = "numpy.random"


def _of_generator(x: Any) -> Any:
    return pickle.dumps(x.bit_generator.state)


def _of_bits(x: Any) -> Any:
    return pickle.dumps(x.state)


def _of_legacy(x: Any) -> Any:
    return pickle.dumps(x.get_state(legacy=False))


_states: Final[dict[type, Callable[[Any], Any]]] = {random.Random: random.Random.getstate}


def states() -> dict[type, Callable[[Any], Any]]:
    """What gives the state of a generator, by its class."""
    if len(_states) == 1 and _NUMPYS in sys.modules:
        _states.update(
            {
                np.random.Generator: _of_generator,
                np.random.BitGenerator: _of_bits,
                np.random.RandomState: _of_legacy,
            }
        )
    return _states


def is_generator(x: Any) -> bool:
    """Whether it is a generator of random numbers."""
    return issubclass(type(x), tuple(states()))


def is_module(x: Any) -> bool:
    """Whether it is a module whose functions draw from one generator."""
    return x is random or (x is not None and x is sys.modules.get(_NUMPYS))


def shared() -> tuple[tuple[str, Any], ...]:
    """The generators that modules share, each with a name."""
    numpys: Any = np.random.rand
    pythons: Any = random.random
    return ("np.random", numpys.__self__), ("random", pythons.__self__)


def put(x: Any, state: Any) -> None:
    """Put a generator into a state that `states` gave."""
    if issubclass(type(x), random.Random):
        random.Random.setstate(x, state)
    elif issubclass(type(x), np.random.RandomState):
        x.set_state(pickle.loads(state))
    else:
        bits = x.bit_generator if issubclass(type(x), np.random.Generator) else x
        bits.state = pickle.loads(state)
