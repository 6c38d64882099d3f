"""Names that users of NumPy, PyTorch and JAX know and that are not here: the answer is the name that is.

Looked at only where a name or an argument was not found, so it costs nothing before. docs/from-others.md has the same as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from importlib import import_module
from inspect import Signature, signature
from typing import Any, TypeVar

from ..graph.source_lines import at, user_line

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENTS = {
    "dim": "axis", "dims": "axes", "keepdim": "keepdims", "unbiased": "correction", "dim0": "axis1", "dim1": "axis2", "input": "x",
    "a": "x", "a_min": "min", "a_max": "max", "out": "",
}  # fmt: skip
"""An argument as others call it, and as it is called here ('': there is none, since results are new tensors)."""

_RANDOM = {
    "bernoulli": "bernoulli", "multinomial": "uniform", "normal_": "normal", "uniform_": "uniform", "random_": "randint", "exponential_": "uniform",
    "log_normal_": "normal", "geometric_": "uniform", "cauchy_": "uniform",
}  # fmt: skip

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
    "resize": "reshape", "argwhere": "nonzero()", "masked_select": "x[mask]", "unbind": "xp.unstack(x)",
    "clamp_min": "clip(min=...)", "clamp_max": "clip(max=...)", "H": "conj().mT", "adjoint": "conj().mT", "stride": "strides",
    "byte": "astype(xp.uint8)", "short": "astype(xp.int16)", "char": "astype(xp.int8)", "addmm": "x + a @ b", "baddbmm": "x + a @ b",
    "lerp": "x + w * (y - x)", "new_tensor": "xp.asarray(data)", "new_full": "xp.full(shape, value)", "movedim": "moveaxis(i, j)",
    "outer": "x[:, None] * y", "ger": "x[:, None] * y", "mv": "x @ y", "true_divide": "x / y", "floor_divide": "x // y", "fmod": "x % y",
    "element_size": "itemsize", "diag": "xp.diag(x)", "register_hook": "tilewright.grad, or value_and_grad",
    "weak_type": "dtype", "aval": "shape and dtype", "compress": "x[mask]", "put": "x[i] = y", "index_fill": "x[i] = value",
    "index_copy": "x[i] = y", "to_list": "tolist()", "apply_": "tilewright.vmap", "map": "tilewright.vmap",
    **dict.fromkeys(("is_contiguous", "is_pinned", "resolve_conj", "resolve_neg", "copy_to_host_async", "is_fully_addressable", "is_ready"), "always so"),
    **dict.fromkeys(("grad_fn", "is_leaf", "retain_grad", "retains_grad", "output_nr", "register_post_accumulate_grad_hook"), "tilewright.grad of a function"),
    **dict.fromkeys(("storage", "untyped_storage", "const_data_ptr", "storage_offset", "pin_memory", "unsafe_buffer_pointer"), "numpy(), its memory"),
    **dict.fromkeys(("is_cpu", "is_meta", "is_mps", "is_xla", "is_xpu", "get_device", "devices", "platform", "sharding"), "device"),
    **dict.fromkeys(("is_floating_point", "is_complex", "is_signed"), "xp.isdtype(x.dtype, kind)"), "is_nonzero": "x.item() != 0", "is_same_size": "x.shape == y.shape",
    **dict.fromkeys(("layout", "is_sparse", "is_sparse_csr", "to_sparse", "to_sparse_csr", "coalesce", "crow_indices", "col_indices"), "tilewright.sparse.CSR"),
    **dict.fromkeys(("addbmm", "addmv", "addr", "smm", "sspaddmm"), "x + a @ b"), "addcmul": "x + value * a * b", "addcdiv": "x + value * a / b",
    "aminmax": "x.min() and x.max()", "as_strided": "reshape, or a slice", "cummax": "tilewright.scan of xp.maximum", "cummin": "tilewright.scan of xp.minimum",
    "diag_embed": "x[..., None] * xp.eye(n)", "dist": "xp.linalg.vector_norm(x - y)", "erfc": "1 - x.erf()", "frac": "x - xp.trunc(x)", "sgn": "sign()",
    "histc": "np.histogram, NumPy's own, outside of jit", "index_reduce": "scatter_add", "scatter_reduce": "scatter_add, or index_put",
    "inverse": "xp.linalg.inv(x)", "pinverse": "xp.linalg.pinv(x)", "logdet": "xp.linalg.slogdet(x)[1]", "lstsq": "xp.linalg.pinv(x) @ y",
    "kthvalue": "xp.sort(x, axis=-1)[..., k - 1]", "msort": "xp.sort(x, axis=0)", "logit": "xp.log(x / (1 - x))", "xlogy": "xp.where(x == 0, 0, x * xp.log(y))",
    "mH": "conj().mT", "masked_scatter": "index_put", "slice_scatter": "x[start:end] = y", "diagonal_scatter": "index_put", "prelu": "xp.where(x > 0, x, a * x)",
    "new_empty": "xp.empty(shape)", "renorm": "x / xp.linalg.vector_norm(x, axis=..., keepdims=True)", "resize_as": "reshape(y.shape)", "sum_to_size": "sum(axis=...)",
    "split_with_sizes": "split(sizes)", "unflatten": "reshape", "unfold": "x[start:end]", "take_along_dim": "take_along_axis", "share_memory": "numpy()",
    **{name: f"tilewright.nn.{here}, with a key" for name, here in _RANDOM.items()},
}  # fmt: skip
"""Methods and attributes of others' arrays, and what does the same here."""

