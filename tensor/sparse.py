"""Sparse matrices in compressed rows, and reductions of segments: rows whose ends are read from memory, as kernels over the entries."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.builder import KernelBuilder
from ..ir.errors import OutOfRangeError, UsageError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..opts.analysis.ragged import DIAGONALS, SHORT
from .frontends.habits import no_matrix_method, no_sparse
from .graph.source_lines import at, user_line
from .operations import ArraySpec, operation, register_gradient
from .tensor import Tensor, as_tensor

__all__ = ["CSR", "pattern", "regular", "segment_max", "segment_sum"]

BESIDE, LONGER = 8, 1.25
"""How many short rows go side by side, and how many times their entries they may have when they are padded."""
SAMPLED, FOLLOW = 4096, 0.9
"""Rows of which the columns are looked at, and the share of them that has a pattern."""


class CSR:
    """A sparse matrix in compressed rows: row i has the entries `data[k]` at the columns `indices[k]`, for k from `indptr[i]` to
    `indptr[i + 1] − 1`. Columns may come in any order; entries at one place are added up.

    `indptr`: integers (rows + 1,), from 0 to the number of entries, none less than the one before. `indices`: integers (entries,), from 0
    to columns − 1. `data`: floats (entries,). `shape`: (rows, columns). One of SciPy's matrices in compressed rows may stand for all four.
    Arrays and tensors are taken; arrays, and offsets that are computed already, are looked at here, once.
    Raises UsageError and OutOfRangeError for what is no such matrix.

    `regular`: whether most rows are as long as those beside them, and `pattern`: how most columns follow each other. They decide the schedule of
    a product with a vector, and are False and "" of tensors that are computed later (`pattern` of any tensor).

    `matrix @ x` is the product with a vector (columns,) or a matrix (columns, n) of the type of `data`, in eager code and in captured
    functions. It has gradients to `data` and to x."""

    def __init__(self, indptr: Any, indices: Any = None, data: Any = None, *, shape: tuple[int, int] | None = None) -> None:
        if indices is None and data is None and shape is None:
            if getattr(indptr, "format", "") != "csr":
                raise UsageError(
                    f"CSR: give indptr, indices, data and shape, or a SciPy matrix in compressed rows, m.tocsr(){at(user_line())}"
                )
            indptr, indices, data, shape = indptr.indptr, indptr.indices, indptr.data, indptr.shape
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if len(sizes) != 2 or not all(isinstance(n, (int, np.integer)) and n >= 0 for n in sizes):
            raise UsageError(f"CSR: shape is {shape!r}; give (rows, columns){at(user_line())}")
        self.shape: tuple[int, int] = (int(sizes[0]), int(sizes[1]))
        begins, columns = _integers("indptr", indptr), _integers("indices", indices)
        self.data = as_tensor(data)
        (rows, width), entries = self.shape, columns.shape[0]
        if begins.shape != (rows + 1,):
            raise UsageError(f"CSR: indptr has {begins.shape[0]} elements, and {rows} rows have {rows + 1}{at(user_line())}")
        if tuple(self.data.shape) != (entries,) or not self.data.dtype.is_float:
            what = f"{self.data.dtype}{list(self.data.shape)}"
            raise UsageError(f"CSR: data is {what}; give floats, one for each of the {entries} indices{at(user_line())}")
        self.regular, self.pattern = _regular_offsets("CSR", indptr, entries), ""
        if not isinstance(indices, Tensor):
            given = np.asarray(indices)
            wrong = given[(given < 0) | (given >= width)][:1]
            if wrong.size:
                raise OutOfRangeError(f"CSR: the column {int(wrong[0])} is outside of 0..{width - 1}{at(user_line())}")
            if not isinstance(indptr, Tensor):
                self.pattern = pattern(indptr, given)
        self.indptr, self.indices = begins, columns

    @property
    def nnz(self) -> int:
        """How many entries there are."""
        return int(self.indices.shape[0])

    def to(self, device: str) -> CSR:
        """The same matrix on another device."""
        moved = copy(self)
        moved.indptr, moved.indices, moved.data = self.indptr.to(device), self.indices.to(device), self.data.to(device)
        return moved

    if not TYPE_CHECKING:  # type checkers say themselves where a name is not here

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name) if name.startswith("__") else no_matrix_method(name)

    def __matmul__(self, x: Any) -> Tensor:
        if isinstance(x, CSR) or hasattr(x, "indptr"):
            raise UsageError(f"a CSR matrix @ a sparse matrix: give an array of (columns,) or (columns, n){at(user_line())}")
        x = as_tensor(x)
        if len(x.shape) not in (1, 2) or x.shape[0] != self.shape[1]:
            raise UsageError(f"a CSR matrix {list(self.shape)} @ {list(x.shape)}: give (columns,) or (columns, n){at(user_line())}")
        if x.dtype is not self.data.dtype:
            raise UsageError(f"a CSR matrix of {self.data.dtype} @ {x.dtype}: cast one of them, x.astype(...){at(user_line())}")
        if not self.nnz:
            return Tensor(np.zeros((self.shape[0], *x.shape[1:]), x.dtype.np), device=x.device)
        found: Tensor = sparse_product(self.indptr, self.indices, self.data, x, regular=self.regular, pattern=self.pattern)
        return found

    __array_ufunc__ = None  # (NumPy leaves x @ matrix to the method below)

    def __rmatmul__(self, x: Any) -> Tensor:
        raise UsageError(f"x @ a CSR matrix: make a CSR matrix of the transpose, and multiply x.T by it{at(user_line())}")

    def __repr__(self) -> str:
        return f"CSR({self.shape[0]} × {self.shape[1]}, {self.nnz} entries of {self.data.dtype})"


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else no_sparse(name)


def segment_sum(data: Any, indptr: Any) -> Tensor:
    """The sums of segments: of the rows `data[indptr[i]:indptr[i + 1]]` of an array (n,) or (n, width), one for each i; 0 of none.

    `indptr` are integers from 0 to n, none less than the one before: an array or a tensor that is computed already is looked at here. Raises UsageError and
    OutOfRangeError for others. It has a gradient."""
    return _segments("segment_sum", data, indptr, "add")


def segment_max(data: Any, indptr: Any) -> Tensor:
    """The largest of segments, as `segment_sum`; −∞ of none. Equal largest ones share the gradient."""
    return _segments("segment_max", data, indptr, "max")


def regular(indptr: Any) -> bool:
    """Whether rows that begin at `indptr` (integers, (rows + 1,)) are as long as those beside them: two thirds of them as long as the row before,
    so that a processor foresees their ends; and, if they have at most 8 entries in the mean, each group of eight rows 1.25 times its entries at
    most when it is padded to its longest row, so that eight go side by side in a vector. (SELL matrices are padded so: Monakov et al. 2010,
    "Automatically tuning sparse matrix-vector multiplication for GPU architectures".) It chooses the schedules of `KernelBuilder.input` and `CSR`."""
    begins = np.asarray(indptr)
    if begins.ndim != 1 or begins.dtype.kind not in "iu":
        raise UsageError(f"regular: indptr is {begins.dtype}{list(begins.shape)}; give a vector of integers{at(user_line())}")
    lengths = np.diff(begins)
    entries, rows = int(lengths.sum()), lengths.size
    if not entries or 3 * int(np.count_nonzero(lengths[1:] == lengths[:-1])) < 2 * (rows - 1):
        return False
    groups = np.append(lengths, np.zeros(-rows % BESIDE, lengths.dtype)).reshape(-1, BESIDE)
    return entries > SHORT * rows or BESIDE * int(groups.max(axis=1).sum()) <= LONGER * entries


def pattern(indptr: Any, indices: Any) -> str:
    """How most columns of a sparse matrix in compressed rows follow each other (integers, (rows + 1,) and (entries,)), by up to 4,096 of its rows.
    "diagonals": of short regular rows, eight beside each other have columns that are one more from row to row. "runs of 8" and "runs of 4": so many
    columns from the beginning of a row on, and from each that comes so many later, are one more each than the one before. Else "". It chooses the
    schedules of `KernelBuilder.input` and `CSR`."""
    begins, columns = (np.asarray(x) for x in (indptr, indices))
    lengths = np.diff(begins)
    rows, entries = lengths.size, columns.size
    if not entries or not rows:
        return ""
    mean = round(entries / rows)
    if rows >= BESIDE and 1 <= mean <= DIAGONALS and regular(begins):
        first = np.arange(0, rows - BESIDE + 1, BESIDE * -(-rows // SAMPLED))
        equal = first[(lengths[first[:, None] + np.arange(BESIDE)] == mean).all(1)]
        beside = columns[begins[equal][:, None] + np.arange(BESIDE * mean)].reshape(-1, BESIDE, mean)
        if 2 * equal.size >= first.size and _follow(beside, axis=1):
            return "diagonals"
    some = np.arange(0, rows, -(-rows // SAMPLED))
    for n in (8, 4):
        steps = lengths[some] // n
        place = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
        at = np.repeat(begins[some], steps) + n * place
        if 2 * n * at.size >= lengths[some].sum() and _follow(columns[at[:, None] + np.arange(n)], axis=1):
            return f"runs of {n}"
    return ""


def _follow(columns: np.ndarray[Any, Any], axis: int) -> bool:
    """Whether nine tenths of the runs along an axis are of numbers one more each than the one before: a run that is guessed wrongly costs a branch."""
    runs = (np.diff(columns.astype(np.int64), axis=axis) == 1).all(axis)
    return bool(runs.size) and float(runs.mean()) >= FOLLOW


def _segments(name: str, data: Any, indptr: Any, combine: str) -> Tensor:
    data, begins = as_tensor(data), _integers("indptr", indptr)
    if len(data.shape) not in (1, 2) or not data.dtype.is_float or not begins.shape[0]:
        raise UsageError(
            f"{name} of {data.dtype}{list(data.shape)} in segments {list(begins.shape)}: floats of 1 or 2 dimensions{at(user_line())}"
        )
    found: Tensor = segment_reduction(begins, data, combine=combine, regular=_regular_offsets(name, indptr, int(data.shape[0])))
    return found


def _integers(name: str, given: Any) -> Tensor:
    """A vector of integers as a tensor."""
    array = np.asarray([] if isinstance(given, Tensor) else given)
    found = given if isinstance(given, Tensor) else Tensor(array if array.size else array.astype(np.int64))  # (an empty list has no type)
    if len(found.shape) != 1 or not found.dtype.is_int:
        raise UsageError(f"{name} is {found.dtype}{list(found.shape)}; give a vector of integers{at(user_line())}")
    return found


def _regular_offsets(who: str, given: Any, entries: int) -> bool:
    """Whether rows are regular, after a check that an array, or a tensor that is computed already, is where rows begin and end."""
    if isinstance(given, Tensor):
        if given.node.data is None or given.device != "cpu":
            return False  # computed later: the kernel's input is checked then
        given = given.node.data.array
    begins = np.asarray(given)
    if begins.size and (begins[0] != 0 or begins[-1] != entries):
        raise OutOfRangeError(f"{who}: indptr goes from {begins[0]} to {begins[-1]}, and there are {entries} entries{at(user_line())}")
    down = np.flatnonzero(begins[1:] < begins[:-1])[:1]
    if down.size:
        i = int(down[0])
        raise OutOfRangeError(f"{who}: indptr has {begins[i]} before {begins[i + 1]}, at {i}: rows begin in order{at(user_line())}")
    return regular(begins)


# kernels ----------------------------------------------------------------------------------------------------
@operation
def sparse_product(
    indptr: ArraySpec, indices: ArraySpec, data: ArraySpec, x: ArraySpec, regular: bool = False, pattern: str = ""
) -> Kernel:
    """Rows of entries times a vector or a matrix."""
    kb = KernelBuilder("sparse_product")
    rows, (entries,) = indptr.shape[0] - 1, indices.shape
    i, k, js = _rows(kb, indptr, entries, x.shape[1:], regular)
    follow = "" if js else pattern  # (of products with columns, these are the lanes)
    column = kb.input("indices", indices.shape, indices.dtype, range=(0, _size(x.shape[0]) - 1), pattern=follow)
    a, dense = kb.input("data", data.shape, data.dtype), kb.input("x", x.shape, x.dtype)
    total = kb.sum("total", (i, *js), k, a[k] * dense[(column[k], *js)])
    kb.store("y", x.dtype, (rows, *x.shape[1:]), (i, *js), total[(i, *js)])
    return kb.build()


@operation
def segment_reduction(indptr: ArraySpec, data: ArraySpec, combine: str, regular: bool = False) -> Kernel:
    """Rows of entries, combined."""
    kb = KernelBuilder("segments")
    i, k, js = _rows(kb, indptr, data.shape[0], data.shape[1:], regular)
    a = kb.input("data", data.shape, data.dtype)
    total = kb.reduce("add" if combine == "add" else "max", "total", (i, *js), k, a[(k, *js)])
    kb.store("y", data.dtype, (indptr.shape[0] - 1, *data.shape[1:]), (i, *js), total[(i, *js)])
    return kb.build()


def _rows(
    kb: KernelBuilder, indptr: ArraySpec, entries: int | Node, width: tuple[int | Node, ...], regular: bool
) -> tuple[Node, Node, tuple[Node, ...]]:
    """The axes of rows, of a row's entries, and of what each entry has."""
    i = kb.axis("i", indptr.shape[0] - 1)
    p = kb.input("indptr", indptr.shape, indptr.dtype, range=(0, _size(entries)), ascending=True, regular=regular and not width)
    return i, kb.axis("k", (p[i], p[i + 1])), tuple(kb.axis("j", n) for n in width)


