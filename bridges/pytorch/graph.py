"""A graph of ATen operators becomes a list of steps: our compiled functions, and nodes that PyTorch computes itself."""

from __future__ import annotations

import operator as python_operator
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx as fx
from torch._C._dynamo.guards import _empty_strided_cpu
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from ...ir.errors import CacheError, CacheMiss, DeviceError
from ...ir.node import Node
from ...log import logger
from ...tensor import Tensor
from ...tensor.capture.addressed import AddressedFunction, GraphRecorder
from ...tensor.capture.jit_options import JitOptions
from .dtypes import name_of
from .layout import ArrayLayout, layout_of, row_major_layout
from .operators import OPERATORS
from .sizes import GraphSizes, NoSymbol, sized

log = logger("torch")
UPDATE = torch.ops.aten.copy_.default
"""What writes an argument's new values at the end of a graph."""
FIRST = -1
"""The level of numbers that depend on arguments alone."""
SHOWN = "shown"
"""What the `meta` of a node says that PyTorch makes for the graph's caller (`show_views`)."""
CALLS = ("call_function", "call_method", "call_module")


@dataclass(frozen=True)
class Fallback:
    """A node that PyTorch computed, and why. `line`: the user's, where PyTorch knows it."""

    target: str
    reason: str
    line: str


@dataclass
class GraphStep:
    """`function` with the arrays of `inputs`, each in the layout that it was compiled for, makes those of `outputs` and updates those
    of `updates`, which nodes of `aliases` stand for as well. Or (`function` is None) PyTorch computes `nodes`."""

    nodes: list[fx.Node]
    function: AddressedFunction | None = None
    inputs: list[tuple[fx.Node, ArrayLayout]] = field(default_factory=list)
    outputs: list[tuple[fx.Node, ArrayLayout]] = field(default_factory=list)
    updates: list[fx.Node] = field(default_factory=list)
    aliases: list[tuple[fx.Node, fx.Node]] = field(default_factory=list)
    dead: list[fx.Node] = field(default_factory=list)


@dataclass
class GraphProgram:
    """What one graph became for given sizes, or for all that its symbols (`sizes`) can be."""

    steps: list[GraphStep]
    fallbacks: list[Fallback]
    nodes: int
    sizes: GraphSizes | None = None