FUNCTIONS = {
    "cat": "xp.concat", "concatenate": "xp.concat", "hstack": "xp.concat(arrays, axis=1)", "vstack": "xp.concat(arrays, axis=0)",
    "row_stack": "xp.concat(arrays, axis=0)", "column_stack": "xp.concat(arrays, axis=1)", 
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
    "clamp_min": "xp.clip(x, min)", "clamp_max": "xp.clip(x, max=max)", "resize": "xp.reshape",
    "dynamic_slice": "xp.take(x, start + xp.arange(n), axis=...)", "dynamic_slice_in_dim": "xp.take(x, start + xp.arange(n), axis=...)",
    "dynamic_index_in_dim": "xp.take(x, i, axis=...)", "index_take": "xp.take", "dynamic_update_slice": "x[start:end] = y",
    "dynamic_update_slice_in_dim": "x[start:end] = y", "dynamic_update_index_in_dim": "x[i] = y", "slice": "x[start:end]",
    "slice_in_dim": "x[start:end]", "index_in_dim": "x[i:i + 1]", "convert_element_type": "xp.astype", "reduce_precision": "xp.astype",
    "broadcast_in_dim": "xp.broadcast_to", "broadcast_like": "xp.broadcast_to(x, y.shape)", "iota": "xp.arange", "broadcasted_iota": "xp.arange",
    "range": "xp.arange", "collapse": "xp.reshape", "dot_general": "xp.einsum, or x @ y", "batch_matmul": "x @ y", "reduce": "xp.sum, max, min or prod",
    "reduce_sum": "xp.sum", "reduce_max": "xp.max", "reduce_min": "xp.min", "reduce_prod": "xp.prod", "reduce_and": "xp.all", "reduce_or": "xp.any",
    "reduce_window": "tilewright.nn.max_pool or avg_pool", "rem": "xp.remainder", "rev": "xp.flip", "select_n": "xp.where", "is_finite": "xp.isfinite",
    "shift_left": "xp.bitwise_left_shift", "shift_right_logical": "xp.bitwise_right_shift", "shift_right_arithmetic": "xp.bitwise_right_shift",
    "sort_key_val": "xp.argsort, then xp.take", "logistic": "tilewright.nn.sigmoid", "integer_pow": "x ** n", "population_count": "np.bitwise_count",
    **dict.fromkeys(("scatter_mul", "scatter_max", "scatter_min", "scatter_sub", "scatter_apply"), "x.scatter_add, or x.index_put"),
    **dict.fromkeys(("conv_general_dilated", "conv_with_general_padding", "convolution"), "tilewright.nn.conv"), "rsub": "y - x", "numel": "x.size",
    **dict.fromkeys(("is_tensor", "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "BoolTensor", "Array"), "tilewright.Tensor"),
    **{name: f"tilewright.{name}" for name in ("scan", "fori_loop", "while_loop", "cond", "checkpoint", "vjp", "jvp", "stop_gradient")},
    **dict.fromkeys(("rand_like", "randn_like", "randint_like", "randperm", "poisson"), "tilewright.nn (normal, uniform and randint take a key)"),
}  # fmt: skip
"""Functions of others' namespaces, and what does the same here."""

_STATIC = "an argument that is no array: it is static by itself, where a shape or a branch depends on it"
OPTIONS = {
    "static_argnums": _STATIC, "static_argnames": _STATIC, "donate_argnums": "donate", "donate_argnames": "donate", "backend": "device",
    "mode": "tune", "dynamic": "symbols", "parallel": "threads", "fullgraph": "always so", "nopython": "always so", "forceobj": "numpy",
    "fastmath": "the default; numerics='fixed' is the other",
}  # fmt: skip
"""Options of others' compilers, and what does the same here."""

TRANSFORMS = {
    "unroll": "the schedules of a step's kernels say what is written out; leave it out",
    "axis_name": "there are no names of axes; sum over the new dimension behind vmap", "spmd_axis_name": "there are no names of axes",
    "axis_size": "an array that in_axes goes along says it", "holomorphic": "leave it out", "allow_int": "leave it out",
    "operand": "give operands by place, after the functions", "linear": "leave it out", "policy": "leave it out: everything is computed again",
    "prevent_cse": "leave it out", "use_reentrant": "leave it out", "argnum": "here it is argnums", "argnames": "give argnums, places of arguments",
    "create_graph": "call grad of grad", "randomness": "give each its key", "in_dims": "here it is in_axes", "out_dims": "here it is out_axes",
    "chunk_size": "call it on parts of the batch", "start_dim": "here it is start", "end_dim": "here it is stop", "strict": "leave it out",
}  # fmt: skip
"""Arguments of others' loops, gradients and `vmap`, and what is done here."""

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
    **dict.fromkeys(("set_num_threads", "get_num_threads", "set_num_interop_threads"), "tilewright.jit(threads=...)"), "pmap": "tilewright.vmap",
    **dict.fromkeys(("set_default_dtype", "set_default_tensor_type", "enable_x64"), "tilewright.set_default_float"), "linearize": "tilewright.jvp",
    **dict.fromkeys(("Generator", "default_generator", "seed", "initial_seed", "get_rng_state", "set_rng_state"), "the key of tilewright.nn's functions"),
    **dict.fromkeys(("set_default_device", "default_device", "default_backend", "Device", "device"), 'device="cpu", of Tensor and jit'),
    **dict.fromkeys(("debug_nans", "set_anomaly_enabled", "autograd_anomaly"), "tilewright.debug.nans()"), "device_get": "x.numpy()", "Size": "a tuple",
    **dict.fromkeys(("autocast", "amp", "GradScaler"), "x.astype(xp.float16), or bfloat16"), "dtype": "xp.float32 and so on", "eval_shape": "tilewright.jit(f).report()",
    **dict.fromkeys(("Module", "ModuleDict", "ParameterDict"), "a function of a tree of weights; docs/from-others.md shows a model"),
    **dict.fromkeys(("profiler", "explain_cache_misses", "log_compiles"), "tilewright.report, or tune graph"), "set_grad_enabled": "tilewright.stop_gradient(x)",
    **dict.fromkeys(("sparse_csr_tensor", "sparse_coo_tensor", "sparse_compressed_tensor", "sparse_csr", "sparse_coo"), "tilewright.sparse.CSR"),
}  # fmt: skip
"""Names in others' packages that are neither functions of arrays nor here, and what does the same."""

_LAYER = "a function of its weights; docs/from-others.md shows a model"
NETWORKS = {
    "functional": "tilewright.nn itself", "relu6": "xp.clip(x, 0, 6)", "tanh": "x.tanh()", "pad": "xp.pad", "rand": "uniform(shape, key=...)",
    "randn": "normal(shape, key=...)", "conv1d": "conv", "conv2d": "conv", "conv3d": "conv", "max_pool2d": "max_pool", "avg_pool2d": "avg_pool",
    "scaled_dot_product_attention": "(q @ k.mT * scale).softmax(-1) @ v", "binary_cross_entropy": "bce_loss", "smooth_l1_loss": "huber_loss",
    "kl_div": "(p * (p.log() - q.log())).sum()", "conv_transpose1d": "conv_transpose", "conv_transpose2d": "conv_transpose", "conv_transpose3d": "conv_transpose",
    "max_pool1d": "max_pool", "max_pool3d": "max_pool", "avg_pool1d": "avg_pool", "avg_pool3d": "avg_pool", "softmin": "softmax(-x)",
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), "global_avg_pool, or avg_pool"), "swish": "silu", "hard_swish": "hardswish",
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"), "max_pool"), "soft_sign": "softsign",
    **dict.fromkeys(("dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"), "dropout(x, p, key=...)"),
    "binary_cross_entropy_with_logits": "bce_with_logits", "prelu": "xp.where(x > 0, x, a * x)", "glu": "a * sigmoid(b)", "standardize": "layer_norm",
    "hardtanh": "xp.clip(x, -1, 1)", "hard_tanh": "xp.clip(x, -1, 1)", "threshold": "xp.where(x > t, x, value)", "hardshrink": "xp.where(xp.abs(x) > t, x, 0)",
    "hardsigmoid": "xp.clip(x / 6 + 0.5, 0, 1)", "hard_sigmoid": "xp.clip(x / 6 + 0.5, 0, 1)", "logsigmoid": "-softplus(-x)", "log_sigmoid": "-softplus(-x)",
    "hard_silu": "hardswish", "tanhshrink": "x - x.tanh()", "softshrink": "xp.sign(x) * xp.maximum(xp.abs(x) - t, 0)", "celu": "elu", "selu": "1.0507 * elu(x, 1.6733)",
    "cosine_similarity": "xp.vecdot of normalize(x) and normalize(y)", "pairwise_distance": "xp.linalg.vector_norm(x - y, axis=-1)",
    "upsample": "xp.repeat", "upsample_nearest": "xp.repeat", "interpolate": "xp.repeat", "pixel_shuffle": "xp.reshape, permute_dims, reshape",
    **dict.fromkeys(("dot_product_attention", "multi_head_attention_forward"), "(q @ k.mT * scale).softmax(-1) @ v"),
    **dict.fromkeys(("identity", "initializers", "init"), _LAYER),
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


