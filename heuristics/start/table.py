"""The start rules in their order, a list for each kind of target. A new rule is a class in one of this room's files and a row here.

The quick choice asks the first rules that apply, the ranked choice ranks kind by kind: the rules of a processor's later kinds are asked only
where the earlier ones leave something open (`choose.py`)."""

from __future__ import annotations

from .chains import Chains
from .contractions import Contractions
from .dot_products import NarrowIntegers, RowsAgainstRows, ScaledGroups
from .folds import Folds
from .gpu import chains as gpu_chains
from .gpu import folds as gpu_folds
from .gpu import rows as gpu_rows
from .gpu.contractions import ThreadProducts
from .gpu.matrix_instructions import TensorFolds, WarpgroupProducts, WarpProducts
from .interleaved import Groups, InterleavedSums, ResultsOfGroups, SumsOfGroups
from .ragged import RaggedRows
from .register_tiles import NeighbouringRows, ReusedReads, TinyAxes
from .row_gathers import SumsAlongGatheredRows, SumsOfGatheredRows
from .rows import Columns, EachAxis, FewColumns, Rows
from .rule import StartRule
from .scans import Scans
from .scatters import OwnedRows, PrivateCopies, ScatteredRows
from .transposed import Transposed
from .unrolled import ShortRows, ShortSums, UnrolledSteps
from .windows import UnrolledWindows, Windows

GROUPS, FOLDS, CONTRACTIONS, ROWS = Groups(), Folds(), Contractions(), Rows()
ROWS_AGAINST_ROWS, REUSED_READS, UNROLLED_STEPS = RowsAgainstRows(), ReusedReads(), UnrolledSteps()
EACH_AXIS, TRANSPOSED = EachAxis(), Transposed()

SPECIAL: tuple[StartRule, ...] = (
    OwnedRows(),
    PrivateCopies(),
    ScatteredRows(),
    TinyAxes(),
    Columns(),
    FewColumns(),
    SumsAlongGatheredRows(),
    ShortRows(),
    ShortSums(),
    SumsOfGatheredRows(),
    Windows(),
    UnrolledWindows(),
    REUSED_READS,
    Scans(),
    RaggedRows(),
    NarrowIntegers(),
    SumsOfGroups(),
    ResultsOfGroups(),
    InterleavedSums(),
    ScaledGroups(),
    ROWS_AGAINST_ROWS,
    Chains(),
    NeighbouringRows(),
)
"""Rules for rows, columns, windows, scans and tables of a processor: those of one kind, which the model ranks together."""

CPU_RULES: tuple[StartRule, ...] = (GROUPS, FOLDS, CONTRACTIONS, UNROLLED_STEPS, ROWS, *SPECIAL, EACH_AXIS, TRANSPOSED)
"""All rules of a processor."""

GPU_RULES: tuple[StartRule, ...] = (
    gpu_rows.ThreadCopies(),
    TensorFolds(),
    gpu_folds.Folds(),
    gpu_chains.Chains(),
    WarpgroupProducts(),
    WarpProducts(),
    ThreadProducts(),
    gpu_rows.Columns(),
    gpu_rows.Transposed(),
    gpu_rows.Rows(),
    gpu_rows.Points(),
)
"""All rules of a GPU; the model ranks them together."""

CPU_TEMPLATES = (CONTRACTIONS, Chains(), GROUPS, ROWS, PrivateCopies(), TinyAxes())
GPU_TEMPLATES = (WarpProducts(), ThreadProducts(), gpu_rows.Rows(), gpu_rows.Points())
