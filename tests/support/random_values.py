"""Random kernels: values over a few axes, pointwise, reduced and running."""

from hypothesis import strategies as st
from tilewright.ir import KernelBuilder, dtypes, exp, maximum, sqrt, tanh, where
from tilewright.ir.node import walk

SIZES = {"m": 3, "n": 4, "k": 3}
"""Two dimensions are equally long, so that axes could be taken for each other."""


@st.composite
def random_kernels(draw):
    """A few values over two of the dimensions, pointwise, reduced or running, each made of inputs and of values
    before it."""
    kb = KernelBuilder("random")
    inputs = {d: kb.input("_".join(d), [SIZES[f] for f in d], dtypes.float32) for d in (("m",), ("n",), ("m", "n"), ("n", "k"), ("k", "m"))}
    ids = kb.input("ids", (SIZES["m"],), dtypes.int64, range=(0, SIZES["n"] - 1))
    values = []

    def leaf(bound):
        """Something to read with `bound`, axes by dimension."""
        found = [lambda b=b, d=d: b[tuple(bound[f] for f in d)] for d, b in inputs.items() if set(d) <= set(bound)]
        found += [lambda v=v, d=d: v[tuple(bound[f] for f in d)] for v, d in values if set(d) <= set(bound)]
        if "m" in bound:
            found.append(lambda: inputs["m", "n"][bound["m"], ids[bound["m"]]])
        found.append(lambda: inputs["n",][0] + inputs["m",][1])
        return draw(st.sampled_from(found))()

    def element(bound):
        e = leaf(bound)
        for how in draw(st.lists(st.sampled_from(["exp", "tanh", "sqrt", "add", "mul", "div", "max", "where", "scale"]), max_size=4)):
            if how in ("exp", "tanh"):
                e = exp(e * 0.1) if how == "exp" else tanh(e)
            elif how == "sqrt":
                e = sqrt(e * e + 0.5)
            elif how == "scale":
                e = e * 0.25
            else:
                f = leaf(bound)
                e = {"add": e + f, "mul": e * f, "div": e / (f * f + 1.0), "max": maximum(e, f), "where": where(e < f, e, f)}[how]
        return e

    def axes(dims, site):
        return {f: kb.axis(f"{f}@{site}", SIZES[f]) for f in dims}

    for n in range(draw(st.integers(1, 6))):
        dims = tuple(draw(st.lists(st.sampled_from("mnk"), max_size=2, unique=True)))
        kind = draw(st.sampled_from(["point", "point", "sum", "sum", "max", "scan"]))
        if kind == "scan" and not dims:
            kind = "point"
        if kind in ("sum", "max"):
            over = draw(st.sampled_from([f for f in "mnk" if f not in dims]))
            bound = axes((*dims, over), f"v{n}")
            made = kb.reduce("add" if kind == "sum" else "max", f"v{n}", [bound[f] for f in dims], bound[over], element(bound))
        else:
            bound = axes(dims, f"v{n}")
            at, e = [bound[f] for f in dims], element(bound)
            made = kb.value(f"v{n}", at, e) if kind == "point" else kb.scan("add", f"v{n}", at, draw(st.sampled_from(at)), e)
        values.append((made, dims))
    for n in range(draw(st.integers(1, 2))):
        dims = tuple(draw(st.lists(st.sampled_from("mnk"), min_size=1, max_size=2, unique=True)))
        bound = axes(dims, f"o{n}")
        kb.store(f"o{n}", dtypes.float32, [SIZES[f] for f in dims], list(bound.values()), element(bound))
    read = {n.arg for e in kb.build().expressions() for n in walk(e) if n.op == "ref"}
    for made, dims in values:  # nothing says in which order values come that no store depends on
        if made.name not in read:
            bound = axes(dims, f"{made.name}o")
            at = tuple(bound[f] for f in dims)
            kb.store(f"{made.name}o", dtypes.float32, [SIZES[f] for f in dims], at, made[at])
    return kb.build()
