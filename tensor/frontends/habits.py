"""Names that users of NumPy, PyTorch and JAX know and that are not here: the answer is the name that is.

Looked at only where a name or an argument was not found, so it costs nothing before. docs/from-others.md has the same as a table."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Signature

from ..graph.source_lines import at, user_line

ARGUMENTS = {
    "dim": "axis", "dims": "axes", "keepdim": "keepdims", "unbiased": "correction", "dim0": "axis1", "dim1": "axis2", "input": "x",
    "a": "x", "a_min": "min", "a_max": "max", "out": "",
}  # fmt: skip
"""An argument as others call it, and as it is called here ('': there is none, since results are new tensors)."""

METHODS = {
    "clamp": "clip(min, max)", "t": "T", "cat": "xp.concat([x, y])", "concat": "xp.concat([x, y])",
    "stack": "xp.stack([x, y])", "chunk": "split(n)", "amax": "max(axis=...)", "amin": "min(axis=...)", "numel": "size", "clone": "copy()",
    "masked_fill": "xp.where(mask, value, x)", "masked_fill_": "xp.where(mask, value, x)",
    "add_": "x += y", "sub_": "x -= y", "mul_": "x *= y", "div_": "x /= y", "zero_": "x[...] = 0", "fill_": "x[...] = value",
    "copy_": "x[...] = y", "at": "x[key] = value, or index_put", "type": "astype(dtype)", "half": "astype(xp.float16)",
    "float": "astype(xp.float32)", "double": "astype(xp.float64)", "long": "astype(xp.int64)", "int": "astype(xp.int32)",
    "bool": "astype(xp.bool)", "bfloat16": "astype(xp.bfloat16)", "cuda": 'to("cuda")', "cpu": 'to("cpu")',
    "data_ptr": "numpy().ctypes.data", "block_until_ready": "realise()", "block": "realise()", "eval": "realise()",
    "norm": "xp.linalg.vector_norm(x)", "mm": "x @ y", "bmm": "x @ y",
    "index_select": "take(indices, axis=...)", "index_add": "scatter_add", "scatter": "index_put",
    "repeat_interleave": "repeat(n, axis=...)", "narrow": "x[start:end]", "select": "x[i]", "select_scatter": "x[i] = y",
    "expand_as": "expand(y.shape)", "view_as": "reshape(y.shape)", "reshape_as": "reshape(y.shape)", "type_as": "astype(y.dtype)",
    "dim": "ndim", "ndimension": "ndim", "is_cuda": "device", "new_zeros": "xp.zeros(shape)", "new_ones": "xp.ones(shape)",
    "sub": "x - y", "add": "x + y", "mul": "x * y", "div": "x / y", "eq": "x == y", "ne": "x != y", "lt": "x < y", "gt": "x > y",
    "le": "x <= y", "ge": "x >= y", "neg": "-x", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "nelement": "size",
    "fill": "x[...] = value", "cumulative_sum": "cumsum", "nansum": "xp.where(xp.isnan(x), 0, x).sum()", "ptp": "x.max() - x.min()",
    "asnumpy": "numpy()", "get": "numpy()", "data": "detach()", "values": "x[0] where it is a pair; max and min give values only",
    "conjugate": "conj()", "resize": "reshape", "argwhere": "nonzero()", "masked_select": "x[mask]", "unbind": "xp.unstack(x)",
    "clamp_min": "clip(min=...)", "clamp_max": "clip(max=...)", "H": "conj().mT", "adjoint": "conj().mT", "stride": "strides",
    "byte": "astype(xp.uint8)", "short": "astype(xp.int16)", "char": "astype(xp.int8)", "addmm": "x + a @ b", "baddbmm": "x + a @ b",
    "lerp": "x + w * (y - x)", "new_tensor": "xp.asarray(data)", "new_full": "xp.full(shape, value)", "movedim": "moveaxis(i, j)",
    "outer": "x[:, None] * y", "ger": "x[:, None] * y", "mv": "x @ y", "true_divide": "x / y", "floor_divide": "x // y", "fmod": "x % y",
    "element_size": "itemsize", "diag": "xp.diag(x)", "register_hook": "tilewright.grad, or value_and_grad",
    "weak_type": "dtype", "aval": "shape and dtype", "compress": "x[mask]", "put": "x[i] = y", "index_fill": "x[i] = value",
    "index_copy": "x[i] = y", "to_list": "tolist()", "apply_": "tilewright.vmap", "map": "tilewright.vmap",
}  # fmt: skip
"""Methods and attributes of others' arrays, and what does the same here."""

