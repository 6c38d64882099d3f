"""The linear-algebra extension. Decompositions are computed by NumPy's own code on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..tensor.frontends.habits import no_decomposition
from ..tensor.lift import all_lifted as _all
from ..tensor.lift import lifted as _lifted
from ..tensor.ops import linalg as _D
from ..tensor.ops import linalg as _L
from ..tensor.ops import movement as _M

cholesky, det, inv, eigh, eigvalsh = _all(_D.cholesky, _D.det, _D.inv, _D.eigh, _D.eigvalsh)
qr, svd, svdvals, slogdet, solve = _all(_D.qr, _D.svd, _D.svdvals, _D.slogdet, _D.solve)
pinv, matrix_rank, matrix_power = _lifted(_D.pinv), _lifted(_D.matrix_rank), _lifted(_D.matrix_power)
matrix_norm, vector_norm = _lifted(_D.matrix_norm), _lifted(_D.vector_norm)
matmul, tensordot, vecdot, outer, cross, trace = _all(_L.matmul, _L.tensordot, _L.vecdot, _L.outer, _L.cross, _L.trace)
diagonal, matrix_transpose = _lifted(_M.diagonal), _lifted(_M.matrix_transpose)

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers say themselves where a name is not here

    def __getattr__(name: str) -> object:
        raise AttributeError(name) if name.startswith("__") else no_decomposition(name)
