"""REWRITE: another kernel that computes the same, by a named rule.

A rule is a function from a kernel to kernels (`opts.rewrites`). It changes what is computed where, and decides nothing about loops:
options that follow are for the kernels that come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Option, Rewriting
from ..rewrites.accumulate import ACCUMULATE
from ..rewrites.distribute import DISTRIBUTE
from ..rewrites.factor import FACTOR
from ..rewrites.hoist import HOIST
from ..rewrites.operands import OPERANDS
from ..rewrites.rule import RewriteRule
from ..rewrites.scatter import SCATTER
from ..schedule import Scheduled
from .phase import in_phases

RULES: Mapping[str, RewriteRule] = {rule.name: rule for rule in (SCATTER, FACTOR, DISTRIBUTE, OPERANDS, HOIST, ACCUMULATE)}
"""The rules by name, in the order in which they are applied."""


def rule_of(o: Opt) -> RewriteRule:
    """The rule of an option; OptError where there is none of its name, or it takes other fields."""
    rule, along = RULES.get(str(o.fields["rule"])), o.fields["along"]
    if rule is None:
        raise OptError(f"{o}: rule is one of {', '.join(RULES)}")
    if rule.along != bool(along):
        raise OptError(
            f"{o}: {rule.name} takes {'an axis along which lanes lie; write it as' if rule.along else 'no along:'} {rule.written}"
        )
    return rule


def rewrite(r: Rewriting) -> Scheduled:
    """What the first rule makes of all that it is to rewrite, and a phase for each kernel, or for each value that is new."""
    rule = min((rule_of(o) for o in r.mine), key=lambda x: list(RULES).index(x.name))
    r = replace(r, mine=tuple(o for o in r.mine if rule_of(o) is rule))
    if r.target.kind == "gpu" and rule.processors:
        raise OptError(f"{r.mine[0]}: {rule.processors}; {rule.name} is for processors, and not for {r.target.name}")
    twice = next((o for i, o in enumerate(r.mine) if any(x.on == o.on for x in r.mine[:i])), None)
    if twice is not None:
        raise OptError(f"{twice}: {twice.on} is rewritten by {rule.name} already")
    named = tuple((o.on, str(o.fields["along"])) for o in r.mine)
    kernels = rule.kernels(r.kernel, named)
    if len(kernels) > 1:
        out = in_phases(r, kernels)
    else:
        (kernel,) = kernels
        made = [name for name in kernel.values if name not in r.kernel.values] if rule.phased else []
        whole = r.apply(kernel, (*(opt("PHASE", name) for name in made), *r.others), r.target)
        out = r.schedule((whole,), whole.effects)
    return replace(out, effects=out.effects | {"REASSOC"}) if rule.reorders(r.kernel, named) else out


def order(kernel: Kernel, mine: Opts) -> int:
    """Scatters come first, for the phases that others make could not name the totals; accumulation comes after phases."""
    rules = {rule_of(o) for o in mine}
    return 0 if SCATTER in rules else 2 if rules == {ACCUMULATE} else 1


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """What each rule proposes."""
    for rule in RULES.values():
        if near.target.kind == "gpu" and rule.processors:
            continue
        taken = [o.on for o in near.schedule.opts if o.op == REWRITE.name and o.fields["rule"] == rule.name]
        for group in rule.proposals(near.kernel, taken):
            yield tuple(opt("REWRITE", on, rule=rule.name, **({"along": along} if along else {})) for on, along in group)


REWRITE = Option(
    name="REWRITE",
    letter="W",
    on="tensor",
    on_by=("rule", {rule.name: rule.on for rule in RULES.values()}),
    arg={"rule": str, "along": str},
    defaults={"along": ""},
    short=(("/", "rule"), (":", "along")),
    axis_fields=("along",),
    kind="grid",
    regroups=lambda o: rule_of(o).regroups,
    legend="rewritten",
    docs=tuple(Doc(rule.written, rule.meaning) for rule in RULES.values()),
    rewrite=rewrite,
    order=order,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)