FUNCTIONS = {
    "cat": "xp.concat", "concatenate": "xp.concat", "hstack": "xp.concat(arrays, axis=1)", "vstack": "xp.concat(arrays, axis=0)",
    "row_stack": "xp.concat(arrays, axis=0)", "column_stack": "xp.concat(arrays, axis=1)", "transpose": "xp.permute_dims(x, axes)",
    "permute": "xp.permute_dims", "view": "xp.reshape", "swapaxes": "x.swapaxes(i, j)", "ravel": "x.ravel()", "flatten": "x.flatten()",
    "unsqueeze": "xp.expand_dims(x, axis=...)", "arccos": "xp.acos", "arcsin": "xp.asin", "arctan": "xp.atan", "arctan2": "xp.atan2",
    "arccosh": "xp.acosh", "arcsinh": "xp.asinh", "arctanh": "xp.atanh", "power": "xp.pow", "mod": "xp.remainder", "fmod": "xp.remainder",
    "clamp": "xp.clip", "absolute": "xp.abs", "invert": "xp.bitwise_invert", "left_shift": "xp.bitwise_left_shift",
    "right_shift": "xp.bitwise_right_shift", "true_divide": "xp.divide", "div": "xp.divide", "mul": "xp.multiply", "sub": "xp.subtract",
    "amax": "xp.max", "amin": "xp.min", "dot": "xp.matmul, or x @ y",
    "mm": "x @ y", "bmm": "x @ y", "inner": "xp.vecdot", "outer": "xp.linalg.outer", "cross": "xp.linalg.cross", "trace": "xp.linalg.trace",
    "norm": "xp.linalg.vector_norm", "array": "xp.asarray", "tensor": "xp.asarray, or tilewright.Tensor", "from_numpy": "xp.asarray",
    "as_tensor": "xp.asarray", "ascontiguousarray": "xp.asarray", "unique": "xp.unique_values", "gather": "xp.take_along_axis",
    "index_select": "xp.take", "split": "x.split", "chunk": "x.split", "relu": "tilewright.nn.relu", "softmax": "tilewright.nn.softmax",
    "log_softmax": "tilewright.nn.log_softmax", "sigmoid": "tilewright.nn.sigmoid", "gelu": "tilewright.nn.gelu",
    "silu": "tilewright.nn.silu", "logsumexp": "x.logsumexp(axis=...)", "erf": "x.erf()", "rsqrt": "x.rsqrt()", "exp2": "x.exp2()",
    "randn": "tilewright.nn.normal(shape, key=...)", "rand": "tilewright.nn.uniform(shape, key=...)", "random": "tilewright.nn (normal, uniform and randint take a key)",
    "topk": "x.topk(k)", "masked_fill": "xp.where(mask, value, x)", "isneginf": "x == -xp.inf", "isposinf": "x == xp.inf",
    "bool_": "xp.bool", "float_": "xp.float64", "half": "xp.float16", "long": "xp.int64", "grad": "tilewright.grad", "jit": "tilewright.jit",
    "vmap": "tilewright.vmap",
    "nansum": "xp.where(xp.isnan(x), 0, x).sum()", "average": "xp.mean", "identity": "xp.eye",
    "tensor_split": "x.split", "atleast_1d": "xp.reshape", "swapdims": "x.swapaxes(i, j)", "t": "x.T",
    "segment_sum": "tilewright.sparse.segment_sum", "segment_max": "tilewright.sparse.segment_max",
    "in1d": "xp.isin", "asnumpy": "x.numpy()", "nanmean": "xp.where(xp.isnan(x), 0, x).sum() / xp.sum(~xp.isnan(x))",
    "convolve": "tilewright.nn.conv", "correlate": "tilewright.nn.conv",
    "argwhere": "xp.nonzero", "rint": "xp.round", "fix": "xp.trunc",
    "dstack": "xp.stack(arrays, axis=2)", "fabs": "xp.abs", "bitwise_not": "xp.bitwise_invert", "vdot": "xp.vecdot", "top_k": "x.topk(k)",
    "fliplr": "x[:, ::-1]", "flipud": "x[::-1]", "rot90": "xp.flip(x.mT, axis=0)", "deg2rad": "x * (xp.pi / 180)", "radians": "x * (xp.pi / 180)",
    "rad2deg": "x * (180 / xp.pi)", "degrees": "x * (180 / xp.pi)", "nan_to_num": "xp.where(xp.isnan(x), 0, x)", "append": "xp.concat([x, y])",
    "cbrt": "xp.sign(x) * xp.abs(x) ** (1 / 3)", "ptp": "xp.max(x) - xp.min(x)", "allclose": "xp.all(xp.isclose(x, y))",
    "array_equal": "xp.all(x == y)", "select": "xp.where in xp.where", "piecewise": "xp.where in xp.where", "divmod": "divmod(x, y)",
    "flatnonzero": "xp.nonzero(x.ravel())[0]", "extract": "x[mask]", "place": "x[mask] = y", "put_along_axis": "x.index_put",
    "tri": "xp.tril(xp.ones(shape))", "atleast_2d": "xp.reshape", "atleast_3d": "xp.reshape", "rollaxis": "xp.moveaxis", "ndarray": "tilewright.Tensor",
    "digitize": "xp.searchsorted(bins, x)", "ediff1d": "xp.diff", "trapezoid": "(y[1:] + y[:-1]).sum() * dx / 2", "lerp": "x + w * (y - x)",
    "trapz": "(y[1:] + y[:-1]).sum() * dx / 2", "addmm": "x + a @ b", "masked_select": "x[mask]", "movedim": "xp.moveaxis",
    "clamp_min": "xp.clip(x, min)", "resize": "xp.reshape",
}  # fmt: skip
"""Functions of others' namespaces, and what does the same here."""

