"""Sweeps: formulas, what a file asks for, what is tuned after what, and what the journal keeps."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import pytest
from tilewright.ir.errors import UsageError
from tilewright.search.manifest import sweep_file
from tilewright.search.manifest import sweep_file as journal
from tilewright.search.manifest.sweep_file import LONGEST, SweepJournal, order, shortest, tree
from tilewright.search.manifest.tune_all import ELSEWHERE, FAILED, TUNED, Done

SWEEP = """
[targets.here]
threads = 1
[targets.there]
device = "cuda"
target = "cuda:sm_90a:*"

[models.small]
hidden = 32
tokens = [1, 16, 64]

[models.large]
hidden = 64
tokens = [1, 64]

[[kernel]]
name = "matmul"
shape = { m = "tokens", n = "4*hidden", k = "hidden" }
targets = ["here"]
dtypes = ["float32", "bfloat16"]

[[kernel]]
name = "softmax"
shape = [{ m = "tokens", n = "hidden" }, { m = 7, n = 9 }]
models = ["small"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(SWEEP)
    return path


def test_formulas_are_whole_numbers_and_nothing_else() -> None:
    values = {"h": 96, "t": 5}

    def value(text: str) -> int:
        return sweep_file.extent(sweep_file.formula(text), values)

    for text, wanted in {"4*h": 384, "(t+127)//128*128": 128, "max(t, h) - min(t,2)": 94, "h % 7": 5, "12": 12, "ceil(h / t)": 20}.items():
        assert value(text) == wanted
    assert set(sweep_file.formula("max(a, 3*b) // c").names) == {"a", "b", "c"}
    for bad in (
        *(
            "h/7",
            "h**9000",
            "__import__('os')",
            "h.real",
            "[h]",
            "-h",
            "1.5",
            "True",
            "max()",
            "max(h, key=t)",
            "",
            "(" * 99,
            "f(h)",
            "'x'",
        ),
        *("h - h", "h // (t-5)", "x" * 201),
    ):
        with pytest.raises(UsageError, match=r"formula|has no value"):
            value(bad)
    for bad, said in (("h - h", "at least 1"), ("h // (t-5)", "zero"), ("q", "has no value"), ("*".join(["h"] * 9), "larger")):
        with pytest.raises(UsageError, match=said):
            value(bad)


def test_a_sweep_is_every_shape_of_every_model_once(file: Path) -> None:
    found = sweep_file.load(file)
    asked = [(e.kernel, tuple(e.shape.values()), e.dtype, e.place.name) for e in found.manifest.entries]
    matmuls = [(m, 4 * h, h) for h, tokens in ((32, (1, 16, 64)), (64, (1, 64))) for m in tokens]
    assert asked == [
        *(("matmul", s, d, "here") for s in matmuls for d in ("float32", "bfloat16")),
        *(("softmax", s, "float32", p) for s in ((1, 32), (16, 32), (64, 32), (7, 9)) for p in ("here", "there")),
    ]
    assert [found.models[journal.identity(e)] for e in found.manifest.entries][:8:7] == [("small",), ("large",)]
    assert len(sweep_file.load(file, models=["large"]).manifest.entries) == 4
    assert {e.kernel for e in sweep_file.load(file, targets=["there"]).manifest.entries} == {"softmax"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('n = "4*hidden"', 'n = "4*hiden"', "line 18, .*no model has a value 'hiden'; did you mean 'hidden'"),
        ('models = ["small"]', 'models = ["smal"]', "did you mean 'small'"),
        ("hidden = 32", "hidden = 3.2", r"line 8, \[models.small\]: hidden must be"),
        ("hidden = 32", "n-heads = 32", "cannot be named"),
        ('models = ["small"]', 'shapes = ["m=1,n=1"]', "not both"),
        ('shape = { m = "tokens"', 'shape = { q = "tokens"', "matmul"),
        ('{ m = "tokens", n = "hidden" }', '{ m = "tokens - 1", n = "hidden" }', "is 0 where tokens=1"),
        ("[models.large]", "[modells.large]", "unknown key 'modells'"),
        ("tokens = [1, 64]", "tokens = [1, 64]\nx = 1\n[models.empty]", "a model has values"),
    ],
)
def test_a_mistake_is_named_before_anything_is_tuned(file: Path, old: str, new: str, said: str) -> None:
    assert old in SWEEP
    file.write_text(SWEEP.replace(old, new))
    with pytest.raises(UsageError, match=said):
        sweep_file.load(file)
    file.write_text(SWEEP)
    with pytest.raises(UsageError, match="has no model 'huge'"):
        sweep_file.load(file, models=["huge"])


