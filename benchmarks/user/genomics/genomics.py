"""Genomics: k-mers, alignments, motifs, hidden Markov models, trees.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, float64, int8, int16, int32, int64, log, maximum, minimum, uint8, where


def canonical_kmers(n: int = 50021) -> Kernel:
    """The lesser hash of every 21 letters and of their reverse complement, which of the two it is, and the least of all."""
    kb = KernelBuilder("canonical_kmers")
    i, k, r, z = kb.axis("n", n), kb.axis("k", 21), kb.axis("k@back", 21), kb.axis("n@least", n)
    x = kb.input("x", (n + 20,), uint8, range=(0, 3))
    ahead = kb.sum("ahead", (i,), k, cast(x[i + k], int64) << (2 * (20 - k)))
    back = kb.sum("back", (i,), r, cast(3 - x[i + 20 - r], int64) << (2 * (20 - r)))

    def mixed(v: Any) -> Any:
        return (v * v * 0x9E3779B97F4A7C1 + v * 0x2545F4914F6CDD1D) ^ (v >> 17)

    key = kb.value("key", (i,), minimum(mixed(ahead[i]), mixed(back[i])))
    least = kb.min("low", (), z, key[z])
    kb.store("hash", int64, (n,), (i,), key[i])
    kb.store("turned", uint8, (n,), (i,), cast(mixed(back[i]) < mixed(ahead[i]), uint8))
    kb.store("least", int64, (1,), (), least[()], (0,))
    return kb.build()


def tree_likelihood(s: int = 4001) -> Kernel:
    """Felsenstein's pruning at the root: four rates by four bases from both children, rescaled, and the log-likelihood."""
    kb = KernelBuilder("tree_likelihood")
    i, r, a = kb.axis("s", s), kb.axis("r", 4), kb.axis("a", 4)
    left, right = (kb.input(name, (s, 4, 4), float64, range=(0.01, 1.0)) for name in ("left", "right"))
    pl, pr = (kb.input(name, (4, 4, 4), float64, range=(0.05, 0.9)) for name in ("pl", "pr"))
    scale, weight = kb.input("scale", (s,), float64), kb.input("weight", (s,), int32, range=(1, 20))
    base = kb.input("base", (4,), float64, range=(0.1, 0.4))
    b, c = kb.axis("b", 4), kb.axis("c", 4)
    x = kb.sum("x", (i, r, a), b, pl[r, a, b] * left[i, r, b])
    y = kb.sum("y", (i, r, a), c, pr[r, a, c] * right[i, r, c])
    both = kb.value("both", (i, r, a), x[i, r, a] * y[i, r, a])
    rt, at, rl, al, q = kb.axis("r@top", 4), kb.axis("a@top", 4), kb.axis("r@like", 4), kb.axis("a@like", 4), kb.axis("s@all", s)
    top = kb.max("top", (i,), (rt, at), both[i, rt, at])
    like = kb.sum("like", (i,), (rl, al), base[al] * both[i, rl, al])
    known = kb.value("known", (i,), log(like[i] * 0.25) + scale[i])
    total = kb.sum("total", (), q, known[q] * cast(weight[q], float64))
    kb.store("root", float64, (s, 4, 4), (i, r, a), both[i, r, a] / top[i])
    kb.store("scaled", float64, (s,), (i,), scale[i] + log(top[i]))
    kb.store("likelihood", float64, (1,), (), total[()], (0,))
    return kb.build()


def pileup(n: int = 2000, l: int = 75, g: int = 5000) -> Kernel:
    """How often each of four letters was read at each place of a genome, by reads that begin anywhere, if well enough."""
    kb = KernelBuilder("pileup")
    i, j = kb.axis("n", n), kb.axis("l", l)
    read, good = kb.input("read", (n, l), uint8, range=(0, 3)), kb.input("good", (n, l), uint8, range=(0, 41))
    start = kb.input("start", (n,), int32, range=(0, g - l))
    place = cast(start[i], int64) + j
    kb.store("y", int32, (g, 4), (i, j), 1, (place, cast(read[i, j], int64)), combine="add", mask=good[i, j] >= 20)
    return kb.build()


def kmer_counts(n: int = 1 << 20, v: int = 1024) -> Kernel:
    """How often each word of five letters occurs in a sequence of four letters."""
    kb = KernelBuilder("kmer_counts")
    i = kb.axis("n", n)
    x = kb.input("x", (n + 4,), uint8, range=(0, 3))
    word = cast(x[i], int32)
    for k in range(1, 5):
        word = (word << 2) | cast(x[i + k], int32)
    kb.store("count", int32, (v,), (i,), 1, (cast(word & (v - 1), "int64"),), combine="add")
    return kb.build()


def smith_waterman_row(b: int = 4096, n: int = 256) -> Kernel:
    """The next row of the local alignments of many pairs, given the one before; gaps cost three a letter."""
    kb = KernelBuilder("smith_waterman_row")
    i, j = kb.axis("b", b), kb.axis("n", n)
    above = kb.input("above", (b, n + 1), int16, range=(0, 500))
    text, letter = kb.input("text", (b, n), uint8, range=(0, 3)), kb.input("letter", (b,), uint8, range=(0, 3))
    same = cast(above[i, j], int32) + 3 * cast(text[i, j].eq(letter[i]), int32) - 1
    here = maximum(maximum(same, cast(above[i, j + 1], int32) - 3), 0)
    best = kb.scan("max", "best", (i, j), j, here + 3 * cast(j, int32))
    kb.store("y", int16, (b, n), (i, j), best[i, j] - 3 * cast(j, int32))
    return kb.build()


