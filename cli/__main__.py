"""`python -m tilewright.cli`: the same as `tune`."""

from . import main

if __name__ == "__main__":
    raise SystemExit(main())
