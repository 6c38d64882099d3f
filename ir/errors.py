"""Every error Tilewright raises on purpose. The command line prints them without a traceback."""

from __future__ import annotations

from types import ModuleType


class TilewrightError(Exception):
    """Base of all errors that tell a user what to do."""


class KernelError(TilewrightError):
    """A kernel is malformed, unknown, or asked for with a bad shape or dtype."""


class DTypeError(KernelError, TypeError):
    """A type is unknown, or types have no common one."""


class OptError(TilewrightError):
    """An option is not legal here; the message says why."""


class BuildError(TilewrightError):
    """Source did not become loadable code."""


class MeasureError(TilewrightError):
    """A measurement could not be made (a failing candidate is an outcome, not an error)."""


class OutOfTimeError(MeasureError):
    """A budget of seconds was over before there was anything to answer."""


class VerifyError(TilewrightError):
    """A result disagrees with the reference beyond its error bound."""


class CacheError(TilewrightError):
    """The cache or a bundle cannot be read, written or understood."""


class CacheMiss(CacheError):
    """`--mode require` found nothing for a key."""


class DeviceError(TilewrightError):
    """A device is unknown, missing or unusable here."""


class FleetError(DeviceError):
    """The fleet cannot be reached, has no slot that fits, or lost one."""


class UsageError(TilewrightError, ValueError):
    """Bad arguments on the command line or in the Python API: also a ValueError, as Python and NumPy raise for them."""


class OutOfRangeError(UsageError, IndexError):
    """An index, a label or another number that picks an element lies outside of what it picks from."""


class SizeError(UsageError, TypeError):
    """What stands for a size, an axis or a count is no whole number: also the TypeError that Python and NumPy raise."""


class NumberRangeError(UsageError, OverflowError):
    """A Python number that an element type does not hold: also the OverflowError that NumPy raises."""


class NotANumberError(UsageError, ArithmeticError):
    """An operation made a NaN of numbers, while `debug.nans()` looked for that."""


class InternalError(TilewrightError):
    """Tilewright made something that it must never make: a fault to report, not one of a kernel, an option or a device."""


class NoFunction(ModuleType):
    """A folder that has the name of a function of others: a call of it says what does the same."""

    _here = ""

    def __call__(self, *_: object, **__: object) -> None:
        raise TypeError(f"{self.__name__} is a module and no function: here it is {self._here}")
