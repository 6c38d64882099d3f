"""Planted faults of the partition, the gradients and the capture: rules with one thing wrong, and the probes that find each.

A fault is an edit of the text of a function or method, which must be there exactly once, so that no fault is
silently none."""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from tilewright.tensor.fusion import call_list as made
from tilewright.tensor.graph import index_maps as maps
from tilewright.tensor.partition import heads
from tilewright.tensor.running import realise as run


@dataclass(frozen=True)
class Fault:
    """In `where` ("module:function" or "module:Class.method", of `tilewright.tensor`) the text `old` becomes `new`. `probes`: by name."""

    where: str
    old: str
    new: str
    probes: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)
    """What `new` needs beside its module's names: by name "module:name"."""
    also: tuple[tuple[str, str, str], ...] = ()
    """(where, old, new) of what must be wrong as well."""


def found(where: str) -> tuple[Any, str]:
    """(the module or class, the name in it)."""
    module, _, name = where.partition(":")
    owner: Any = importlib.import_module(f"tilewright.tensor.{module}")
    *classes, last = name.split(".")
    for c in classes:
        owner = getattr(owner, c)
    return owner, last


def plant(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    """Put a fault in. Raises AssertionError where the text is not there."""
    _edit(fault.where, fault.old, fault.new, fault.names, patch)
    for where, old, new in fault.also:
        _edit(where, old, new, {}, patch)


def _edit(where: str, old: str, new: str, names: dict[str, str], patch: pytest.MonkeyPatch) -> None:
    owner, name = found(where)
    static = inspect.getattr_static(owner, name)
    function = static.func if isinstance(static, cached_property) else inspect.unwrap(static)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{where} has {old!r} {text.count(old)} times: write the fault anew"
    code = compile(text.replace(old, new), f"<{where}>", "exec", flags=__future__.annotations.compiler_flag)
    scope = dict(function.__globals__)
    for called, there in names.items():
        module, last = found(there)
        scope[called] = getattr(module, last)
    exec(code, scope)
    made_of = scope[function.__name__]
    if isinstance(made_of, cached_property):
        made_of.__set_name__(owner, name)
    replace(owner, name, static, made_of, patch)


def replace(owner: Any, name: str, old: Any, new: Any, patch: pytest.MonkeyPatch) -> None:
    """Another function in the place of one, wherever modules have it by name, and in tables of rules."""
    patch.setattr(owner, name, new)
    if inspect.isclass(owner):
        return
    for module in [m for n, m in sys.modules.items() if n.startswith("tilewright.")]:
        for key, value in list(vars(module).items()):
            if value is old:
                patch.setattr(module, key, new)
            elif isinstance(value, dict) and key.isupper():
                for k, v in list(value.items()):
                    if v is old:
                        patch.setitem(value, k, new)


def forget() -> None:
    """What was remembered with or without a fault."""
    made._kept.clear()
    run._lists.clear()
    heads._VARIES.clear()
    maps.reshape.cache_clear()
    maps.broadcast.cache_clear()


PULL, REGIONS, TRANSPOSES = "fusion.pull:_Pull.", "partition.kernel_regions:Regions.", "gradients.transposes:"
UNPROVED = (("fusion.call_list:prove", "nodes, written = made.nodes, set(range(made.leaves))", "return"),)
PLACES, PROGRAM = "capture.memory_plan:_Places.", "capture.compiled_function:CompiledFunction."

PARTITION: dict[str, Fault] = {
    "parts are taken for the whole, and nothing is proved": Fault(
        "partition.loop_axes:whole", "i.arg.extent == extent(n)", "True", ("by sums of columns:first columns+last columns",), also=UNPROVED),
    "a store forgets the permutation behind it": Fault(f"{PULL}_store", "at = v.back(at)\n", "pass\n", ("batched product/transposed", "einsum/all", "product/transposed")),
    "a mask is no part of what varies": Fault(
        "graph.index_maps:IndexMap.along", "*(() if self.mask is None else (self.mask,))", "", ("product/one column", "softmax/first rows")),
    "lengths of axes are not compared": Fault(
        "partition.loop_axes:whole", "i.arg.extent == extent(n)", "True", ("by sums of columns:first columns+last columns", "norm:first rows+last rows")),
    "a padded element is read": Fault(f"{PULL}_view", "both = m if mask is None else mask if m is None else mask & m", "both = mask", ("product/padded",)),
    "a mask inside of a mask is lost": Fault(f"{PULL}_view", "mask & m", "mask", ("outer/joined",)),
    "what is masked is not 0": Fault(f"{PULL}_view", "O.where(m, e, const(0, e.dtype))", "e", ("windows/first rows",)),
    "outputs in the order of the graph": Fault(
        f"{PULL}pulled", "tuple(self.roots[n] for n in order))", "tuple(self.roots[n] for n in sorted(order, reverse=True)))",
        ("logsumexp:first rows+last rows", "results", "assigned in order", "layer_norm/all", "norm:all+sum of squares")),
    "a sum stops before its end": Fault("fusion.pull:_spread", 'axis(f"{name}_k{d}", n) if n', 'axis(f"{name}_k{d}", n - 1) if n', ("product/all",)),
    "a scatter keeps what leaves it": Fault(f"{PULL}_scatter", "mask = inside if mask is None else mask & inside", "pass", ("windows of gaps/all", "outside")),
    "a scan along the first dimension": Fault(f"{PULL}_scan", "Scan(combine, own[dim], body, acc)", "Scan(combine, own[0], body, acc)", ("cumsum/all",)),
    "an element is known whatever its mask is": Fault(f"{PULL}elem", "(id(t), at, mask, ", "(id(t), at, ", ("outer/joined",)),
    "an element is known wherever it is": Fault(f"{PULL}elem", "(id(t), at, mask, ", "(id(t), mask, ", ("masked softmax",)),
    "kernels of other numbers are one": Fault("fusion.call_list:_key", "_shown(n), n.shape", 'None if n.op == "const" else _shown(n), n.shape', ("alike",)),
    "kernels of other maps are one": Fault("fusion.call_list:_key", "_shown(n), n.shape", 'None if n.op in ("view", "reduce") else _shown(n), n.shape', ("alike",)),
    "lists of other numbers are one": Fault("fusion.call_list:key_of", "_shown(n), n.shape", 'None if n.op == "const" else _shown(n), n.shape', ("alike eager",)),
    "lists that read one array twice are others": Fault("fusion.call_list:key_of", '("leaf", place, ', '("leaf", 0, ', ("alike eager",)),
    "operands change places": Fault("fusion.call_list:_listed", "inputs, outputs = (tuple(place[_memory(n)] for n in ns) for ns in (read, written))",
        "inputs, outputs = (tuple(place[_memory(n)] for n in ns) for ns in (read[::-1], written))", ("gram/all", "alike", "product of a transpose/all", "quotients")),
    "kernels run backwards": Fault("partition.kernel_groups:_ordered", "    return done", "    return done[::-1]", ("network/all",)),
    "a kernel that joins another one stores nothing": Fault(
        "partition.kernel_groups:_join", "groups[b].roots += groups[a].roots", "pass", ("logsumexp:first rows+last rows", "norm:all+sum of squares", "statistics/all", "layer_norm/all", "attention/all")),
    "kernels wait for one another": Fault(f"{REGIONS}_before", "return True", "return False", ("circle",)),
    "results keep a kernel's type": Fault("partition.kernel_groups:kept_types", "and id(n) not in outputs", "", ("narrow",)),
    "parts of a dimension count one by one": Fault("partition.loop_axes:split_axes", "const(inner))", "const(n // inner))", ("groups",)),
    "a slice begins at 0": Fault("graph.index_maps:strided", "number(start)", "number(0)", ("product/last rows", "last rows>product")),
    "dimensions change places the other way": Fault("graph.index_maps:permute", "axes[list(order).index(d)]", "axes[order[d]]", ("conv of planes/all",)),
    "a composed map forgets a mask": Fault("graph.index_maps:compose", "mask & more", "mask", ("padded>conv", "conv/rolled", "conv_transpose/padded", "zero in a product")),
    "a mask's end is one too late": Fault("graph.index_maps:padded", "number(b + n)", "number(b + n + 1)", ("product/padded",)),
}  # fmt: skip

GRADIENTS: dict[str, Fault] = {
    "the last reader's gradient counts": Fault("gradients.reverse:Backward.give", "dy if known is None else known + dy", "dy", ("gram/all",)),
    "the first reader's gradient counts": Fault("gradients.reverse:Backward.give", "known + dy", "known", ("gram/all",)),
    "gradients pass where they are stopped": Fault("gradients.reverse:Backward.__init__", "and n.arg is not STOP", "", ("stopped",)),
    "a broadcast is not summed": Fault(f"{TRANSPOSES}transposed", "dy = summed(dy, unread)", "dy = without(dy, tuple(unread))", ("product/all", "share/all"), {"without": "gradients.transposes:without"}),
    "a stride leaves no gaps": Fault(f"{TRANSPOSES}_Solution._solve", "self._holds(ix.mod(value, k).eq(_ZERO))", "pass", ("product/strided",)),
    "a gradient from before the beginning": Fault(f"{TRANSPOSES}_Solution._solve", "self._holds(value >= 0)", "pass", ("product/last columns",)),
    "a gradient from behind the end": Fault(f"{TRANSPOSES}_Solution._solve", "self._holds(value < pivot.arg.extent)", "pass", ("product/first columns",)),
    "a selected place is everywhere": Fault(f"{TRANSPOSES}_Solution._solve", "self._holds(ix.add(index, place, -1).eq(_ZERO))", "pass", ("product/one column", "product/diagonal")),
    "steps go forwards only": Fault(f"{TRANSPOSES}_Solution._solve", "ix.mul(value, const(-1)), -k", "value, -k", ("softmax/flipped rows",)),
    "a padding's gradient comes from outside": Fault(f"{TRANSPOSES}_Solution.__init__", "self.conditions.append(substitute(mask, self.found))", "pass", ("product/broadcast padded",)),
    "a scattered gradient comes from outside": Fault(f"{TRANSPOSES}_scattered", 'elementwise("where", inside, dy, constant(0, dy.dtype, dy.shape))', "dy", ("windows of gaps/all",)),
    "how many were summed is lost": Fault(f"{TRANSPOSES}summed", "scale *= count", "pass", ("means", "share of all/all")),
    "factors leave a sum that they vary in": Fault(f"{TRANSPOSES}summed", "if varies(f) & changing:", "if False:", ("product/all",)),
    "a minus sign is lost": Fault(f"{TRANSPOSES}without_scale", "return y, -c", "return y, c", ("scaled differences",)),
    "what divides multiplies": Fault(f"{TRANSPOSES}summed", 'inside.append(f if op == "mul" else 1.0 / f)', "inside.append(f)", ("quotients", "share/all", "share of all/all", "rms/all")),
    "a mask that nobody needs is lost": Fault(f"{TRANSPOSES}_moved", "needs[0] = True", "pass", ("windows/transposed part",)),
    "a product's mask is lost": Fault(f"{TRANSPOSES}pushed", "placeholders, indices, by.mask)", "placeholders, indices)", ("windows/padded", "windows/rolled")),
    "a softmax's row is not subtracted": Fault("gradients.softmax:Softmax.gradient", "(dp - self._row(p, dp, found))", "dp", ("softmax/first columns",)),
    "a softmax's rows are all there": Fault("gradients.softmax:_keeps_rows", "return", "return True or", ("rows of a softmax", "diagonal of batches")),
    "a softmax's mask is lost": Fault("gradients.softmax:_softmax", "if cond is not None:", "if False:", ("masked softmax",)),
    "a softmax's maximum is lost": Fault("gradients.softmax:_softmax", "lse = without(m, dims) + lse", "pass", ("attention/all",)),
    "ties are counted one by one": Fault("gradients.rules:_reduce", 'dy / reduce("add", here, over)', "dy", ("ties",)),
    "a product lacks what comes behind": Fault("gradients.rules:_other_factors", "_exclusive(flat, last) * flipped(_exclusive(flipped(flat, last), last), last)", "_exclusive(flat, last)", ("product of rows/all",)),
    "a running sum's gradient runs forwards": Fault("gradients.rules:_suffixes", 'flipped(scan("add", flipped(x, dim), dim), dim)', 'scan("add", x, dim)', ("cumsum/all",)),
    "a running product has no zeros": Fault("gradients.rules:_products", "return choose(first, _suffixes(dy * without, dim), choose(zero, 0.0, usual))", "return usual", ("zero in a product",)),
    "places that are read twice count once": Fault("gradients.rules:gathered", 'Scattered("add", by.axes', 'Scattered("max", by.axes', ("embedding/all",)),
    "what a scatter dropped has a gradient": Fault("gradients.rules:scattered", "return out if inside is None else", "return out if True else", ("second derivative", "dropped")),
    "a sorted gradient stays in order": Fault("gradients.rules:_sort", 'scatter(dy, Scattered.along("add", n.shape, dim + len(n.shape)), (places,), n.shape)', "dy", ("sorted",)),
    "a checkpoint forgets what it reads from outside": Fault("gradients.checkpoint:again", "and id(s) in active}", "and False}", ("checkpoint",)),
    "a batch forgets a mask": Fault("gradients.batching:_lifted", "None if by.mask is None else moved(by.mask)", "None", ("batched",)),
    "a batch reads the first element's places": Fault("gradients.batching:_batched_indices", "((lifted.indices[0], *new) if lead else new)", "((const0(0), *new) if lead else new)", ("batched reads",), {"const0": "graph.symbolic_sizes:number"}),
}  # fmt: skip

CAPTURE: dict[str, Fault] = {
    "arrays change places": Fault("running.realise:detached", "Slot(len(leaves), range_of(n))", "Slot(max(0, 1 - len(leaves)), range_of(n))", ("one array twice",)),
    "a number that changed stays a constant": Fault("capture.capture:capture", "numbers[i] = number_at(tape, place)", "pass", ("numbers",)),
    "numbers are no part of what is called": Fault("capture.jit:_Family.key", "*(x for i, x in enumerate(found) if i not in self.dynamic)", "", ("numbers in turn",)),
    "a number's sign at 0 is lost": Fault("graph.captured_numbers:exact_number", "(type(x), x, copysign(1.0, x))", "(type(x), x)", ("zeros",)),
    "other settings are the same": Fault("capture.call_arguments:Static.__eq__", "return a is b or", "return True or", ("statics",), also=(("capture.call_arguments:Static.__hash__", "return hash(self.value)", "return 0"),)),
    "results change places": Fault("capture.capture:GraphOfCapture._source", "self.outs.append(n)", "self.outs.insert(0, n)", ("results",)),
    "an update is not written": Fault("capture.capture:GraphOfCapture._state", "self._source(new).place", "self._source(new).place * 0", ("assigned in order", "assigned")),
    "updates leave what was there": Fault(f"{PROGRAM}_updated", "self._update(s, tensors, given, fresh)", "pass", ("assigned", "assigned in order")),
    "the first update is lost": Fault(f"{PROGRAM}_updated", "for s in self.plan.states:\n        self._update", "for s in self.plan.states[1:]:\n        self._update", ("assigned in order",)),
    "a tensor is written before it is read": Fault(f"{PLACES}_over", "self.last.get(old, -1) > call", "False", ("read before it is written", "assigned in order")),
    "a result that is returned is written": Fault(f"{PLACES}_over", "if key in self.kept or key in self.taken:", "if False:", ("returned",)),
    "neighbours are read after they are written": Fault(f"{PLACES}_aliased", "return None\n    kernel", "return None\n    return call\n    kernel", ("neighbours",)),
    "all intermediate results share memory": Fault("capture.memory_plan:Lifetime.meets", "return ", "return False and ", ("steps",)),
    "memory is given back before it is read": Fault(f"{PLACES}_lifetime", "max(self.last[p], first)", "first", ("steps",)),
    "an operand's memory is its result's": Fault("capture.memory_plan:Lifetime.meets", "self.first <= other.last and other.first <= self.last", "self.first < other.last and other.first < self.last", ("turns",)),
    "a tensor from outside stays where it was": Fault("capture.call_sequence:_NativeSegment.patch", "if changed:", "if False:", ("moved outside",)),
    "a user's array is written": Fault(f"{PROGRAM}_owned", "if not old.seen:", "if True:", ("users memory",)),
    "one memory by two names": Fault(f"{PROGRAM}_unshare", "if last >= 0 and", "if False and", ("two names",)),
    "quick calls take any shape": Fault("capture.quick_calls:_ReaderText.written", 'key += [f"{look}.dtype", shape]', 'key += [f"{look}.dtype"]', ("shapes in turn",)),
    "quick calls take any structure": Fault("capture.quick_calls:_ReaderText.refuse", "self.lines.append", "(lambda line: None)", ("structures in turn",)),
    "other extents are the same": Fault("capture.quick_calls:_ReaderText._rest", 'return f"{shape}[1:]"', 'return "0"', ("sizes and shapes",)),
    "records of other numbers are one": Fault("capture.graph_records:_Writer.arg", 'return f"{type(x).__name__}:{x!r}"', "return type(x).__name__", ("warm",)),
    "a record forgets in what type arrays are": Fault("capture.graph_records:_node", "return cast(n, {t.name: t for t in (n.dtype, n.dtype.compute)}[dtype])", "return n", ("narrow",)),
    "a record swaps its kernels' operands": Fault("capture.graph_records:_decoded", "for ps in (inputs, outputs))", "for ps in (inputs[::-1], outputs))", ("warm",)),
    "arrays of all sizes are one": Fault("capture.call_sequence:SizedSpecs.fresh", "if values != before:", "if not before:", ("sized",)),
    "types are no part of what is called": Fault("capture.call_arguments:read", "kinds.append(memory(x).kind)", 'kinds.append(("tensor",))', ("kinds",)),
    "what was made inside is computed outside": Fault("running.current_capture:Capture.assign", "self.assigned.setdefault(id(tensor), self.shown.get(id(tensor)) or (tensor, tensor.node))", "self.assigned[id(tensor)] = (tensor, tensor.node)", ("assigned twice",)),
}  # fmt: skip

FAULTS = {**PARTITION, **GRADIENTS, **CAPTURE}
