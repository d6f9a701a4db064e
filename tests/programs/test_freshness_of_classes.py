"""Classes of the user's own numbers: what their operators read is watched, and found quickly."""

import sys

import numpy as np

import ftrace
from ftrace.control.freshness.calling import Calling

SCALE = 1.0


class Quaternion:
    """Each operator needs others, as in many classes of numbers."""

    def __init__(self, w, x, y, z):
        self.w, self.x, self.y, self.z = w, x, y, z

    def __add__(self, o):
        return Quaternion(self.w + o.w, self.x + o.x, self.y + o.y, self.z + o.z)

    def __sub__(self, o):
        return self + (-o)

    def __neg__(self):
        return self * -SCALE

    def __mul__(self, o):
        if isinstance(o, Quaternion):
            return Quaternion(
                self.w * o.w - self.x * o.x - self.y * o.y - self.z * o.z,
                self.w * o.x + self.x * o.w + self.y * o.z - self.z * o.y,
                self.w * o.y - self.x * o.z + self.y * o.w + self.z * o.x,
                self.w * o.z + self.x * o.y - self.y * o.x + self.z * o.w,
            )
        return Quaternion(self.w * o, self.x * o, self.y * o, self.z * o)

    __rmul__ = __mul__

    def __truediv__(self, o):
        return self * o.inverse() if isinstance(o, Quaternion) else self * (1.0 / o)

    def __pow__(self, n):
        found = self
        for _ in range(n - 1):
            found = found * self
        return found

    def __abs__(self):
        return self.norm() ** 0.5

    def __eq__(self, o):
        return (self - o).norm() == 0

    def __lt__(self, o):
        return abs(self) < abs(o)

    def __bool__(self):
        return abs(self) > 0

    def __getitem__(self, i):
        return (self.w, self.x, self.y, self.z)[i]

    def __len__(self):
        return 4

    def __iter__(self):
        return iter((self.w, self.x, self.y, self.z))

    def __matmul__(self, o):
        return sum(a * b for a, b in zip(self, o, strict=True))

    def conjugate(self):
        return Quaternion(self.w, -self.x, -self.y, -self.z)

    def inverse(self):
        return self.conjugate() / self.norm()

    def norm(self):
        return (self * self.conjugate()).w

    def rotate(self, v):
        return self * Quaternion(0.0, *v) * self.conjugate()


def rotated(x):
    q = Quaternion(*x)
    q = q / abs(q)
    p = q**2 + q / 2.0 - q
    return np.array(list(p.rotate(x[:3]))) * (q @ p)


def test_a_class_of_operators_that_need_each_other_is_read_quickly_and_watched(monkeypatch):
    calls = []
    plain = Calling._function
    monkeypatch.setattr(
        Calling, "_function", lambda self, *args: calls.append(1) or plain(self, *args)
    )
    j = ftrace.jit(rotated)
    x = np.array([1.0, 2.0, 3.0, 0.5])
    np.testing.assert_allclose(j(x), rotated(x))
    assert len(calls) < 50_000  # of 320,000 with each instance and each method by itself
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    np.testing.assert_allclose(j(x), rotated(x))
