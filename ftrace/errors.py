"""The exceptions of ftrace; each class's docstring explains when it is raised and what to do."""

from ftrace.core.errors import AbsentNameError as AbsentNameError
from ftrace.core.errors import AxisError as AxisError
from ftrace.core.errors import BackendError as BackendError
from ftrace.core.errors import BudgetError as BudgetError
from ftrace.core.errors import CallbackError as CallbackError
from ftrace.core.errors import ConcretizationTypeError as ConcretizationTypeError
from ftrace.core.errors import ConfigError as ConfigError
from ftrace.core.errors import CustomRuleError as CustomRuleError
from ftrace.core.errors import DerivativeError as DerivativeError
from ftrace.core.errors import DeviceError as DeviceError
from ftrace.core.errors import DeviceMemoryError as DeviceMemoryError
from ftrace.core.errors import DomainError as DomainError
from ftrace.core.errors import DtypeError as DtypeError
from ftrace.core.errors import FreshnessWarning as FreshnessWarning
from ftrace.core.errors import FtraceError as FtraceError
from ftrace.core.errors import HostMemoryError as HostMemoryError
from ftrace.core.errors import JaxprError as JaxprError
from ftrace.core.errors import KernelError as KernelError
from ftrace.core.errors import LiftError as LiftError
from ftrace.core.errors import MatrixError as MatrixError
from ftrace.core.errors import MutationError as MutationError
from ftrace.core.errors import RangeError as RangeError
from ftrace.core.errors import RuleError as RuleError
from ftrace.core.errors import ShapeError as ShapeError
from ftrace.core.errors import SolverError as SolverError
from ftrace.core.errors import TracerArrayConversionError as TracerArrayConversionError
from ftrace.core.errors import TracerAttributeError as TracerAttributeError
from ftrace.core.errors import TracerBoolConversionError as TracerBoolConversionError
from ftrace.core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from ftrace.core.errors import TreeError as TreeError
from ftrace.core.errors import UnexpectedTracerError as UnexpectedTracerError
from ftrace.core.jax_names import refusing as _refusing

__getattr__ = _refusing("errors")
