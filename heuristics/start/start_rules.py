"""The start rules in their order, a list for each kind of target. A new rule is a class in one of this room's files and a row here.

The quick choice asks the first rules that apply, the ranked choice ranks kind by kind: the rules of a processor's later kinds are asked only
where the earlier ones leave something open (`choose.py`)."""

from __future__ import annotations

from .chains import StencilChains
from .contractions import Contractions
from .dot_products import NarrowIntegers, RowsAgainstRows, ScaledBytes, ScaledGroups
from .gpu.matrix_instructions import TensorFolds, WarpgroupFolds, WarpgroupProducts, WarpProducts
from .gpu.thread_folds import GridChains, ThreadFolds
from .gpu.thread_products import ThreadProducts
from .gpu.thread_rows import ThreadColumns, ThreadCopies, ThreadPoints, ThreadRows, ThreadTransposed
from .neighbour_groups import InterleavedSums, NeighbourGroups, SumsOfGroups
from .ordered_sums import ColumnsInChains, ProductsAlongRows
from .ragged_rows import RaggedRows, RowsOfEntries
from .register_tiles import NeighbouringRows, ReusedReads, TinyAxes
from .residue_classes import ResidueClasses
from .row_schedules import Columns, EachAxis, FewColumns, Rows, SumsOfGatheredRows
from .scans import Scans
from .scatters import OwnedRows, PrivateCopies, ScatteredRows
from .sliding_windows import UnrolledWindows, Windows
from .start_rule import StartRule
from .transposed import Transposed
from .unrolled import ShortRows, ShortSums, UnrolledSteps
from .weighted_folds import WeightedFolds

GROUPS, FOLDS, CONTRACTIONS, ROWS = NeighbourGroups(), WeightedFolds(), Contractions(), Rows()
ROWS_AGAINST_ROWS, REUSED_READS, UNROLLED_STEPS = RowsAgainstRows(), ReusedReads(), UnrolledSteps()
EACH_AXIS, TRANSPOSED, RESIDUES, SCALED_BYTES, ENTRIES = EachAxis(), Transposed(), ResidueClasses(), ScaledBytes(), RowsOfEntries()
ALONG_ROWS, COLUMN_CHAINS = ProductsAlongRows(), ColumnsInChains()

SPECIAL: tuple[StartRule, ...] = (
    OwnedRows(),
    PrivateCopies(),
    ScatteredRows(),
    TinyAxes(),
    Columns(),
    FewColumns(),
    ShortRows(),
    ShortSums(),
    SumsOfGatheredRows(),
    Windows(),
    UnrolledWindows(),
    REUSED_READS,
    Scans(),
    RaggedRows(),
    StencilChains(),  # (before those for one sum of a chain, which would compute what it reads again for each element)
    NarrowIntegers(),
    SumsOfGroups(),
    InterleavedSums(),
    ScaledGroups(),
    ROWS_AGAINST_ROWS,
    ALONG_ROWS,
    COLUMN_CHAINS,
    NeighbouringRows(),
)
"""Rules for rows, columns, windows, scans and tables of a processor: those of one kind, which the model ranks together."""

CPU_RULES: tuple[StartRule, ...] = (
    GROUPS,
    FOLDS,
    RESIDUES,
    ENTRIES,
    SCALED_BYTES,
    CONTRACTIONS,
    UNROLLED_STEPS,
    ROWS,
    *SPECIAL,
    EACH_AXIS,
    TRANSPOSED,
)
"""All rules of a processor."""

GPU_RULES: tuple[StartRule, ...] = (
    ThreadCopies(),
    WarpgroupFolds(),
    TensorFolds(),
    ThreadFolds(),
    GridChains(),
    WarpgroupProducts(),
    WarpProducts(),
    ThreadProducts(),
    ThreadColumns(),
    ThreadTransposed(),
    ThreadRows(),
    ThreadPoints(),
)
"""All rules of a GPU; the model ranks them together."""

CPU_TEMPLATES = (CONTRACTIONS, StencilChains(), GROUPS, ROWS, PrivateCopies(), TinyAxes())
GPU_TEMPLATES = (WarpgroupProducts(), WarpProducts(), ThreadProducts(), ThreadRows(), ThreadPoints())
