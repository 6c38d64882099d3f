"""Text: bytes of lines, edit distances, counts and scores of terms, alignment of speech.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, int16, int32, int64, log, maximum, minimum, rsqrt, uint8, where


def lcp_of_suffixes(n: int = 60013, l: int = 16) -> Kernel:
    """How many letters (l at most) each suffix of a text has in common with the next one in a suffix array."""
    kb = KernelBuilder("lcp_of_suffixes")
    i, k = kb.axis("n", n - 1), kb.axis("l", l)
    text, order = kb.input("text", (n + l,), "uint8", range=(97, 99)), kb.input("order", (n,), "int32", range=(0, n - 1))
    apart = text[order[i] + cast(k, "int32")].ne(text[order[i + 1] + cast(k, "int32")])
    kb.store("lcp", "uint8", (n - 1,), (i,), kb.min("first", (i,), k, where(apart, cast(k, "uint8"), l))[i])
    return kb.build()


def utf8_check(b: int = 6007, l: int = 480) -> Kernel:
    """How many characters each line of UTF-8 has, and where its first byte is that can't be there (l: nowhere)."""
    kb = KernelBuilder("utf8_check")
    i, j, k = kb.axis("b", b), kb.axis("l@count", l), kb.axis("l@bad", l)
    x = kb.input("x", (b, l), "uint8")

    def follows(at: Any) -> Any:
        return (x[i, at] & 0xC0).eq(0x80)

    due = (x.masked(k >= 1, i, k - 1) >= 0xC0) | (x.masked(k >= 2, i, k - 2) >= 0xE0) | (x.masked(k >= 3, i, k - 3) >= 0xF0)
    bad = (due ^ follows(k)) | (x[i, k] >= 0xF8)
    kb.store("characters", "int32", (b,), (i,), kb.sum("many", (i,), j, ~follows(j))[i])
    kb.store("bad", "int32", (b,), (i,), kb.min("first", (i,), k, where(bad, cast(k, "int32"), l))[i])
    return kb.build()


def byte_words(n: int = 300, l: int = 400) -> Kernel:
    """How many words and digits each line has, by a table of classes: a word begins where a letter follows none."""
    kb = KernelBuilder("byte_words")
    i, a, b = kb.axis("n", n), kb.axis("pairs", l - 1), kb.axis("l", l)
    text, kind = kb.input("text", (n, l), uint8), kb.input("kind", (256,), uint8, range=(0, 3))

    def of(j: Any) -> Any:
        return kind[cast(text[i, j], int64)]

    begin = kb.sum("begin", (i,), a, cast(of(a + 1).eq(1) & of(a).ne(1), int32))
    digit = kb.sum("digit", (i,), b, cast(of(b).eq(2), int32))
    kb.store("words", int32, (n,), (i,), begin[i] + cast(of(0).eq(1), int32))
    kb.store("digits", int32, (n,), (i,), digit[i])
    return kb.build()


def csv_marks(c: int = 61, n: int = 67) -> Kernel:
    """Which commas and ends of lines are outside quotes, a bit for each of 64 n bytes of a part of a text, and how many there are."""
    kb = KernelBuilder("csv_marks")
    i, k, o = kb.axis("c", c), kb.axis("at", 64 * n), kb.axis("at@count", 64 * n)
    word, bit = kb.axis("word", n), kb.axis("bit", 64)
    x = kb.input("x", (c, 64 * n), uint8)
    quoted = kb.scan("xor", "quoted", (i, k), k, x[i, k].eq(34))

    def mark(at: Any) -> Any:
        return (x[i, at].eq(44) | x[i, at].eq(10)) & ~quoted[i, at]

    bits = kb.reduce("or", "bits", (i, word), bit, where(mark(64 * word + bit), cast(1, "uint64") << cast(bit, "uint64"), 0))
    many = kb.sum("many", (i,), o, mark(o))
    kb.store("marks", "uint64", (c, n), (i, word), bits[i, word])
    kb.store("fields", int32, (c,), (i,), many[i])
    return kb.build()


def edit_rows(b: int = 4096, n: int = 256) -> Kernel:
    """The next row of the edit distances of many texts, given the one before: what is left is a running minimum."""
    kb = KernelBuilder("edit_rows")
    i, j = kb.axis("b", b), kb.axis("n", n)
    above = kb.input("above", (b, n + 1), int32, range=(0, 1000))
    text, letter = kb.input("text", (b, n), uint8, range=(97, 100)), kb.input("letter", (b,), uint8, range=(97, 100))
    change = above[i, j] + cast(text[i, j].ne(letter[i]), int32)
    way = minimum(above[i, j + 1] + 1, change) - cast(j, int32)
    least = kb.scan("min", "least", (i, j), j, way)
    start = above[i, 0] + 2
    kb.store("y", int32, (b, n), (i, j), minimum(least[i, j] + cast(j, int32), start + cast(j, int32)))
    return kb.build()