def test_entries_that_share_a_kernel_wait_for_the_nearest(file: Path) -> None:
    found = sweep_file.load(file)
    plan = order(found.manifest.entries)
    assert sorted(map(journal.identity, plan.entries)) == sorted(map(journal.identity, found.manifest.entries))
    for i, (e, above) in enumerate(zip(plan.entries, plan.after, strict=True)):
        if above is not None:
            a = plan.entries[above]
            assert above < i and plan.depth[i] == plan.depth[above] + 1
            assert (a.kernel, a.dtype, a.place) == (e.kernel, e.dtype, e.place) and a.shape != e.shape
    roots = [e for e, above in zip(plan.entries, plan.after, strict=True) if above is None]
    assert len(roots) == len({(e.kernel, e.dtype, e.place.name) for e in found.manifest.entries}) == 4
    assert list(plan.depth) == sorted(plan.depth) and plan.longest < len(plan.entries)


def test_the_tree_is_the_smallest() -> None:
    """Against every spanning tree of five points, which their Prüfer sequences count."""
    rng = random.Random(3)
    for _ in range(5):
        points = [[float(rng.randrange(9)), float(rng.randrange(9))] for _ in range(5)]

        def length(edges: Any, points: list[list[float]] = points) -> float:
            return sum(abs(points[a][0] - points[b][0]) + abs(points[a][1] - points[b][1]) for a, b in edges)

        every = []
        for sequence in itertools.product(range(5), repeat=3):
            degree, edges = [1 + sequence.count(i) for i in range(5)], []
            for s in sequence:
                leaf = degree.index(1)
                edges.append((leaf, s))
                degree[leaf] -= 1
                degree[s] -= 1
            edges.append(tuple(i for i in range(5) if degree[i] == 1))
            every.append(length(edges))
        found = [(a, b) for a, b in shortest(points) if b is not None]
        assert len(found) == 4 and math.isclose(length(found), min(every))
    assert tree([]) == [] and tree([[1.0]]) == [(0, None)]


def test_the_journal_survives_a_torn_line_and_knows_what_was_lost(file: Path) -> None:
    first, second, third, *_ = sweep_file.load(file).manifest.entries
    path = journal.path_of(file)
    with SweepJournal(path) as kept:
        with pytest.raises(UsageError, match="another sweep is writing"):
            SweepJournal(path)
        kept.begun(first)
        kept.ended(Done(first, TUNED))
        kept.begun(second)
        kept.ended(Done(second, FAILED, message="it\nbroke"))
        kept.ended(Done(third, ELSEWHERE))
        kept.begun(third)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"entry": "torn')
    with SweepJournal(path) as kept:
        stories = kept.stories
        kept.begun(third)
    assert path.read_bytes().startswith(whole) and path.read_bytes().count(b"\n") == whole.count(b"\n") + 1
    assert [stories[journal.identity(e)].event for e in (first, second, third)] == ["tuned", "failed", "begun"]
    assert stories[journal.identity(second)].message == "it\nbroke"
    assert not journal.deadly([first, second, third], stories)
    assert journal.deadly([first, second, third], journal.read(path)) == [third]
    with SweepJournal(path, forget=[third]) as kept:
        assert set(kept.stories) == {journal.identity(first), journal.identity(second)}
        kept.begun(third)
    assert journal.read(path)[journal.identity(third)].lost == 1


def test_only_a_journal_is_written(tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    for text, said in (("my notes\n", "not valid JSON"), ('{"a": 1}\n', "not the journal"), ("my notes", "not the journal")):
        other.write_text(text)
        with pytest.raises(UsageError, match=said):
            SweepJournal(other)
        assert other.read_text() == text
    other.write_bytes(journal._HEAD + b'\n{"entry": 1}\n')
    with pytest.raises(UsageError, match="line 2, is no event"):
        journal.read(other)
    with pytest.raises(UsageError, match="cannot write"):
        SweepJournal(tmp_path / "no/folder.jsonl")


def test_a_long_row_goes_from_coarse_to_fine() -> None:
    points = [[float(i)] for i in range(400)]
    depth: dict[int | None, int] = {None: -1}
    for child, before in tree(points):
        assert child not in depth and before in depth
        depth[child] = depth[before] + 1
    assert len(depth) == 401 and max(depth.values()) < LONGEST
    first = sorted(p for p, _ in tree(points)[:9])
    assert max(b - a for a, b in itertools.pairwise([0, *first, 399])) <= 60, "the range is covered early"


def test_a_journal_is_a_regular_file(tmp_path: Path) -> None:
    import os

    from tilewright.search.manifest import sweep_file as journals

    os.mkfifo(tmp_path / "fifo")  # which nobody writes: reading it would wait for ever
    (tmp_path / "notes.md").write_text("# Notes\n")
    for name in ("fifo", "notes.md", "."):
        with pytest.raises(UsageError, match="journal"):
            journals.SweepJournal(tmp_path / name)
    assert (tmp_path / "notes.md").read_text() == "# Notes\n" and journals.read(tmp_path / "none") == {}
