"""What the grammars of commands share: the parser, with a kernel in its own place, spellings of older versions, and
`--json` beside `--format json`; and arguments that several commands take."""

from __future__ import annotations

import sys
import textwrap
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

from ..terminal.sanitised import wrapped

KERNEL = (
    "a named kernel (`tune kernels`), or my.py:function, which returns a Kernel or is a function of tensors "
    "(my.py:function#2 is the second kernel of one); NAME:constant=b: input b never changes and may be packed once"
)
DTYPES = "float32, float16, bfloat16, float64, int8, fp8, float8_e5m2 (what the kernel takes)"
OPTS = "in short form ('Um8 Un32 Pn'), as JSON, or a word: start (the schedule without tuning), best (the cache's answer)"


class HelpLayout(RawDescriptionHelpFormatter):
    """Paragraphs are wrapped to the terminal's width; those that are indented stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = []
        for part in text.strip("\n").split("\n\n"):
            whole = part.startswith(" ") or "\n " in part
            parts.append(part if whole else textwrap.fill(" ".join(part.split()), width, break_long_words=False, break_on_hyphens=False))
        return "\n\n".join(textwrap.indent(p, indent) for p in parts)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


class PathUse(NamedTuple):
    """What a command does with the files that an argument names. `reads`: also what a FILE.py:FUNCTION names; `writes`: makes or
    replaces; `updates`: reads, and adds to. `kind`: of `files.kinds`, for one that is written; picture: as its ending says."""

    does: Literal["reads", "writes", "updates"]
    kind: str = ""


MAY_BE_EMPTY = ("cache", "flags", "shapes")
"""Options whose empty value means something, or is refused elsewhere with more words."""
READS, UPDATES, JSON = PathUse("reads"), PathUse("updates"), PathUse("writes", "json")


class Grammar(ArgumentParser):
    """An ArgumentParser that settles, once a command's arguments are read, what has two spellings, and knows which arguments
    name files (`terminal.paths` looks at them before the command runs)."""

    def __init__(self, *args: Any, **given: Any) -> None:
        given.setdefault("formatter_class", HelpLayout)
        self.paths: dict[str, tuple[str, PathUse]] = {}
        super().__init__(*args, **given)
        self.either: tuple[str, ...] = ()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        found, rest = super().parse_known_args(args, namespace)
        if "_kernel" in vars(found):
            self._settle_kernel(found)
        if "_json" in vars(found):
            self._settle_json(found)
        if self.paths:
            found._paths = self.paths
        self._refuse_empty(found)
        return found, rest

    def _refuse_empty(self, found: Namespace) -> None:
        """An option that is given as '' is no way to leave it out."""
        for a in self._actions:
            written = a.dest in self.paths and self.paths[a.dest][1].does == "writes"  # `terminal.paths` says what an output lacks
            given = a.option_strings and a.default is None and getattr(found, a.dest, None) == ""
            if given and not written and a.dest not in MAY_BE_EMPTY:
                self.error(f"argument {a.option_strings[0]}: it is empty; leave it out for its default")

    def add_path(self, *flags: str, use: PathUse, **given: Any) -> None:
        """Add an argument that names a file, or several; with one that is written, --overwrite."""
        self.name_path(self.add_argument(*flags, **given), use)
        if use.does == "writes" and "--overwrite" not in self._option_string_actions:
            self.add_argument("--overwrite", action="store_true", help="replace a file of another kind that has an output's name")

    def name_path(self, action: Action, use: PathUse) -> None:
        """An argument that is there names files."""
        label = action.option_strings[0] if action.option_strings else str(action.metavar or action.dest)
        self.paths[action.dest] = (label, use)

    def error(self, message: str) -> NoReturn:
        """End with the usage and a sentence, wrapped between words where somebody reads it on a terminal."""
        self.print_usage(sys.stderr)
        self.exit(2, wrapped(f"{self.prog}: error: {message}") + "\n")

    def _settle_kernel(self, found: Namespace) -> None:
        """`tune run matmul` is `tune run --kernel matmul`."""
        named = vars(found).pop("_kernel")
        if named is not None and found.kernel is not None and named != found.kernel:
            self.error(f"two kernels are named, {named} and --kernel {found.kernel}: give one")
        found.kernel = found.kernel if named is None else named
        given = [name for name in self.either if getattr(found, name) is not None]
        if self.either and not given:
            also = "".join(f", or --{name}" for name in self.either if name != "kernel")
            self.error(f"the following arguments are required: KERNEL (or --kernel NAME){also}")
        if len(given) > 1:
            self.error(f"argument --{given[1]}: not allowed with argument KERNEL")

    def _settle_json(self, found: Namespace) -> None:
        """`--format json` is `--json -`."""
        if found.json is None and found.format == "json":
            found.json = "-"
        elif found.json is not None and found._json == "printed":
            if found.format not in ("json", self.get_default("format")):
                self.error(f"argument --json: not allowed with --format {found.format}")
            found.format = "json"


class Renamed(Action):
    """A spelling of an older version: read as `new`, with a hint. `fixed`: the value that it stands for."""

    def __init__(self, option_strings: Sequence[str], dest: str, new: str, fixed: str | None = None, **given: Any) -> None:
        super().__init__(option_strings, dest, nargs=0 if fixed is not None else None, help=SUPPRESS, **given)
        self.new, self.fixed = new, fixed

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None) -> None:
        value = values if self.fixed is None else self.fixed
        said = f"{option_string} is now {self.new}" + (f" {self.fixed}" if self.fixed else "")
        namespace.hints = [*getattr(namespace, "hints", ()), said]
        setattr(namespace, self.dest, value)


PORT = 65535
"""The last one."""


def at_least(least: int, most: int = (1 << 63) - 1) -> Callable[[str], int]:
    """The type of a whole number from `least` to `most`, of 64 bits."""
    which = f"of at least {least} (and of 64 bits)" if most >= 1 << 62 else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            value = int(text) if len(text) < 40 else least - 1
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise ArgumentTypeError(f"{text if len(text) < 40 else text[:36] + '...'!r} is not a whole number {which}")
        return value

    return parse


def add_kernel(p: Grammar, required: bool, either: tuple[str, ...] = ("kernel",), help: str = KERNEL) -> None:
    """The kernel, in its place or as --kernel. `either`: one of these arguments must be given, if one is `required`."""
    p.add_argument("_kernel", nargs="?", metavar="KERNEL", help=help)
    p.add_path("--kernel", use=READS, metavar="NAME", help="the same, by name")
    p.either = either if required else ()


def add_where(p: Grammar, device: str | None, every: bool = False) -> None:
    """The kernel's shape and type, where it runs, and the cache. `every`: threads default to every core."""
    p.add_argument("--shape", metavar="m=..,n=..", help="extents by name; those left out take their default; of tensors x=64x128,float32")
    p.add_argument("--dtype", help=DTYPES)
    p.add_argument("--device", default=device, help="where it runs (`tune devices`)" + (f"; default {device}" if device else ""))
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads used" + ("; default: every usable core" if every else ""))
    add_cache(p)