def elsewhere(name: str, *tables: Mapping[str, str]) -> str | None:
    """What does the same as a name of others: by `tables`, by what the package has of that name in another place, or by what is said of
    it elsewhere. `x.exp_()` is PyTorch's way to write into x, and `expand_copy` its way to say that a result is new."""
    package = __name__.split(".tensor.")[0]  # (made of what asks this module, so it cannot be imported before)
    xp, tensor = import_module(f"{package}.xp"), import_module(f"{package}.tensor")
    nn, tensors = tensor.nn, tensor.Tensor
    for table in tables:
        if name in table:
            return table[name]
    places: tuple[tuple[object, str], ...] = ((xp, "xp."), (xp.linalg, "xp.linalg."), (nn, "tilewright.nn."))
    public = not name.startswith("_")
    here = next((f"{of}{name}" for place, of in places if public and name in vars(place)), None)
    here = here or next((table[name] for table in (FUNCTIONS, NAMES, NETWORKS, METHODS) if name in table), None)
    if here is None and public and hasattr(tensors, name):
        here = f"x.{name}"
    if here is None and public and name.endswith("_"):
        method = hasattr(tensors, name[:-1])
        found = f"x.{name[:-1]}(...)" if method else elsewhere(name[:-1], *tables)
        here = None if found is None else found if "= " in found else f"x[...] = {_called(found)}"
    if here is None and name.endswith("_copy"):
        here = elsewhere(name.removesuffix("_copy"), *tables)
    return here


