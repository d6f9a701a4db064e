"""The launch angle of greatest distance, by a derivative through a native Python loop.

`distance_travelled` is ordinary Python: a `while` loop that steps a projectile over level ground
until it hits the ground, and interpolates the point of impact. Nothing in it knows of derivatives.
`scipy.optimize` gets value and slope from `ftrace.value_and_grad`. The exact answer for continuous
time is 45 degrees; with steps of 0.0001 s the simulated maximum lies at 44.997.

`aim` is the compiled counterpart: Newton's method for the angle that hits a goal, its loop and the
flight's written as `lax.while_loop`, becomes one native program. `aim_by_hand` is the same in plain
Python, with the derivative written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin

import numpy as np
from scipy.optimize import minimize

import ftrace
from ftrace import lax

FIRST_ANGLE = 0.2
TOLERANCE = 1e-9  # metres from the goal


def distance_travelled(vx, vy, dt=0.0001, g=9.8):
    """Where a projectile with initial velocity (vx, vy) comes down, without air resistance."""
    x = y = 0.0
    while True:
        last_x, last_y = x, y
        x = x + vx * dt
        y = y + vy * dt
        if y < 0:
            return (x * last_y - last_x * y) / (last_y - y)
        vy = vy - g * dt


def distance_at(angle):
    """Distance for a launch at speed 1 under `angle` radians."""
    return distance_travelled(np.cos(angle), np.sin(angle))


distance_and_slope = ftrace.value_and_grad(distance_at)


@dataclass
class Launch:
    """The best launch found, and every angle that the optimiser tried (radians, metres)."""

    angle: float
    distance: float
    tried: list[tuple[float, float]]

    @property
    def degrees(self) -> float:
        """The angle in degrees."""
        return float(np.degrees(self.angle))


def best_launch(report=lambda: None) -> Launch:
    """Maximise the distance from a flat shot upwards; `report` is called at each evaluation.

    The tolerance is tight since the maximum is a kink: there the number of time steps changes by
    one, and the slope jumps from a small positive to a small negative number.
    """
    tried: list[tuple[float, float]] = []

    def negative(angle: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = distance_and_slope(angle[0])
        tried.append((float(angle[0]), float(value)))
        report()
        return -value, np.array([-slope])

    best = minimize(
        negative,
        x0=[0.0],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, np.pi / 2)],
        options={"ftol": 1e-10, "gtol": 1e-9},
    )
    return Launch(float(best.x[0]), -float(best.fun), tried)


def distance_in_a_traced_loop(angle, dt=0.0001, g=9.8):
    """`distance_at`, with a loop that `jit` can compile."""
    vx = np.cos(angle)
    ground = 0.0 * vx

    def flying(state):
        return state[1] >= 0.0

    def fly(state):
        x, y, vy, _, _ = state
        return x + vx * dt, y + vy * dt, vy - g * dt, x, y

    start = (ground, ground, np.sin(angle), ground, ground)
    x, y, _, last_x, last_y = lax.while_loop(flying, fly, start)
    return (x * last_y - last_x * y) / (last_y - y)


@ftrace.jit
def aim(goal):
    """The angle in radians of the flat shot that comes down at `goal` metres."""

    def shot(angle):
        return angle, *ftrace.jvp(distance_in_a_traced_loop, (angle,), (1.0,))

    def misses(state):
        return np.abs(state[1] - goal) > TOLERANCE

    def newton(state):
        angle, distance, slope = state
        return shot(angle + (goal - distance) / slope)

    return lax.while_loop(misses, newton, shot(FIRST_ANGLE + 0.0 * goal))[0]


def distance_and_slope_by_hand(angle: float, dt=0.0001, g=9.8) -> tuple[float, float]:
    """`distance_at` and its derivative, in Python floats, derived on paper."""
    vx, vy = cos(angle), sin(angle)
    dvx, dvy = -vy, vx
    x = y = dx = dy = 0.0
    while True:
        last_x, last_y, last_dx, last_dy = x, y, dx, dy
        x, dx = x + vx * dt, dx + dvx * dt
        y, dy = y + vy * dt, dy + dvy * dt
        if y < 0:
            break
        vy = vy - g * dt
    height = last_y - y
    distance = (x * last_y - last_x * y) / height
    change = dx * last_y + x * last_dy - last_dx * y - last_x * dy
    return distance, (change - distance * (last_dy - dy)) / height


def aim_by_hand(goal: float) -> float:
    """`aim` without ftrace."""
    angle = FIRST_ANGLE
    distance, slope = distance_and_slope_by_hand(angle)
    while abs(distance - goal) > TOLERANCE:
        angle += (goal - distance) / slope
        distance, slope = distance_and_slope_by_hand(angle)
    return angle


def flight(angle: float, dt: float = 0.0001, g: float = 9.8) -> tuple[np.ndarray, np.ndarray]:
    """The path (x, y) of one flight, for the picture."""
    steps = np.arange(int(2 * np.sin(angle) / (g * dt)) + 2)
    return steps * np.cos(angle) * dt, steps * np.sin(angle) * dt - g * dt**2 * steps * (
        steps - 1
    ) / 2
