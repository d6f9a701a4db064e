"""The launch angle of greatest distance, by a derivative through a native Python loop.

`distance_travelled` is ordinary Python: a `while` loop that steps a projectile over level ground
until it hits the ground, and interpolates the point of impact. Nothing in it knows of derivatives.
`scipy.optimize` gets value and slope from `ftrace.value_and_grad`. The exact answer for continuous
time is 45 degrees; with steps of 0.0001 s the simulated maximum lies at 44.997.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import ftrace


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


def flight(angle: float, dt: float = 0.0001, g: float = 9.8) -> tuple[np.ndarray, np.ndarray]:
    """The path (x, y) of one flight, for the picture."""
    steps = np.arange(int(2 * np.sin(angle) / (g * dt)) + 2)
    return steps * np.cos(angle) * dt, steps * np.sin(angle) * dt - g * dt**2 * steps * (
        steps - 1
    ) / 2