def _called(here: str) -> str:
    """A function's name with what it is called with; a name of tensors' as it is asked for."""
    if not here.replace(".", "").replace("_", "").isalnum() or here.startswith("x."):
        return here
    tensors = import_module(f"{__name__.split('.tensor.')[0]}.tensor").Tensor
    if hasattr(tensors, here):
        return f"x.{here}(...)" if callable(getattr(tensors, here)) else f"x.{here}"
    return f"{here}(x)"


def answered(function: F) -> F:
    """The function, whose error for arguments of others' functions says what to write here, and for other wrong ones what it takes."""
    takes = signature(function)
    shown = takes.replace(parameters=[p.replace(annotation=p.empty) for p in takes.parameters.values()], return_annotation=takes.empty)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            wrong = next((n for n in kwargs if n not in takes.parameters and n in TRANSFORMS), None)
            try:
                takes.bind(*args, **kwargs)
            except TypeError as e:
                why = f"its arguments are {shown}" if wrong is None else TRANSFORMS[wrong]
                raise TypeError(f"{function.__name__}() {e}: {why}{at(user_line())}") from None
            raise

    return call  # type: ignore[return-value]


class Elements(int):
    """How many elements a tensor has. Called, as PyTorch asks for a shape, it says what is here."""

    def __call__(self, *dimension: int) -> int:
        raise TypeError(f"x.size is a number, of elements: what others call x.size() is x.shape here{at(user_line())}")


