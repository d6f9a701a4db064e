"""Settings: `ftrace.config.update(name=value)` for a block, `set_default` for the process."""

from ftrace.core.config import Settings as Settings
from ftrace.core.config import config as current
from ftrace.core.config import refuse_assignments as _refuse_assignments
from ftrace.core.config import set_default as set_default
from ftrace.core.config import update as update

__all__ = ["Settings", "current", "set_default", "update"]

_refuse_assignments(__name__)