def motif_scores(n: int = 40009, k: int = 12) -> Kernel:
    """How well a motif of k letters fits a genome at each place, on the better strand, and which that is."""
    kb = KernelBuilder("motif_scores")
    i, p, q = kb.axis("n", n), kb.axis("k@there", k), kb.axis("k@back", k)
    letter, w = kb.input("letter", (n + k - 1,), uint8, range=(0, 3)), kb.input("w", (k, 4), float32)
    there = kb.sum("there", (i,), p, w[p, cast(letter[i + p], int64)])
    back = kb.sum("back", (i,), q, w[k - 1 - q, 3 - cast(letter[i + q], int64)])
    kb.store("score", float32, (n,), (i,), maximum(there[i], back[i]))
    kb.store("sum", float32, (n,), (i,), there[i] + back[i])
    return kb.build()


def hmm_two_states(b: int = 251, t: int = 211) -> Kernel:
    """A hidden Markov model of two states (islands of CpG): how sure the second is after each letter, and how likely all are."""
    kb = KernelBuilder("hmm_two_states")
    i, j = kb.axis("b", b), kb.axis("t", t)
    seen, start = kb.input("seen", (b, t), uint8, range=(0, 3)), kb.input("start", (2,), float64, range=(0.2, 0.8))
    turn = kb.input("turn", (2, 2), float64, range=(0.2, 0.8))
    emit = kb.input("emit", (2, 4), float64, range=(0.1, 0.9))

    def rule(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x[2 * p] * y[q] + x[2 * p + 1] * y[2 + q] for p in range(2) for q in range(2))

    step = tuple(turn[p, q] * emit[q, seen[i, j]] for p in range(2) for q in range(2))
    m = kb.associative_scan(("m00", "m01", "m10", "m11"), (i, j), j, step, (1.0, 0.0, 0.0, 1.0), rule)

    def state(q: int, at: Any) -> Any:
        return start[0] * m[q][i, at] + start[1] * m[2 + q][i, at]

    kb.store("second", float64, (b, t), (i, j), state(1, j) / (state(0, j) + state(1, j)))
    kb.store("likely", float64, (b,), (i,), log(state(0, t - 1) + state(1, t - 1)))
    return kb.build()


def hmm_log_step(b: int = 61, s: int = 128, v: int = 40) -> Kernel:
    """A step forward of hidden Markov models of many states, in logarithms."""
    kb = KernelBuilder("hmm_log_step")
    n, j, (p, q) = kb.axis("b", b), kb.axis("s", s), (kb.axis(f"s@{e}", s) for e in ("top", "sum"))
    alpha, turn = kb.input("alpha", (b, s), float32), kb.input("turn", (s, s), float32)
    emit, seen = kb.input("emit", (s, v), float32), kb.input("seen", (b,), int32, range=(0, v - 1))
    top = kb.max("top", (n, j), p, alpha[n, p] + turn[p, j])
    total = kb.sum("total", (n, j), q, exp(alpha[n, q] + turn[q, j] - top[n, j]))
    kb.store("y", float32, (b, s), (n, j), emit[j, seen[n]] + top[n, j] + log(total[n, j]))
    return kb.build()


def xdrop_extensions(n: int = 9001, l: int = 64, q: int = 350, d: int = 50021) -> Kernel:
    """Hits of a protein in a database, each made longer for as long as its score is at most 20 below the best so far."""
    kb = KernelBuilder("xdrop_extensions")
    i, t, a, b, c = kb.axis("n", n), kb.axis("l@score", l), kb.axis("l@first", l), kb.axis("l@best", l), kb.axis("l@length", l)
    query, data = (kb.input(name, (m + l,), uint8, range=(0, 19)) for name, m in (("query", q), ("data", d)))
    score = kb.input("score", (20, 20), int8, range=(-6, 6))
    left, right = (kb.input(name, (n,), int32, range=(0, m - 1)) for name, m in (("left", q), ("right", d)))
    pair = score[query[left[i] + cast(t, int32)], data[right[i] + cast(t, int32)]]
    total = kb.scan("add", "total", (i, t), t, cast(pair, int32))
    high = kb.scan("max", "high", (i, t), t, maximum(total[i, t], 0))
    first = kb.min("first", (i,), a, where(high[i, a] - total[i, a] > 20, cast(a, int32), l))
    best = kb.max("best", (i,), b, where(cast(b, int32) < first[i], maximum(total[i, b], 0), 0))
    place = kb.argmax("place", (i,), c, where(cast(c, int32) < first[i], total[i, c], 0))
    kb.store("gain", int32, (n,), (i,), best[i])
    kb.store("length", int16, (n,), (i,), cast(where(best[i] > 0, place[i] + 1, 0), int16))
    return kb.build()


def _first(found: Any, at: Any, end: int) -> Any:
    from tilewright.ir import where

    return where(found, cast(at, int32), end)


def viterbi_step(b: int = 1024, p: int = 96, s: int = 96) -> Kernel:
    """A step of Viterbi's algorithm for many sequences: the best way into every state, and the first state that it is from."""
    kb = KernelBuilder("viterbi_step")
    i, t, r, r2 = kb.axis("b", b), kb.axis("s", s), kb.axis("p@best", p), kb.axis("p@from", p)
    score, move = kb.input("score", (b, p), float32), kb.input("move", (p, s), float32)
    seen = kb.input("seen", (b, s), float32)
    best = kb.max("best", (i, t), r, score[i, r] + move[r, t])
    came = kb.min("came", (i, t), r2, _first((score[i, r2] + move[r2, t]).eq(best[i, t]), r2, p))
    kb.store("next", float32, (b, s), (i, t), best[i, t] + seen[i, t])
    kb.store("back", int32, (b, s), (i, t), came[i, t])
    return kb.build()