class Numerics(Action):
    """Fixed numerics are allowed alone: `allow` says so to whatever reads it."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None) -> None:
        namespace.numerics = values
        if values == "fixed":
            namespace.allow = [*(getattr(namespace, "allow", None) or ()), values]


def add_numerics(p: ArgumentParser) -> None:
    """--numerics."""
    p.add_argument(
        "--numerics",
        action=Numerics,
        choices=("free", "fixed"),
        default="free",
        help="fixed: results have the same bits under every schedule, number of threads, level of instructions and batch size; entries of "
        "their own in the cache (docs/numerics.md); default free",
    )


def add_allow(p: ArgumentParser) -> None:
    """--allow and --numerics."""
    add_numerics(p)
    p.add_argument(
        "--allow",
        action="append",
        metavar="EFFECT",
        help="allow what is refused otherwise: downconvert (matrix instructions may round float32 factors to tf32, or to 16 bits beside a "
        "16-bit factor; entries of their own in the cache)",
    )


def add_cache(p: Grammar) -> None:
    """--cache."""
    p.add_path(
        "--cache",
        use=UPDATES,
        metavar="PATH|URL",
        help="cache file or database URL; default: TILEWRIGHT_CACHE, else the user's data folder",
    )


def add_targets(p: ArgumentParser) -> None:
    """What picks entries of a manifest."""
    p.add_argument("--target", action="append", metavar="NAME", help="only the manifest's entries for this target; may be repeated")
    p.add_argument("--trust", action="store_true", help="run the Python files that the manifest names, wherever they are")


def add_output(p: Grammar, *formats: str, printed: bool = True) -> None:
    """`--json FILE`, and `--format` of these (the first is the default; json is one of them), which means the same.
    `printed`: the command prints what --format says, and whoever runs it puts that into the file."""
    p.add_path("--json", use=JSON, metavar="FILE", help="write the result as JSON (- is standard output, as --format json)")
    p.add_argument("--format", choices=formats, default=formats[0], help=f"what is printed; default {formats[0]}")
    p.set_defaults(_json="printed" if printed else "written")


def add_table(p: Grammar, *formats: str, printed: bool = True) -> None:
    """`add_output` of a listing."""
    add_output(p, *formats, printed=printed)
    p.add_argument("--wide", action="store_true", help="every column, however wide the terminal is")
    p.add_argument("--no-pager", action="store_true", help="print a long listing at once; PAGER= (empty) does so always")


def add_random(p: ArgumentParser, what: str, default: int | None = 0) -> None:
    """--random-seed."""
    p.add_argument("--random-seed", type=at_least(0), default=default, metavar="N", help=f"seed of the randomness of {what}; default 0")
    p.add_argument("--seed", action=Renamed, new="--random-seed", dest="random_seed", type=at_least(0), default=SUPPRESS)
