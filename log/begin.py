"""What `import tilewright` does where TILEWRIGHT_LOG is set."""

from __future__ import annotations

import os
import sys
import warnings

from .setup import BadSetting, from_environment


def begin() -> None:
    """Set logging up; a bad setting is a warning. Not so in the command `tune`, which makes an error of it, nor in its
    helper processes: both are known by the name that they are started by (`tune`, or a module's: `-m`)."""
    try:
        from_environment()
    except BadSetting as e:
        if os.path.basename((getattr(sys, "argv", None) or [""])[0]) not in ("tune", "-m"):
            warnings.warn(str(e), stacklevel=2)
