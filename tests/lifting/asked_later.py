"""A module that nothing imports but a function that is traced."""

from tests.lifting.asked import Box, kind

__all__ = ["Box", "kind"]
