"""What `import tilewright` does where TILEWRIGHT_LOG is set."""

from __future__ import annotations

import os
import sys
import warnings

from .setup import BadSetting, from_environment


def begin() -> None:
    """Set logging up; a bad setting is a warning. The command `tune` makes an error of it and says so itself, once, and so do not the helper
    processes (both are run as modules: `-m`, or by that name)."""
    try:
        from_environment()
    except BadSetting as e:
        if os.path.basename((getattr(sys, "argv", None) or [""])[0]) not in ("tune", "-m"):
            warnings.warn(str(e), stacklevel=2)
