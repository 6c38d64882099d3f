"""`python -m tilewright`: the same as `tune`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