_STATIC = "an argument that is no array: it is static by itself, where a shape or a branch depends on it"
OPTIONS = {
    "static_argnums": _STATIC, "static_argnames": _STATIC, "donate_argnums": "donate", "donate_argnames": "donate", "backend": "device",
    "mode": "tune", "dynamic": "symbols", "parallel": "threads", "fullgraph": "always so", "nopython": "always so", "forceobj": "numpy",
    "fastmath": "the default; numerics='fixed' is the other",
}  # fmt: skip
"""Options of others' compilers, and what does the same here."""

_JACOBIAN = "tilewright.vmap of tilewright.vjp or jvp over the rows of xp.eye(n)"
NAMES = {
    "lax": "tilewright.scan, fori_loop, while_loop or cond", "numpy": "tilewright.xp", "linalg": "tilewright.xp.linalg",
    "fft": "tilewright.xp.fft", "functional": "tilewright.nn", "njit": "tilewright.jit", "compile": "tilewright.jit",
    "remat": "tilewright.checkpoint", "custom_vjp": "tilewright.operation with register_gradient", "custom_gradient": "tilewright.register_gradient",
    "device_put": "x.to(device)", "tune_kernel": "tilewright.tune_source", "autotune": "tilewright.tune", "no_grad": "tilewright.stop_gradient(x)",
    "segment_sum": "tilewright.sparse.segment_sum", "segment_max": "tilewright.sparse.segment_max", "csr_matrix": "tilewright.sparse.CSR",
    "inference_mode": "tilewright.stop_gradient(x)", "prange": "tilewright.jit(threads=...)", "tree": "tilewright.tree_map", "tree_util": "tilewright.tree_map",
    "jacobian": _JACOBIAN, "jacrev": _JACOBIAN, "jacfwd": _JACOBIAN, "hessian": _JACOBIAN, "manual_seed": "the key of tilewright.nn's functions",
    "autograd": "tilewright.grad, vjp or jvp", "disable_jit": "to call the function without jit", "block_until_ready": "x.realise()",
    "custom_jvp": "tilewright.operation with register_gradient", "vectorize": "tilewright.vmap", "guvectorize": "tilewright.vmap",
    "map": "tilewright.vmap, or tilewright.scan", "switch": "tilewright.cond", "associative_scan": "tilewright.xp.cumulative_sum, or tilewright.scan",
    "cuda": 'device="cuda"', "make_jaxpr": "tilewright.jit(f).report(), or tune graph", "ops": "tilewright.xp", "debugging": "tilewright.debug",
    "save": 'save, after "from tilewright.io import save"', "load": 'load, after "from tilewright.io import load"', "enable_grad": "tilewright.grad", "custom_derivatives": "tilewright.register_gradient",
}  # fmt: skip
"""Names in others' packages that are neither functions of arrays nor here, and what does the same."""

