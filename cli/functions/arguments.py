"""What a function of tensors is called with: tensors without values, of the shapes that somebody gave.

For each argument, the first of these that says something:

1. `--shape x=64x128,float32` on the command line (`x=` is a single number; the type may be left out),
2. a function `NAME_inputs()` beside the function `NAME`: a tuple of arguments or a dict by name, trees allowed,
3. an annotation: `x: Annotated[Tensor, (64, 128), "float32"]`,
4. a default value with a shape and a type, such as a NumPy array.

Other default values are used as they are. Whatever has a shape and a type becomes a tensor without values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from ...ir.dtypes import DType
from ...ir.dtypes import dtype as dtype_of
from ...ir.errors import UsageError

SHAPE_HELP = "--shape x=64x128,float32"
DEFAULT_DTYPE = "float32"


@dataclass(frozen=True)
class ArgumentSpec:
    """Of one argument. `dtype` None: the default one."""

    shape: tuple[int, ...]
    dtype: DType | None = None


def parse_specs(text: str) -> dict[str, ArgumentSpec]:
    """`x=64x128,float32,w=128x8,n=4` by name. Raises UsageError."""
    found: dict[str, ArgumentSpec] = {}
    last = ""
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, extents = (t.strip() for t in part.partition("="))
        if not equals and last and found[last].dtype is None:
            found[last] = ArgumentSpec(found[last].shape, dtype_of(part))
            continue
        sizes = extents.split("x") if extents else []
        if not equals or not name.isidentifier() or not all(s.isascii() and s.isdigit() and len(s) < 19 for s in sizes):
            raise UsageError(f"cannot read {part!r} as a tensor's shape; write {SHAPE_HELP}")
        if name in found:
            raise UsageError(f"the shape of {name} is given twice in {text!r}")
        found[name] = ArgumentSpec(tuple(map(int, sizes)))
        last = name
    return found


class Placeholders:
    """The arguments of one function of tensors. `labels`: by the id of a tensor's node, what to call it."""

    def __init__(self, path: str, dtype: str | None) -> None:
        self.path = path
        self.default = dtype_of(dtype or DEFAULT_DTYPE)
        self.labels: dict[int, str] = {}

    def arguments(
        self, function: Callable[..., Any], inputs: Callable[[], Any] | None, given: Mapping[str, ArgumentSpec]
    ) -> dict[str, Any] | tuple[Any, ...]:
        """By name, or by position where the function has `*args`. `inputs`: what `NAME_inputs` is. Raises UsageError."""
        parameters = inspect.signature(function).parameters
        names = [n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        offered = self._offered(inputs, names)
        if isinstance(offered, tuple):
            return offered
        for name in (*given, *offered):
            if name not in names and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                raise UsageError(f"{self.path} has no argument {name!r}; its arguments are {', '.join(names) or 'none'}")
        hints = _hints(function)
        found: dict[str, Any] = {}
        missing = []
        for name in dict.fromkeys((*names, *given, *offered)):
            p = parameters.get(name)
            if name in given:
                found[name] = self._given(name, given[name], p)
            elif name in offered:
                found[name] = self.tree(name, offered[name])
            elif (spec := _annotated(hints.get(name), self.path, name)) is not None:
                found[name] = self.tensor(name, spec)
            elif p is not None and p.default is not p.empty:
                found[name] = self.tree(name, p.default)
            else:
                missing.append(name)
        if missing:
            raise UsageError(
                f"{self.path} does not say what its argument{'s' * (len(missing) > 1)} {', '.join(missing)} look like: give "
                f"--shape {','.join(f'{n}=64x128' for n in missing)} (a type may follow each: {missing[0]}=64x128,float32), annotate "
                f'{missing[0]}: Annotated[Tensor, (64, 128), "float32"], or write a function {_inputs_name(self.path)}() that returns them'
            )
        return found

    def _offered(self, inputs: Callable[[], Any] | None, names: list[str]) -> dict[str, Any] | tuple[Any, ...]:
        if inputs is None:
            return {}
        made = inputs()
        if isinstance(made, dict):
            return {str(k): v for k, v in made.items()}
        several = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(several) > len(names):
            return tuple(self.tree(names[i] if i < len(names) else f"[{i}]", v) for i, v in enumerate(several))
        return dict(zip(names, several))

    def _given(self, name: str, spec: ArgumentSpec, p: inspect.Parameter | None) -> Any:
        """A tensor; or a whole number, for an argument whose default is one."""
        if p is not None and isinstance(p.default, int) and not isinstance(p.default, bool) and len(spec.shape) == 1 and spec.dtype is None:
            return spec.shape[0]
        return self.tensor(name, spec)

    def tensor(self, label: str, spec: ArgumentSpec) -> Any:
        """A tensor without values."""
        from ...tensor.tensor import placeholder

        found = placeholder(spec.shape, spec.dtype or self.default)
        self.labels[id(found.node)] = label
        return found

    def tree(self, label: str, value: Any) -> Any:
        """A value with everything that has a shape and a type in it as a tensor without values."""
        if isinstance(value, dict):
            return {k: self.tree(f"{label}.{k}", v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            parts = [self.tree(f"{label}[{i}]", v) for i, v in enumerate(value)]
            return parts if isinstance(value, list) else type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple) and dtype is not None:
            return self.tensor(label, ArgumentSpec(shape, dtype if isinstance(dtype, DType) else dtype_of(str(dtype))))
        return value


def _inputs_name(path: str) -> str:
    return f"{path.rpartition(':')[2].partition('#')[0]}_inputs"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # an annotation that names what is not there says nothing about shapes
        return {}


def _annotated(hint: Any, path: str, name: str) -> ArgumentSpec | None:
    """Of `Annotated[Tensor, (64, 128), "float32"]`; None without a shape in it."""
    from typing import Annotated

    if get_origin(hint) is not Annotated:
        return None
    shape, dtype = None, None
    for part in get_args(hint)[1:]:
        if isinstance(part, tuple) and all(isinstance(n, int) and n >= 0 for n in part):
            shape = part
        elif isinstance(part, (str, DType)):
            dtype = dtype_of(part)
        else:
            raise UsageError(f'{path}: the annotation of {name} has {part!r}; write Annotated[Tensor, (64, 128), "float32"]')
    return None if shape is None else ArgumentSpec(shape, dtype)
