"""Functions that import what asks while they run; nothing here has the names of that."""


def late(x):
    from tests.lifting.asked_late import Box

    return Box(x).kind * x


def later(x):
    from tests.lifting.asked_later import kind

    return kind(x) * x