def no_network(name: str) -> AttributeError:
    """The error for a name that `tilewright.nn` has not."""
    return _missing(f"module 'tilewright.nn' has no attribute {name!r}", _LAYER if name.endswith("Loss") else elsewhere(name, NETWORKS))


def no_optimiser(name: str) -> AttributeError:
    """The error for a name that `tilewright.optim` has not."""
    return _missing(f"module 'tilewright.optim' has no attribute {name!r}", OPTIMISERS.get(name))


def no_decomposition(name: str) -> AttributeError:
    """The error for a name that `tilewright.xp.linalg` has not."""
    return _missing(f"module 'tilewright.xp.linalg' has no attribute {name!r}", elsewhere(name, DECOMPOSITIONS) or _numpys(name, "linalg."))


def no_sparse(name: str) -> AttributeError:
    """The error for a name that `tilewright.sparse` has not."""
    return _missing(f"module 'tilewright.sparse' has no attribute {name!r}", SPARSE.get(name))


def no_matrix_method(name: str) -> AttributeError:
    """The error for an attribute that a `CSR` has not."""
    return _missing(f"'CSR' object has no attribute {name!r}", MATRIX.get(name))


@lru_cache(1024)
def _instead_of_method(name: str) -> str | None:
    """What to write instead of an attribute that tensors have not. (Libraries ask every array for some.)"""
    import numpy as np

    here = elsewhere(name, METHODS) or _numpys(name)
    if here is None and hasattr(np.ndarray, name):
        here = f"numpy().{name}"
    return here and _called(here)


@lru_cache(1024)
def _instead_of_function(name: str) -> str | None:
    """The same of a name that `tilewright.xp` has not."""
    return elsewhere(name, FUNCTIONS) or _numpys(name)


def no_method(name: str) -> AttributeError:
    """The error for an attribute that tensors have not."""
    return _missing(f"'Tensor' object has no attribute {name!r}", _instead_of_method(name))


def no_function(name: str) -> AttributeError:
    """The error for a name that `tilewright.xp` has not."""
    return _missing(f"module 'tilewright.xp' has no attribute {name!r}", _instead_of_function(name))


def no_name(package: str, name: str) -> AttributeError:
    """The error for a name that the package has not."""
    found = elsewhere(name, NAMES) or _numpys(name) or ""
    here = found if found.startswith(package) else re.sub(r"\bxp\.", f"{package}.xp.", found)
    why = f"here it is {here}" if here else f"functions of arrays are in {package}.xp, those of kernels in {package}.ir"
    return AttributeError(f"module {package!r} has no attribute {name!r}: {why}")


def no_option(name: str, options: Sequence[str]) -> TypeError:
    """The error for an option that `jit` has not."""
    here = OPTIONS.get(name)
    why = f"here it is {here}" if here else f"its options are {', '.join(options)}"
    return TypeError(f"jit() has no option {name!r}: {why}{at(user_line())}")


def _numpys(name: str, within: str = "") -> str | None:
    """NumPy's own function of a name, which takes tensors and computes at once."""
    import numpy as np

    known = not name.startswith("_") and hasattr(np.linalg if within else np, name)
    return f"np.{within}{name}, NumPy's own, outside of jit" if known else None


def _missing(said: str, here: str | None) -> AttributeError:
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
