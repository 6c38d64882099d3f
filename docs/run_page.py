"""Run the blocks of Python of a page of the documentation, one after the other in one program.

python docs/run_page.py docs/pytorch.md"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main() -> None:
    """Run the page that the command line names."""
    for page in map(Path, sys.argv[1:]):
        names: dict[str, object] = {"__name__": "__main__"}
        for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S), 1):
            print(f"== block {number} of {page}")
            exec(compile(block, f"{page}, block {number}", "exec"), names)


if __name__ == "__main__":
    main()
