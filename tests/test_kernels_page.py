"""The Python of docs/kernels.md runs as it stands, and its kernels are right."""

from __future__ import annotations

import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from checks import check_floats
from tilewright import targets
from tilewright.ir.kernel import Kernel

PAGE = (Path(__file__).resolve().parents[1] / "docs/kernels.md").read_text()


@pytest.mark.slow
def test_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for i, block in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)):
        exec(compile(block, f"kernels.md, block {i + 1}", "exec"), names)
    made = [f() for name, f in names.items() if f"def {name}(" in PAGE and isinstance(f, FunctionType)]  # (no operations)
    assert len(made) == 12 and all(isinstance(k, Kernel) for k in made)
    for kernel in made:
        check_floats(kernel, (), targets.named("avx2"))
