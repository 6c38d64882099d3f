"""Writes the tables of options in docs/options.md from the declarations in opts/options/.

python scripts/option_tables.py [--check]     with --check: only say whether they are up to date"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.opts.written.tables import filled

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"


def main() -> int:
    """0 where the page is up to date or was written, 1 where --check finds that it is not."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the page is not up to date")
    old = PAGE.read_text()
    new = filled(old)
    if p.parse_args().check:
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