_LAYER = "a function of its weights; docs/from-others.md shows a model"
NETWORKS = {
    "functional": "tilewright.nn itself", "relu6": "xp.clip(x, 0, 6)", "tanh": "x.tanh()", "pad": "xp.pad", "rand": "uniform(shape, key=...)",
    "randn": "normal(shape, key=...)", "conv1d": "conv", "conv2d": "conv", "conv3d": "conv", "max_pool2d": "max_pool", "avg_pool2d": "avg_pool",
    "scaled_dot_product_attention": "(q @ k.mT * scale).softmax(-1) @ v", "binary_cross_entropy": "bce_loss", "smooth_l1_loss": "huber_loss",
    "kl_div": "(p * (p.log() - q.log())).sum()",
    **dict.fromkeys(("Module", "Parameter", "Sequential", "Linear", "Conv2d", "LSTM", "GRU", "Embedding", "LayerNorm", "Dropout", "ReLU"), _LAYER),
}  # fmt: skip
"""Names of others' packages of networks, and what does the same in `tilewright.nn`."""

_ROWS = "CSR(indptr, indices, data, shape=(rows, columns))"
SPARSE = {
    "csr_matrix": _ROWS,
    "csr_array": _ROWS,
    "from_scipy": "CSR(A.indptr, A.indices, A.data, shape=A.shape)",
    "spmm": "CSR(...) @ x",
    "COO": f"{_ROWS}, of rows in order",
    "coo_matrix": f"{_ROWS}, of rows in order",
    "CSC": f"{_ROWS} of the transpose",
    "csc_matrix": f"{_ROWS} of the transpose",
    "sddmm": "(xp.take(a, rows, axis=0) * xp.take(b, indices, axis=0)).sum(1)",
    "segment_min": "-segment_max(-x, indptr)",
    "segment_mean": "segment_sum(x, indptr) / lengths",
}
"""Names of others' packages of sparse matrices, and what does the same in `tilewright.sparse`."""

OPTIMISERS = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"}
"""Classes of others' packages of optimisers, and the functions that do the same in `tilewright.optim`."""

DECOMPOSITIONS = {"norm": "xp.linalg.vector_norm, or matrix_norm", "multi_dot": "a @ b @ c", "eigvals": "np.linalg.eigvals, outside of jit"}
"""Names of `numpy.linalg`, and what does the same here."""

MATRIX = {
    "T": "CSR of the transpose, such as SciPy's A.T.tocsr()",
    "transpose": "CSR of the transpose, such as SciPy's A.T.tocsr()",
    "dtype": "data.dtype",
    "dot": "A @ x",
    "matmul": "A @ x",
    "toarray": "A @ xp.eye(columns)",
    "todense": "A @ xp.eye(columns)",
    "to_dense": "A @ xp.eye(columns)",
    "sum": "A @ xp.ones(columns)",
    "ndim": "2",
}
"""Methods of others' sparse matrices, and what does the same with a `CSR`."""


_CALLS = ("takes ", "missing ", "got ", "too many ")
"""How Python says that a call does not fit a function."""


def no_network(name: str) -> AttributeError:
    """The error for a name that `tilewright.nn` has not."""
    known = {**NETWORKS, name: _LAYER} if name.endswith("Loss") else NETWORKS
    return _missing(f"module 'tilewright.nn' has no attribute {name!r}", name, known)


