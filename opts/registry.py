"""What an option is, and which there are.

An option is declared in one file of `options/`: an `Option` holds how it is written, what it does to a schedule, when
it is illegal, what a search may propose, its lines of docs/options.md and its golden cases. Everything else asks the
registry and knows no option by name: `Opt` and `apply`, the actions of a search, the translation to canonical names,
the command line, the documentation and the tests. docs/add-an-option.md adds one step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..targets import Target
from .builder import ScheduleBuilder
from .neighbourhood import Neighbourhood
from .nests import plain
from .opt import Opt, Opts
from .schedule import Scheduled
from .syntax import SYNTAX, Syntax


@dataclass(frozen=True, eq=False)
class Rewriting:
    """A kernel with options, of which `mine` rewrite it (all of one name; at least one). `apply` makes a schedule of a kernel."""

    kernel: Kernel
    opts: Opts
    mine: Opts
    target: Target
    apply: Callable[[Kernel, Opts, Target], Scheduled]

    def only(self, refusal: str) -> Opt:
        """The option that rewrites; OptError with `refusal` where there are several."""
        if len(self.mine) > 1:
            raise OptError(f"{self.mine[1]}: {refusal}")
        return self.mine[0]

    @property
    def others(self) -> Opts:
        """The options that are left for the kernels that come out."""
        return tuple(o for o in self.opts if all(o is not m for m in self.mine))

    def schedule(self, phases: tuple[Scheduled, ...], effects: frozenset[str]) -> Scheduled:
        """The schedule of the whole: of `phases` that run one after another (of one that has phases itself, of those)."""
        phases = tuple(p for s in phases for p in (s.phases or (s,)))
        whole = ScheduleBuilder(self.kernel, self.target)
        return Scheduled(
            self.kernel, self.opts, self.target, whole.plans, tuple(whole.order), plain(self.kernel), {}, {},
            effects=effects, phases=phases,
        )  # fmt: skip


@dataclass(frozen=True)
class Doc:
    """One line of a table of docs/options.md: how the option is written, and what it means. `groups`: it is in the
    table of targets with groups of threads, not in that of every device."""

    written: str
    meaning: str
    groups: bool = False


@dataclass(frozen=True)
class Golden:
    """A kernel, its shape and a list of options in JSON form, whose Program and source are kept in tests/golden."""

    kernel: str
    shape: Mapping[str, int]
    opts: Sequence[Any]


def never(o: Opt) -> bool:
    """False for every option."""
    return False


def always(o: Opt) -> bool:
    """True for every option."""
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class Option(Syntax):
    """One option: its syntax, and

    * `kind`: the kind of loop or statement it makes, which decides its colour (a `NestLine.kind`); `legend`: what its letter stands for;
    * `docs`: its lines of docs/options.md, `golden`: its golden cases by name;
    * `act`: what it does to the schedule under construction; OptError where it is illegal there. An option that makes
      another kernel instead has `rewrite`, which gives the whole schedule; it comes before all others, wherever it
      stands in the list. `order`: where all options of this name come among those that rewrite a kernel: the least first, and those of one number in the registry's order. `by_phase`: whether each phase that it makes has its own options, so that a search looks at each; `proposes_whole`: its own proposals are about the whole kernel all the same;
    * `finish`: what it adds once all options have acted and the nests are known; `check`: OptError where the finished
      schedule is illegal because of it. Both are called once for all options of this name, and only if there are any;
    * `propose`: what a search may append to a schedule, each a tuple of options (some may turn out illegal);
      `with_rows`: what every schedule of rows by default takes along;
    * `late`: whether it belongs to the last phase of a kernel that became several, of which these are the outputs; `outlives_call`: whether what it makes is kept from call to call; `flushes`: whether it takes
      subnormal numbers for zero; `cuts`: whether its amount is the size of the blocks into which it cuts its axis;
      `copies`: whether it is a number of elements of its axis in registers;
      `stored`: whether it is about a buffer that is stored to, and means no phase that only reads it;
      `regroups`: whether factors meet in another order, so that a product may overflow, or not, where the kernel's own
      order does otherwise."""

    kind: str
    docs: tuple[Doc, ...]
    legend: str = ""
    golden: Mapping[str, Golden] = field(default_factory=dict)
    act: Callable[[ScheduleBuilder, Opt], None] | None = None
    rewrite: Callable[[Rewriting], Scheduled] | None = None
    order: Callable[[Kernel, Opts], int] = lambda kernel, mine: 1
    by_phase: Callable[[Kernel, Opt], bool] = lambda kernel, o: False
    proposes_whole: bool = False
    finish: Callable[[Scheduled, ScheduleBuilder], Scheduled] | None = None
    check: Callable[[Scheduled], None] | None = None
    propose: Callable[[Neighbourhood], Iterable[Opts]] | None = None
    with_rows: Callable[[Kernel, Target], Opts] | None = None
    late: Callable[[Opt, Set[str]], bool] = lambda o, outputs: False
    outlives_call: Callable[[Opt], bool] = never
    flushes: Callable[[Opt], bool] = never
    cuts: bool = False
    copies: bool = False
    stored: Callable[[Opt], bool] = never
    regroups: Callable[[Opt], bool] = never


OPTIONS: dict[str, Option] = {}
"""Every option by name, in the order in which `options/__init__.py` lists them."""


def register(option: Option) -> None:
    """Make an option known. ValueError where its name or its letter is taken, it neither acts nor rewrites, or its
    short form leaves a field out."""
    taken = next((o for o in OPTIONS.values() if o.name == option.name or o.letter == option.letter), None)
    if taken is not None:
        raise ValueError(f"{option.name} ({option.letter}) is taken: {taken.name} is written {taken.letter}")
    if (option.act is None) == (option.rewrite is None):
        raise ValueError(f"{option.name} must either act on the schedule or rewrite the kernel")
    if isinstance(option.arg, Mapping) and {f for _, f in option.short} != set(option.arg):
        raise ValueError(f"the short form of {option.name} must have every field once: {', '.join(option.arg)}")
    OPTIONS[option.name] = SYNTAX[option.name] = option


@contextmanager
def registered(option: Option) -> Iterator[Option]:
    """Know `option` for as long as the block runs: for tests and experiments."""
    register(option)
    try:
        yield option
    finally:
        del OPTIONS[option.name], SYNTAX[option.name]


def used(opts: Opts) -> list[Option]:
    """The options of a list, each once, in the registry's order."""
    names = {o.op for o in opts}
    return [x for x in OPTIONS.values() if x.name in names]


def order(option: Option, kernel: Kernel, opts: Opts) -> int:
    """The place of an option among those that rewrite a kernel."""
    return option.order(kernel, tuple(o for o in opts if o.op == option.name))


def check_workspace(r: Rewriting) -> None:
    """Raise OptError where an option keeps something from call to call: what waits between phases is made anew by each."""
    kept = next((x for x in r.opts if OPTIONS[x.op].outlives_call(x)), None)
    if kept is not None:
        raise OptError(f"{kept}: the workspace between the phases of {r.mine[0]} is made anew by each call; use one of them")


def act(b: ScheduleBuilder, opts: Opts) -> None:
    """Apply options in turn; OptError where one is illegal."""
    for o in opts:
        does = OPTIONS[o.op].act
        if does is None:
            raise OptError(f"{o}: it rewrites the whole kernel, and has no place in a part of one")
        does(b, o)
        b.applied.append(o)
