"""A small network that reads handwritten digits, trained twice from the same start.

The model and its loss are plain NumPy functions over a dataclass of parameters. One training step
gets its gradient from `ftrace.value_and_grad(loss)` and is compiled as a whole by `ftrace.jit`, the
other is NumPy with a gradient written out by hand; both see the same batches, so their losses must
agree to rounding. The data are the UCI handwritten digits that scikit-learn ships (1797 pictures of
8 by 8 pixels). What comes out is drawn by `pictures.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import ftrace

SEED = 0
HIDDEN = 128
EPOCHS = 30
BATCH = 64
RATE = 0.1
MOMENTUM = 0.9
JITTER = 0.3  # noise added to the training pictures, in units of half the grey scale


@dataclass
class Params:
    """Weights and biases of a network with one hidden layer; also holds gradients and momenta."""

    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray


@dataclass
class Digits:
    """Pictures scaled to [-1, 1] and their labels, split into training and test sets."""

    x_train: np.ndarray
    x_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray


@dataclass
class Run:
    """One training run: its state, and what was measured on the way."""

    params: Params
    velocity: Params
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each step


Step = Callable[[Params, Params, np.ndarray, np.ndarray], tuple[float, Params, Params]]


def load() -> Digits:
    """The bundled digits, one fifth held back for testing with every class equally frequent."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels / 8.0 - 1.0
    return Digits(
        *train_test_split(pixels, labels, test_size=0.2, stratify=labels, random_state=SEED)
    )


def initial(rng: np.random.Generator) -> Params:
    """Random weights whose size keeps the activations at about one."""
    return Params(
        w1=rng.normal(size=(64, HIDDEN)) / np.sqrt(64),
        b1=np.zeros(HIDDEN),
        w2=rng.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN),
        b2=np.zeros(10),
    )


def logits(params: Params, x: np.ndarray) -> np.ndarray:
    """The ten scores of each picture, (n, 64) -> (n, 10)."""
    hidden = np.tanh(x @ params.w1 + params.b1)
    return hidden @ params.w2 + params.b2


def loss(params: Params, x: np.ndarray, target: np.ndarray) -> float:
    """Mean cross-entropy of one-hot targets (n, 10)."""
    scores = logits(params, x)
    scores = scores - scores.max(axis=1, keepdims=True)
    log_probabilities = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -(target * log_probabilities).sum(axis=1).mean()


loss_and_gradient = ftrace.value_and_grad(loss)


@ftrace.jit
def ftrace_step(
    params: Params, velocity: Params, x: np.ndarray, target: np.ndarray
) -> tuple[float, Params, Params]:
    """One step of gradient descent with momentum; ftrace supplies the gradient and compiles it."""
    value, gradient = loss_and_gradient(params, x, target)
    velocity = ftrace.tree.map(lambda v, g: MOMENTUM * v - RATE * g, velocity, gradient)
    return value, ftrace.tree.map(np.add, params, velocity), velocity


def gradient_by_hand(params: Params, x: np.ndarray, target: np.ndarray) -> tuple[float, Params]:
    """The loss and its gradient, derived on paper."""
    hidden = np.tanh(x @ params.w1 + params.b1)
    scores = hidden @ params.w2 + params.b2
    scores = scores - scores.max(axis=1, keepdims=True)
    exps = np.exp(scores)
    total = exps.sum(axis=1, keepdims=True)
    value = -(target * (scores - np.log(total))).sum(axis=1).mean()
    d_scores = (exps / total - target) / len(x)
    d_hidden = (d_scores @ params.w2.T) * (1.0 - hidden * hidden)
    return value, Params(
        w1=x.T @ d_hidden, b1=d_hidden.sum(axis=0), w2=hidden.T @ d_scores, b2=d_scores.sum(axis=0)
    )


def numpy_step(
    params: Params, velocity: Params, x: np.ndarray, target: np.ndarray
) -> tuple[float, Params, Params]:
    """The same step in plain NumPy, without ftrace."""
    value, gradient = gradient_by_hand(params, x, target)
    velocity = Params(
        w1=MOMENTUM * velocity.w1 - RATE * gradient.w1,
        b1=MOMENTUM * velocity.b1 - RATE * gradient.b1,
        w2=MOMENTUM * velocity.w2 - RATE * gradient.w2,
        b2=MOMENTUM * velocity.b2 - RATE * gradient.b2,
    )
    params = Params(
        w1=params.w1 + velocity.w1,
        b1=params.b1 + velocity.b1,
        w2=params.w2 + velocity.w2,
        b2=params.b2 + velocity.b2,
    )
    return value, params, velocity


def accuracy(params: Params, x: np.ndarray, labels: np.ndarray) -> float:
    """Fraction of the pictures whose highest score is at their label."""
    return float((logits(params, x).argmax(axis=1) == labels).mean())


def batches(digits: Digits, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One epoch of shuffled, slightly noisy batches with one-hot targets."""
    order = rng.permutation(len(digits.x_train))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        x = digits.x_train[chosen]
        yield x + JITTER * rng.normal(size=x.shape), np.eye(10)[digits.y_train[chosen]]


def run_epoch(run: Run, step: Step, epoch: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Take one step per batch, adding to the run's losses and times."""
    for x, target in epoch:
        start = perf_counter()
        value, run.params, run.velocity = step(run.params, run.velocity, x, target)
        run.seconds.append(perf_counter() - start)
        run.losses.append(float(value))


def train(digits: Digits, epochs: Iterator[int]) -> dict[str, Run]:
    """Train both ways, epoch by epoch in turn, so that a busy machine slows both alike."""
    rng = np.random.default_rng(SEED)
    start = initial(rng)
    rest = Params(*(np.zeros_like(w) for w in (start.w1, start.b1, start.w2, start.b2)))
    steps = {"ftrace": ftrace_step, "NumPy by hand": numpy_step}
    runs = {name: Run(start, rest) for name in steps}
    for _ in epochs:
        epoch = list(batches(digits, rng))
        for name, step in steps.items():
            run_epoch(runs[name], step, epoch)
            runs[name].accuracies.append(accuracy(runs[name].params, digits.x_test, digits.y_test))
    return runs


def winning_score(params: Params, picture: np.ndarray) -> float:
    """The highest of the ten scores of one picture (64,); its gradient shows what mattered."""
    return logits(params, picture[None]).max()


saliency = ftrace.vmap(ftrace.grad(winning_score, argnums=1), in_axes=(None, 0))