def text_like(n: int = 40009, l: int = 48, p: int = 5) -> Kernel:
    """Rows of text of their own lengths: where a pattern is first found in any case, or -1, and how many rows have it."""
    kb = KernelBuilder("text_like")
    i, at, c, r = kb.axis("n", n), kb.axis("at", l - p + 1), kb.axis("p", p), kb.axis("n@rows", n)
    text, length = kb.input("text", (n, l), uint8, range=(97, 100)), kb.input("length", (n,), uint8, range=(p, l))
    pattern = kb.input("pattern", (p,), uint8, range=(97, 100))
    same = kb.min("same", (i, at), c, (text[i, at + c] | 32).eq(pattern[c]))
    fits = cast(at, int32) + p <= cast(length[i], int32)
    first = kb.min("first", (i,), at, where(same[i, at] & fits, cast(at, int32), l))
    kb.store("place", int16, (n,), (i,), cast(where(first[i].eq(l), -1, first[i]), int16))
    kb.store("rows", int32, (1,), (), kb.sum("found", (), r, first[r] < l)[()], (0,))
    return kb.build()


def tf_idf(n: int = 700, t: int = 1201) -> Kernel:
    """Counts of terms in documents, weighted by how few documents have the term, each document scaled to length 1."""
    kb = KernelBuilder("tf_idf")
    i, j = kb.axis("n", n), kb.axis("t", t)
    d, s = kb.axis("n@df", n), kb.axis("t@norm", t)
    count = kb.input("count", (n, t), float32, range=(0.0, 9.0))
    df = kb.sum("df", (j,), d, where(count[d, j] > 2.0, 1.0, 0.0))
    idf = kb.value("idf", (j,), log((n + 1.0) / (df[j] + 1.0)) + 1.0)
    length = kb.sum("length", (i,), s, (count[i, s] * idf[s]) ** 2)
    kb.store("y", float32, (n, t), (i, j), count[i, j] * idf[j] * rsqrt(length[i] + 1e-12))
    return kb.build()


def bm25_scores(b: int = 50, t: int = 6, v: int = 400, p: int = 1501, n: int = 20011) -> Kernel:
    """BM25 scores of n documents for queries of t words: postings of a word are padded, lengths of documents are bytes into a table."""
    kb = KernelBuilder("bm25_scores")
    i, k, j = kb.axis("b", b), kb.axis("t", t), kb.axis("p", p)
    word = kb.input("word", (b, t), int32, range=(0, v - 1))
    doc, times = kb.input("doc", (v, p), int32, range=(0, n - 1)), kb.input("times", (v, p), uint8, range=(1, 30))
    many, rare = kb.input("many", (v,), int32, range=(0, p)), kb.input("rare", (v,), float32, range=(0.5, 9.0))
    size, norm = kb.input("size", (n,), uint8), kb.input("norm", (256,), float32, range=(0.3, 4.0))
    w = word[i, k]
    at, often = doc[w, j], cast(times[w, j], float32)
    score = rare[w] * 2.2 * often / (often + norm[size[at]])
    kb.store("y", float32, (b, n), (i, k, j), score, (i, cast(at, int64)), combine="add", mask=cast(j, int32) < many[w])
    return kb.build()


def ctc_step(b: int = 128, l: int = 100, v: int = 64) -> Kernel:
    """A step forward of CTC in logarithms, for labels with blanks (0) between; a blank is skipped between different labels."""
    kb = KernelBuilder("ctc_step")
    i, j = kb.axis("b", b), kb.axis("state", 2 * l + 1)
    alpha, logp = kb.input("alpha", (b, 2 * l + 1), "float32"), kb.input("logp", (b, v), "float32")
    label = kb.input("label", (b, l), "int32", range=(1, v - 1))
    odd = (j % 2).eq(1)
    this = label.masked(odd, i, j // 2)
    skips = odd & (j >= 3) & this.ne(label.masked(odd & (j >= 3), i, j // 2 - 1))
    stay = alpha[i, j]
    go = where(j >= 1, alpha.masked(j >= 1, i, j - 1), -1e30)
    skip = where(skips, alpha.masked(j >= 2, i, j - 2), -1e30)
    top = kb.value("top", (i, j), maximum(maximum(stay, go), skip))
    total = exp(stay - top[i, j]) + exp(go - top[i, j]) + exp(skip - top[i, j])
    kb.store("new", "float32", (b, 2 * l + 1), (i, j), logp[i, this] + top[i, j] + log(total))
    return kb.build()