def _size(n: int | Node) -> int:
    if isinstance(n, Node):
        raise UsageError(
            f"sparse matrices and segments have sizes that are numbers; capture them in a function of their own{at(user_line())}"
        )
    return n


# gradients --------------------------------------------------------------------------------------------------
def rows_of(indptr: Tensor, entries: int) -> tuple[Tensor, Tensor]:
    """(the row of each entry, whether it has one)."""
    begun = Tensor(np.zeros(entries + 1, np.int32)).scatter_add(indptr[1:], 1)
    row, place = begun.cumsum(0)[:entries], Tensor(np.arange(entries, dtype=np.int32))
    return row.minimum(indptr.shape[0] - 2), (place >= indptr[0]) & (place < indptr[-1])


def _product_gradient(
    dy: Tensor, y: Tensor, indptr: Tensor, indices: Tensor, data: Tensor, x: Tensor, regular: bool, pattern: str
) -> tuple[Any, ...]:
    row, there = rows_of(indptr, int(indices.shape[0]))
    each, wide = dy.take(row, axis=0), len(x.shape) == 2
    products = each * x.take(indices, axis=0)
    ddata = there.where(products.sum(1) if wide else products, 0.0)
    weights = there.where(data, 0.0)
    dx = Tensor(np.zeros(x.shape, x.dtype.np)).scatter_add(indices, each * (weights[:, None] if wide else weights))
    return None, None, ddata, dx


def _segment_gradient(dy: Tensor, y: Tensor, indptr: Tensor, data: Tensor, combine: str, regular: bool) -> tuple[Any, ...]:
    row, there = rows_of(indptr, int(data.shape[0]))
    there = there[:, None] if len(data.shape) == 2 else there
    if combine == "add":
        return None, there.where(dy.take(row, axis=0), 0.0)
    hit = (data == y.take(row, axis=0)).where(1.0, 0.0).astype(data.dtype)
    many = segment_reduction(indptr, hit, combine="add", regular=regular).maximum(1.0)
    return None, there.where(hit * (dy / many).take(row, axis=0), 0.0)


register_gradient(sparse_product, _product_gradient)
register_gradient(segment_reduction, _segment_gradient)