@dataclass
class CompiledGraph:
    """A graph of PyTorch's and what it became, by the sizes that it was called with, or the ranges of its symbols. `why`: of a graph with
    symbolic sizes that is compiled for each set of sizes."""

    name: str
    kind: str
    programs: dict[str, GraphProgram] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class ExpectedTensor:
    """What PyTorch says that a node makes, as operators see it."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def compile_graph(module: fx.GraphModule, name: str, options: JitOptions, sizes: GraphSizes | None = None) -> GraphProgram:
    """Compile a functional graph whose nodes know the tensors that they make (`meta["val"]`), with whole numbers or the symbols of `sizes`
    for sizes. Raises NoSymbol where a symbol keeps an operator of ours, or a kernel, from being made."""
    return _Compiler(module, name, options, sizes).program()


def left_to_pytorch(module: fx.GraphModule, reason: str) -> GraphProgram:
    """A graph that PyTorch computes as a whole."""
    nodes = [n for n in module.graph.nodes if n.op in CALLS]
    return GraphProgram([GraphStep(nodes)], [Fallback(str(n.target), reason, line_of(n)) for n in nodes], len(nodes))


class _Compiler:
    """`level`: even where a node is ours, odd where it is PyTorch's. A node's level is at least those of its sources, so that all
    nodes of a level can run as one step, in the order of levels. Numbers that PyTorch computes of arguments come before everything else."""

    def __init__(self, module: fx.GraphModule, name: str, options: JitOptions, sizes: GraphSizes | None) -> None:
        self.module, self.name, self.options, self.sizes = module, name, options, sizes
        self.recorder = GraphRecorder(name, options, [] if sizes is None else sizes.vars.values())
        self.numbers: set[fx.Node] = set()
        self.made: dict[fx.Node, Any] = {}
        self.level: dict[fx.Node, int] = {}
        self.slots: dict[fx.Node, tuple[Tensor, ArrayLayout]] = {}
        self.views: dict[fx.Node, Tensor] = {}
        self.fallbacks: list[Fallback] = []
        self.updates: list[tuple[fx.Node, fx.Node]] = []
        self.random = 1

    def program(self) -> GraphProgram:
        changed = next((n for n in self.module.graph.nodes if n.op in CALLS and n.target is not UPDATE and changes_operands(n)), None)
        with self.recorder.recording():
            for node in self.module.graph.nodes:
                if node.op in ("placeholder", "get_attr"):
                    self.level[node] = 0
                elif node.op in CALLS and changed is not None:
                    self._leave(node, f"{changed.target} changes an array in place, which other nodes may see")
                elif node.op in CALLS and node.target is not UPDATE:
                    self._add(node)
            if changed is None:
                self._add_updates()
            steps = self._steps()
        self._deaths(steps)
        return GraphProgram(steps, self.fallbacks, sum(n.op in CALLS for n in self.module.graph.nodes), self.sizes)

    # one node -------------------------------------------------------------------------------------------------------
    def _add(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if not any(isinstance(v, torch.Tensor) for v in tree_leaves(value)):
            first = all(a.op == "placeholder" or self.level[a] == FIRST for a in node.all_input_nodes)
            self.level[node] = FIRST if first else self._after(node, 1)  # numbers are PyTorch's
            self.numbers.add(node)
            return
        if SHOWN in node.meta:
            self.level[node] = self._after(node, 1)
            return
        if node.target is python_operator.getitem and self.level[node.args[0]] % 2 == 0:
            self.level[node] = self.level[node.args[0]]
            self.made[node] = self.made[node.args[0]][node.args[1]]
            return
        level = self._after(node, 0)
        try:
            self.made[node] = self._computed(node, level)
            self.level[node] = level
        except Exception as e:  # whatever an operator of ours runs into, PyTorch has an answer
            if self.sizes is not None and not isinstance(e, NotImplementedError):
                raise NoSymbol(f"{node.target}: {e}") from e
            reason = str(e)
            if not isinstance(e, NotImplementedError):
                reason = f"{type(e).__name__}: {e}"
                warnings.warn(f"PyTorch computes {node.target} ({line_of(node)}), since Tilewright failed to: {reason}", stacklevel=2)
            log.debug("%s: PyTorch computes %s: %s", self.name, node.target, "".join(traceback.format_exception(e)))
            self._leave(node, reason)

    def _leave(self, node: fx.Node, reason: str) -> None:
        level = self._after(node, 1)
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):  # random numbers are drawn in their order
            level = self.random = max(level, self.random)
        self.level[node] = level
        if node.target is not python_operator.getitem:
            self.fallbacks.append(Fallback(str(node.target), reason, line_of(node)))

    def _after(self, node: fx.Node, parity: int) -> int:
        """The least level of this parity that is not before the node's sources."""
        low = max((self.level[a] for a in node.all_input_nodes), default=0)
        return low if low % 2 == parity else low + 1

    def _add_updates(self) -> None:
        """The nodes that give arguments new values: by the step that makes the values, or by PyTorch when all else is done."""
        every = [n for n in self.module.graph.nodes if n.op in CALLS and n.target is UPDATE]
        late = [n for n in every if not self._update(n)]
        last = max(self.level.values(), default=0)
        for node in late:
            self.level[node] = last + 1 + last % 2
            self.fallbacks.append(Fallback(str(node.target), "an argument that is read otherwise, or lies with gaps", line_of(node)))

    def _update(self, node: fx.Node) -> bool:
        """Whether an argument's new values can be written by the step that makes them: nobody reads the old ones after it, and PyTorch has
        made no view of them."""
        target, source = node.args[0], node.args[1]
        if not isinstance(target, fx.Node) or target.op != "placeholder" or not isinstance(source, fx.Node) or source not in self.made:
            return False
        level = self._after(node, 0)
        old, new = self._expected(target.meta["val"]), self._expected(source.meta["val"])
        others = [u for u in target.users if u is not node and u.op != "output" and SHOWN not in u.meta]
        if any(u.target is UPDATE or self.level[u] > level or self.level[u] % 2 for u in others):
            return False
        if self.level[source] != level or self._layout(target, writable=True) is None or old.dtype != new.dtype or old.shape != new.shape:
            return False
        self.level[node] = level
        self.updates.append((target, source))
        self.made[node] = self.made[source]
        return True

    def _computed(self, node: fx.Node, level: int) -> Any:
        function = OPERATORS.get(node.target)
        if function is None:
            raise NotImplementedError("no such operator here")
        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda a: self._operand(a, level))
        value = self._expected(node.meta["val"])
        return self._checked(node, function(value, *args, **kwargs), value)

    def _expected(self, value: Any) -> Any:
        """What a node makes, without data. Raises NotImplementedError where data decides a size."""
        if isinstance(value, (tuple, list)):
            return tuple(map(self._expected, value))
        return ExpectedTensor(self._sizes(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value

    def _sizes(self, shape: Sequence[Any]) -> tuple[int, ...]:
        if self.sizes is not None:
            return tuple(map(self.sizes.size, shape))
        if any(isinstance(n, torch.SymInt) for n in shape):
            raise NotImplementedError("a size that data decides")
        return tuple(shape)

    def _checked(self, node: fx.Node, made: Any, value: Any) -> Any:
        """What an operator made, in the type that PyTorch gives it. Raises NotImplementedError where the shape is another."""
        if isinstance(value, tuple):
            return tuple(self._checked(node, m, v) for m, v in zip(made, value, strict=True))
        if not isinstance(value, ExpectedTensor) or not isinstance(made, Tensor):
            return made
        if tuple(made.shape) != value.shape:
            text = f"the result has shape {list(made.shape)}, not {list(value.shape)}"
            raise NotImplementedError(text) if self.sizes is None else NoSymbol(f"{node.target}: {text}")
        return made if made.dtype.name == name_of(value.dtype) else made.astype(name_of(value.dtype))

    def _operand(self, node: fx.Node, level: int) -> Any:
        """A source of a node of ours: an expression of the same level, or an argument of the step."""
        if self.level[node] == level and node in self.made:
            return self.made[node]
        value = node.meta.get("val")
        if node.op == "get_attr" and value is None:
            value = node.meta["val"] = getattr(self.module, str(node.target))
        if isinstance(value, torch.Tensor):
            return self._argument(node, value)
        if isinstance(value, (int, float, bool)):
            return value
        if isinstance(value, torch.SymInt):
            return self._sizes((value,))[0]
        if isinstance(value, torch.SymFloat) and self.sizes is not None:
            return self.sizes.number(value)
        raise NotImplementedError(f"an operand that is a {type(value).__name__}")

    def _argument(self, node: fx.Node, value: torch.Tensor) -> Tensor:
        if node not in self.slots:
            if value.layout is not torch.strided or value.device.type != "cpu":
                raise NotImplementedError(f"an array on {value.device} with layout {value.layout}")
            layout = self._layout(node) or self._row_major(value)
            self.slots[node] = (self.recorder.slot(layout.stored, name_of(value.dtype)), layout)
            self.views[node] = layout.view(self.slots[node][0])
        return self.views[node]

    def _row_major(self, value: torch.Tensor) -> ArrayLayout:
        shape = self._sizes(value.shape)
        return (
            row_major_layout(shape, value.dtype)
            if self.sizes is None
            else ArrayLayout(shape, (), tuple(range(len(shape))), shape, value.dtype)
        )

    def _layout(self, node: fx.Node, writable: bool = False) -> ArrayLayout | None:
        """How a node's array lies, as far as PyTorch says. With symbols: as it does at this call."""
        value: torch.Tensor = node.meta["val"]
        shape = self._sizes(value.shape)
        if self.sizes is None:
            return layout_of(shape, tuple(value.stride()), value.dtype, writable)
        now = tuple(map(self.sizes.value, value.shape))
        found = layout_of(now, tuple(map(self.sizes.value, value.stride())), value.dtype, writable)
        if found is None:
            return None
        stored = tuple(1 if n == 1 and now[a] != 1 else shape[a] for a, n in zip(found.order, found.stored, strict=True))
        return ArrayLayout(shape, found.strides, found.order, stored, value.dtype)

    # steps ----------------------------------------------------------------------------------------------------------
    def _steps(self) -> list[GraphStep]:
        by_level: dict[int, list[fx.Node]] = defaultdict(list)
        idle = self._idle()
        for node in self.module.graph.nodes:
            if node.op in CALLS and node not in idle:
                by_level[self.level[node]].append(node)
        return [self._built(by_level[n]) if n % 2 == 0 else GraphStep(by_level[n]) for n in sorted(by_level)]

    def _idle(self) -> set[fx.Node]:
        """Numbers that nobody asks for when the graph runs: ours know them already."""
        askers = [n for n in self.module.graph.nodes if n.op == "output" or (n.op in CALLS and self.level[n] % 2 and n not in self.numbers)]
        todo = [a for n in askers for a in n.all_input_nodes] + [n for n in self.numbers if n.is_impure()]
        needed: set[fx.Node] = set()
        while todo:
            node = todo.pop()
            if node not in needed:
                needed.add(node)
                todo += node.all_input_nodes
        return self.numbers - needed

    def _built(self, nodes: list[fx.Node]) -> GraphStep:
        """Our step for these nodes; PyTorch's where it cannot be built, which is a fault of ours, and said once. What the user has to know,
        such as a schedule that `tune="require"` misses, is raised."""
        try:
            return self._ours(nodes)
        except (CacheError, CacheMiss, DeviceError):
            raise
        except Exception as e:
            if self.sizes is not None:
                raise NoSymbol(str(e)) from e
            if not isinstance(e, NotImplementedError):
                warnings.warn(f"{self.name}: PyTorch computes {len(nodes)} nodes, since Tilewright failed to build them: {e}", stacklevel=2)
                log.debug("%s: %s", self.name, "".join(traceback.format_exception(e)))
            self.fallbacks += [Fallback(str(n.target), f"{type(e).__name__}: {e}", line_of(n)) for n in nodes if n.target is not UPDATE]
            return GraphStep(nodes)

    def _ours(self, nodes: list[fx.Node]) -> GraphStep:
        inside = set(nodes)
        outs = [n for n in nodes if isinstance(self.made[n], Tensor) and n.target is not UPDATE and any(u not in inside for u in n.users)]
        updates = [(old, new) for old, new in self.updates if new in inside]
        read = {a for n in nodes for a in n.all_input_nodes if a not in inside}
        read |= {old for old, _ in updates}
        for old, _ in updates:
            self._argument(old, old.meta["val"])
        if not outs and not updates:
            return GraphStep(nodes)
        inputs = [(n, *self.slots[n]) for n in self.module.graph.nodes if n in read and n in self.slots]
        layouts = [self._output(n) for n in outs]
        function = self.recorder.compile(
            [slot for _, slot, _ in inputs],
            [layout.store(self.made[n]) for n, layout in zip(outs, layouts, strict=True)],
            [(self.slots[old][0], self.slots[old][1].store(self.made[new])) for old, new in updates],
        )
        places = {n: i for i, (n, _, _) in enumerate(inputs)}
        ordered = sorted((old for old, _ in updates), key=places.__getitem__)
        aliases = [(n, n.args[0]) for n in nodes if n.target is UPDATE]
        taken = [(n, layout) for n, _, layout in inputs]
        return GraphStep(nodes, function, taken, list(zip(outs, layouts, strict=True)), ordered, aliases)

    def _output(self, node: fx.Node) -> ArrayLayout:
        value: torch.Tensor = node.meta["val"]
        found = self._layout(node)
        if found is not None and self.sizes is not None:
            step: Any = 1
            for a, n in zip(reversed(found.order), reversed(found.stored), strict=True):
                if n != 1 and self.sizes.size(value.stride(a)) != step:
                    raise NoSymbol(f"{node.target}: strides that are {value.stride()}")
                step = n * step
        return found or self._row_major(value)

    def _deaths(self, steps: Sequence[GraphStep]) -> None:
        """Which arrays nobody needs after a step."""
        kept = {n for o in self.module.graph.nodes if o.op == "output" for n in o.all_input_nodes}
        last: dict[fx.Node, int] = {}
        for i, step in enumerate(steps):
            for node in [*(a for n in step.nodes for a in n.all_input_nodes), *step.nodes]:
                last[node] = i
        for node, i in last.items():
            if node.op in (*CALLS, "placeholder") and node not in kept:
                steps[i].dead.append(node)


def changes_operands(node: fx.Node) -> bool:
    """Whether a node writes to one of its operands. (AOTAutograd's graphs have no such nodes but those that update arguments at the end.)"""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def line_of(node: fx.Node) -> str:
    """The user's line that made a node: its last line of the stack that PyTorch kept."""
    lines = [x.strip() for x in (node.meta.get("stack_trace") or "").splitlines() if x.strip().startswith("File")]
    return lines[-1].removeprefix("File ").rpartition(", in ")[0].replace('"', "").replace(", line ", ":") if lines else ""


def runner(module: fx.GraphModule, program: GraphProgram, values: Sequence[int] = ()) -> Callable[[list[Any]], list[Any]]:
    """What runs a program with these values of its symbols: a function of a list of arguments, which it empties. Raises UsageError for
    values that it is no program of."""
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    known: dict[Any, Any] = {n: getattr(module, str(n.target)) for n in module.graph.nodes if n.op == "get_attr"}
    result = next(n for n in module.graph.nodes if n.op == "output").args[0]
    leaves = list(result) if isinstance(result, (tuple, list)) else [result]
    place = {n: i for i, n in enumerate(dict.fromkeys([*inputs, *known, *(n for n in module.graph.nodes if n.op in CALLS)]))}
    constants = [known.get(n) for n in place][len(inputs) :]
    outs = [place[x] if isinstance(x, fx.Node) else len(place) + i for i, x in enumerate(leaves)]
    constants += [None if isinstance(x, fx.Node) else x for x in leaves]
    known_sizes = {} if program.sizes is None else program.sizes.named(values)
    run_steps = [_bound(step, place, known_sizes) for step in program.steps]
    shown = [i for i, x in enumerate(leaves) if isinstance(x, fx.Node) and SHOWN in x.meta]

    def run(arguments: list[Any]) -> list[Any]:
        if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(a).tangent is not None for a in arguments if torch.is_tensor(a)):
            return list(fx.Interpreter(module).run(*arguments))  # the tangents are PyTorch's, who computes them node by node
        values = [*arguments, *constants]
        arguments.clear()
        for step in run_steps:
            step(values)
        found = [values[i] for i in outs]
        for i in shown:
            found[i] = found[i].detach()  # (AOTAutograd would make the view of a view that knows its base by autograd's rules)
        return found

    return run


def _bound(step: GraphStep, place: Mapping[fx.Node, int], sizes: Mapping[Node, int]) -> Callable[[list[Any]], None]:
    """A step that finds the value of each node at its place in a list, and puts it there. `sizes`: values of symbols."""
    dead = [place[n] for n in step.dead]
    if step.function is None:
        return _by_pytorch(step.nodes, dead, place)
    if sizes:
        at_sizes = sized(sizes)
        step = replace(
            step, inputs=[(n, at_sizes(layout)) for n, layout in step.inputs], outputs=[(n, at_sizes(layout)) for n, layout in step.outputs]
        )
    assert step.function is not None
    call, results, values_of_symbols = step.function.run, step.function.results, step.function.sizes(sizes)
    fresh_at = [p.at for p in results if p.kind == "fresh"]
    by_fresh: dict[int, ArrayLayout] = {}
    for (_, layout), spot in zip(step.outputs, results, strict=True):
        if spot.kind == "fresh":
            by_fresh.setdefault(spot.at, layout)
    given = dict(step.inputs)
    spare = {p.at: node for node, p in zip(step.updates, step.function.updates, strict=True) if p.kind == "fresh"}
    layouts = [by_fresh.get(i) or given[spare[i]] for i in range(step.function.fresh)]
    new = [(layout.shape, layout.strides, layout.dtype) for layout in layouts]
    plain = [(place[node], spot.at) for (node, _), spot in zip(step.outputs, results, strict=True)]
    shared = len(fresh_at) != len(set(fresh_at)) or len(fresh_at) < len(results)
    inputs = [(place[node], layout.strides, layout) for node, layout in step.inputs]
    aliases = [(place[node], place[old]) for node, old in step.aliases]
    copied = [(place[node], i, given[node]) for i, node in spare.items()]
    written = [(place[node], p.at) for node, p in zip(step.updates, step.function.updates, strict=True) if p.kind == "given"]

    def run(values: list[Any]) -> None:
        arrays = [a if (a := values[i]).stride() == strides and not a.is_neg() else _in_layout(a, to) for i, strides, to in inputs]
        fresh = [_empty_strided_cpu(*how) for how in new]
        addresses = [a.data_ptr() for a in arrays]
        if 0 in addresses:
            arrays = [_with_memory(a) for a in arrays]
            addresses = [a.data_ptr() for a in arrays]
        call(addresses, [a.data_ptr() for a in fresh], values_of_symbols)
        if shared:
            _share(step, place, values, arrays, fresh)
        else:
            for i, at in plain:
                values[i] = fresh[at]
        for i, at, layout in copied:
            values[i].copy_(fresh[at].as_strided(layout.shape, layout.strides))
        for i, at in written:
            if arrays[at] is not values[i]:  # it did not lie as it did when the graph was compiled
                values[i].copy_(arrays[at])
        for i, old in aliases:
            values[i] = values[old]
        for i in dead:
            values[i] = None

    return run


def _share(step: GraphStep, place: Mapping[fx.Node, int], values: list[Any], arrays: list[torch.Tensor], fresh: list[torch.Tensor]) -> None:
    """Results of which several are one array, or an argument. Who may be changed apart from the others gets a copy."""
    assert step.function is not None
    changed = set(step.updates)
    taken: dict[int, fx.Node] = {}
    for (node, layout), spot in zip(step.outputs, step.function.results, strict=True):
        array = fresh[spot.at] if spot.kind == "fresh" else arrays[spot.at].detach()
        view = array if spot.kind == "fresh" and spot.at not in taken else array.as_strided(layout.shape, layout.strides)
        if spot.kind == "fresh":
            first = taken.setdefault(spot.at, node)
            apart = first is not node and origin(first) is not origin(node)
        else:
            given = step.inputs[spot.at][0]
            apart = given in changed or origin(node) is not origin(given)
        values[place[node]] = view.clone() if apart else view


def origin(node: fx.Node) -> fx.Node:
    """The node whose array this one is a view of, or itself: a copy, which the caller may change by itself, is its own."""
    return views_to(node)[-1]


def views_to(node: fx.Node) -> list[fx.Node]:
    """A node and what it is a view of, its origin last."""
    found = [node]
    while True:
        view = node.args[0] if node.target is python_operator.getitem else node  # (one of several views)
        if not isinstance(view, fx.Node) or not getattr(view.target, "is_view", False) or not isinstance(view.args[0], fx.Node):
            return found
        node = view.args[0]
        found += [node] if view is found[-1] else [view, node]


def show_views(module: fx.GraphModule, returned: int) -> None:
    """Have PyTorch make the views that a graph returns (its first so many results), where somebody would miss that they are views: of an
    argument, or an array that another result is of, and those whose place symbols decide, since AOTAutograd makes the user's view of an array lie
    as ours. A view of an argument's new values is one of the argument."""
    result = next(n for n in module.graph.nodes if n.op == "output")
    leaves = dict.fromkeys(n for n in tree_leaves(result.args)[:returned] if isinstance(n, fx.Node))
    chains = [views_to(n) for n in leaves]
    of = Counter(chain[-1] for chain in chains if chain[-1].op in CALLS)
    updated = {n.args[1]: n.args[0] for n in module.graph.nodes if n.target is UPDATE and same_array(n.args[0], n.args[1])}
    made: dict[fx.Node, fx.Node] = {}
    for *views, base in chains:
        if views and (base.op == "placeholder" or of[base] > 1 or any(len(v.all_input_nodes) > 1 for v in views)):
            with module.graph.inserting_before(result):
                for v in reversed(views):
                    made[v] = made.get(v) or module.graph.node_copy(v, lambda n: made.get(n) or updated.get(n, n))
                    made[v].meta[SHOWN] = True
    result.args = fx.node.map_arg(result.args, lambda n: made.get(n, n))


def same_array(a: Any, b: Any) -> bool:
    """Whether two nodes are arrays of one shape and type."""
    x, y = (n.meta.get("val") if isinstance(n, fx.Node) else None for n in (a, b))
    return isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.dtype == y.dtype and tuple(x.shape) == tuple(y.shape)


def _with_memory(array: torch.Tensor) -> torch.Tensor:
    """The array itself, or zeros for one that has no memory because all of it is zero, as tangents of forward differentiation are."""
    return torch.empty_strided(array.shape, array.stride(), dtype=array.dtype).zero_() if array._is_zerotensor() else array


def _in_layout(array: torch.Tensor, layout: ArrayLayout) -> torch.Tensor:
    """The array itself where it lies as it was when the graph was compiled, else a copy that does."""
    if array.is_neg():
        array = array.resolve_neg()
    if array.stride() == layout.strides or (layout.plain and array.is_contiguous()):
        return array
    if (
        tuple(array.shape) == layout.shape
        and (found := layout_of(layout.shape, array.stride(), array.dtype)) is not None
        and (found.order, found.stored) == (layout.order, layout.stored)
    ):
        return array
    if layout.plain:
        return array.contiguous()
    for a in (a for a, step in enumerate(layout.strides) if not step):  # one element is all of them: PyTorch said so
        array = array.narrow(a, 0, 1)
    return torch.empty_strided(array.shape, layout.strides, dtype=array.dtype).copy_(array).expand(layout.shape)


def _by_pytorch(nodes: Sequence[fx.Node], dead: Sequence[int], place: Mapping[fx.Node, int]) -> Callable[[list[Any]], None]:
    """A step that calls PyTorch's operators one by one."""
    calls = [_called(node, place) for node in nodes]

    def run(values: list[Any]) -> None:
        for call in calls:
            call(values)
        for i in dead:
            values[i] = None

    return run


def _called(node: fx.Node, place: Mapping[fx.Node, int]) -> Callable[[list[Any]], None]:
    """A node's call, which puts its result at its place. Nodes in lists and keywords are looked for at each call only where there are some."""
    at, target, kwargs = place[node], node.target, dict(node.kwargs)
    assert callable(target)
    spots = [(place[a], None) if isinstance(a, fx.Node) else (None, a) for a in node.args]
    inner: list[fx.Node] = []
    fx.node.map_arg(([a for _, a in spots], kwargs), inner.append)

    def nested(values: list[Any]) -> None:
        args, named = fx.node.map_arg((node.args, kwargs), lambda n: values[place[n]])
        values[at] = target(*args, **named)

    def flat(values: list[Any]) -> None:
        values[at] = target(*[a if i is None else values[i] for i, a in spots], **kwargs)

    return nested if inner else flat