def no_optimiser(name: str) -> AttributeError:
    """The error for a name that `tilewright.optim` has not."""
    return _missing(f"module 'tilewright.optim' has no attribute {name!r}", name, OPTIMISERS)


def no_decomposition(name: str) -> AttributeError:
    """The error for a name that `tilewright.xp.linalg` has not."""
    return _missing(f"module 'tilewright.xp.linalg' has no attribute {name!r}", name, DECOMPOSITIONS, "linalg.")


def no_sparse(name: str) -> AttributeError:
    """The error for a name that `tilewright.sparse` has not."""
    return _missing(f"module 'tilewright.sparse' has no attribute {name!r}", name, SPARSE)


def no_matrix_method(name: str) -> AttributeError:
    """The error for an attribute that a `CSR` has not."""
    return _missing(f"'CSR' object has no attribute {name!r}", name, MATRIX)


def no_method(name: str, tensors: type) -> AttributeError:
    """The error for an attribute that tensors have not. `x.exp_()` is PyTorch's way to write into x."""
    import numpy as np

    known = {**METHODS, name: f"numpy().{name}"} if hasattr(np.ndarray, name) and not hasattr(np, name) and name not in METHODS else METHODS
    if name.endswith("_") and name not in METHODS and callable(getattr(tensors, name[:-1], None)):
        known = {**METHODS, name: f"x[...] = x.{name[:-1]}(...)"}
    return _missing(f"'Tensor' object has no attribute {name!r}", name, known, "")


def no_function(name: str) -> AttributeError:
    """The error for a name that `tilewright.xp` has not."""
    return _missing(f"module 'tilewright.xp' has no attribute {name!r}", name, FUNCTIONS, "")


def no_name(package: str, name: str, arrays: Sequence[str]) -> AttributeError:
    """The error for a name that the package has not; `arrays`: the names of `tilewright.xp`."""
    of_arrays = f"{package}.xp.{name}" if name in arrays else FUNCTIONS.get(name, "").replace("xp.", f"{package}.xp.")
    here = NAMES.get(name) or of_arrays
    why = f"here it is {here}" if here else f"functions of arrays are in {package}.xp, those of kernels in {package}.ir"
    return AttributeError(f"module {package!r} has no attribute {name!r}: {why}")


def no_option(name: str, options: Sequence[str]) -> TypeError:
    """The error for an option that `jit` has not."""
    here = OPTIONS.get(name)
    why = f"here it is {here}" if here else f"its options are {', '.join(options)}"
    return TypeError(f"jit() has no option {name!r}: {why}{at(user_line())}")


def _missing(said: str, name: str, known: dict[str, str], within: str | None = None) -> AttributeError:
    """`within`: where NumPy's own functions of such names are ('' or 'linalg.'), which take tensors and compute at once; None: nowhere."""
    here = known.get(name) or (known.get(name.rstrip("_")) if name.endswith("_") else None)
    if here is None and within is not None:
        import numpy as np

        if not name.startswith("_") and hasattr(np.linalg if within else np, name):
            here = f"np.{within}{name}, NumPy's own, outside of jit"
    return AttributeError(f"{said}: here it is {here}{at(user_line())}" if here else said)


def argument(error: TypeError, function: str, parameters: Signature) -> TypeError:
    """The error of a call of `function` with other arguments than it has: what they are called here, or what it takes."""
    said, _, rest = str(error).partition("unexpected keyword argument '")
    name = rest.partition("'")[0]
    if rest.endswith(")"):
        return error
    if not rest or name not in ARGUMENTS:
        of_call, _, text = str(error).rpartition(f"{function}() ")
        if not text.startswith(_CALLS):
            return error
        takes = parameters.replace(
            parameters=[p.replace(annotation=p.empty) for p in parameters.parameters.values()], return_annotation=parameters.empty
        )
        return TypeError(f"{of_call}{function}() {text}: its arguments are {takes}{at(user_line())}")
    here = ARGUMENTS[name]
    why = f"here it is {here}" if here else "results are new tensors; x[...] = y writes into one"
    return TypeError(f"{said}unexpected keyword argument {name!r}: {why}{at(user_line())}")
