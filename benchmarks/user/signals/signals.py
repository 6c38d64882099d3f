"""Signals: audio, speech, radio and radar; filters, correlations and transforms.

Each function makes a kernel of its sizes; the file of its name with `.c` has the same loops (`../cases.toml`, `../../vs_c.py`)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    Kernel,
    KernelBuilder,
    Node,
    absolute,
    atan2,
    cast,
    clip,
    const,
    cos,
    exp,
    exp2,
    float32,
    float64,
    floor,
    int8,
    int16,
    int32,
    int64,
    log,
    log2,
    maximum,
    minimum,
    round_even,
    sin,
    sqrt,
    tanh,
    uint8,
    where,
)


def gps_correlator(k: int = 9, n: int = 16368) -> Kernel:
    """A millisecond of noise against the codes of k satellites: early, prompt and late sums, by phases of 32 bits."""
    kb = KernelBuilder("gps_correlator")
    i, e = kb.axis("k", k), kb.axis("tap", 3)
    x, code = kb.input("x", (n, 2), "int8", range=(-3, 3)), kb.input("code", (k, 1024), "int8", range=(-1, 1))
    wave = kb.input("wave", (256, 2), "int8", range=(-16, 16))
    chip, rate, turn, speed = (kb.input(name, (k,), "uint32") for name in ("chip", "rate", "turn", "speed"))
    for c, name in enumerate(("in_phase", "quadrature")):
        j = kb.axis(f"n@{name}", n)
        t = cast(j, "uint32")
        at = (turn[i] + t * speed[i]) >> 24
        re, im, co, si = (cast(v, "int32") for v in (x[j, 0], x[j, 1], wave[at, 0], wave[at, 1]))
        mixed = re * co + im * si if c == 0 else im * co - re * si
        place = (chip[i] + t * rate[i] + (cast(e, "uint32") << 21)) >> 22
        total = kb.sum(name, (i, e), j, mixed * cast(code[i, place], "int32"))
        kb.store("y", "int32", (k, 3, 2), (i, e), total[i, e], (i, e, c))
    return kb.build()


def complex_window(m: int = 1024, n: int = 1024) -> Kernel:
    """Rows of complex numbers times a real window and turned by a row of phases."""
    kb = KernelBuilder("complex_window")
    i, j, e = kb.axis("m", m), kb.axis("n", n), kb.axis("part", 2)
    x, window, turn = kb.input("x", (m, n, 2), float32), kb.input("window", (n,), float32), kb.input("turn", (n, 2), float32)
    real = x[i, j, 0] * turn[j, 0] - x[i, j, 1] * turn[j, 1]
    imaginary = x[i, j, 0] * turn[j, 1] + x[i, j, 1] * turn[j, 0]
    kb.store("y", float32, (m, n, 2), (i, j, e), window[j] * where(e.eq(0), real, imaginary))
    return kb.build()


def long_fir(n: int = 1 << 19, k: int = 255) -> Kernel:
    """A long filter."""
    kb = KernelBuilder("long_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), float32), kb.input("w", (k,), float32)
    total = kb.sum("total", (i,), l, x[i + l] * w[l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def decimate(n: int = 1 << 18, k: int = 48) -> Kernel:
    """Every fourth sample of a filtered signal."""
    kb = KernelBuilder("decimate")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (4 * n + k,), float32), kb.input("w", (k,), float32)
    total = kb.sum("total", (i,), l, x[4 * i + l] * w[l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def short_fir(n: int = 1 << 21, k: int = 8) -> Kernel:
    """A short filter of 16-bit samples."""
    kb = KernelBuilder("short_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (k,), int16, range=(-4000, 4000))
    total = kb.sum("total", (i,), l, cast(x[i + l], int32) * cast(w[l], int32))
    kb.store("y", int16, (n,), (i,), cast(minimum(maximum(total[i] >> 15, -32768), 32767), int16))
    return kb.build()


def polyphase(n: int = 1 << 19, k: int = 32) -> Kernel:
    """16-bit samples at twice the rate: each of two phases has taps of its own."""
    kb = KernelBuilder("polyphase")
    i, p, l = kb.axis("n", n), kb.axis("phase", 2), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (2, k), int16, range=(-900, 900))
    total = kb.sum("total", (i, p), l, cast(x[i + l], int32) * cast(w[p, l], int32))
    kb.store("y", int16, (n, 2), (i, p), cast(minimum(maximum(total[i, p] >> 15, -32768), 32767), int16))
    return kb.build()


def yin_pitch(f: int = 40, w: int = 512, l: int = 200, hop: int = 160) -> Kernel:
    """The period of each frame by the YIN method: the first lag whose difference is small beside the mean of those before."""
    kb = KernelBuilder("yin_pitch")
    i, k, j = kb.axis("f", f), kb.axis("l", l), kb.axis("w", w)
    x = kb.input("x", ((f - 1) * hop + w + l,), "int16", range=(-8000, 8000))
    move = cast(x[i * hop + j], "int32") - cast(x[i * hop + j + k + 1], "int32")
    d = kb.sum("d", (i, k), j, cast(move * move, "int64"))
    upto = kb.scan("add", "upto", (i, k), k, d[i, k])
    norm = kb.value("norm", (i, k), cast(d[i, k], "float64") * cast(k + 1, "float64") / maximum(cast(upto[i, k], "float64"), 1.0))
    p, q = kb.axis("l@first", l), kb.axis("l@least", l)
    first = kb.min("first", (i,), p, where(norm[i, p] < 0.97, cast(p, "int32"), l))
    least = kb.argmin("least", (i,), q, norm[i, q])
    kb.store("lag", "int32", (f,), (i,), where(first[i] < l, first[i], least[i]) + 1)
    kb.store("dip", "float32", (f, l), (i, k), norm[i, k])
    return kb.build()


def stereo_limiter(n: int = 96001) -> Kernel:
    """A compressor for both sides together: a peak that decays, four to one above a knee of 0.5, and the least gain."""
    kb = KernelBuilder("stereo_limiter")
    t, c, q = kb.axis("n", n), kb.axis("c", 2), kb.axis("n@least", n)
    x = kb.input("x", (n, 2), "float32")
    peak = maximum(absolute(x[t, 0]), absolute(x[t, 1]))

    def rule(a: Any, b: Any) -> Any:
        return a[0] * b[0], maximum(a[1] * b[0], b[1])

    _, held = kb.associative_scan(("p", "held"), (t,), t, (const(0.9995, float32), peak), (1.0, 0.0), rule)
    gain = kb.value("gain", (t,), exp2(maximum(log2(held[t] + 1e-6) + 1.0, 0.0) * -0.75))
    least = kb.min("least", (), q, gain[q])
    kb.store("y", "float32", (n, 2), (t, c), x[t, c] * gain[t])
    kb.store("most_reduced", "float32", (1,), (), least[()], (0,))
    return kb.build()


def audio_mix(t: int = 8, n: int = 1 << 19) -> Kernel:
    """Tracks of 16-bit samples, each with a volume (a fraction of 1 << 14), mixed into one that clips."""
    kb = KernelBuilder("audio_mix")
    i, l = kb.axis("n", n), kb.axis("t", t)
    x, volume = kb.input("x", (t, n), int16, range=(-32768, 32767)), kb.input("volume", (t,), int16, range=(0, 16384))
    total = kb.sum("total", (i,), l, (cast(x[l, i], int32) * cast(volume[l], int32)) >> 14)
    kb.store("y", int16, (n,), (i,), cast(minimum(maximum(total[i], -32768), 32767), int16))
    return kb.build()


def mfcc(f: int = 2495, b: int = 257, m: int = 40, c: int = 13) -> Kernel:
    """Cepstra of frames: each band sums the 24 bins from its first on, then logarithms, a cosine transform, and the mean over time off."""
    kb = KernelBuilder("mfcc")
    t, v, o, k, l, a = kb.axis("f", f), kb.axis("m", m), kb.axis("c", c), kb.axis("bin", 24), kb.axis("m@dct", m), kb.axis("f@mean", f)
    power, first = kb.input("power", (f, b), float32, range=(0.001, 10.0)), kb.input("first", (m,), int32, range=(0, b - 24))
    weight, dct = kb.input("weight", (m, 24), float32, range=(0.01, 1.0)), kb.input("dct", (c, m), float32, range=(-0.3, 0.3))
    band = kb.sum("band", (t, v), k, power[t, cast(first[v], int64) + k] * weight[v, k])
    cep = kb.sum("cep", (t, o), l, log(band[t, l] + 1e-6) * dct[o, l])
    mean = kb.sum("mean", (o,), a, cep[a, o])
    kb.store("y", float32, (f, c), (t, o), cep[t, o] - mean[o] * (1.0 / f))
    return kb.build()


def fm_receiver(c: int = 11, n: int = 48001) -> Kernel:
    """Sound (16 bits) of frequency-modulated stations: the turn from each complex sample to the next, de-emphasised."""
    kb = KernelBuilder("fm_receiver")
    e, t = kb.axis("c", c), kb.axis("n", n)
    x = kb.input("x", (c, n + 1, 2), int16)
    a, b = (cast(cast(x[e, t, p], int32), float32) for p in range(2))
    p, q = (cast(cast(x[e, t + 1, p], int32), float32) for p in range(2))
    turn = kb.value("turn", (e, t), 0.25 * atan2(a * q - b * p, a * p + b * q))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, Any]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    keep = kb.value("keep", (e, t), cast(0.75, float32))
    _, sound = kb.associative_scan(("fade", "sound"), (e, t), t, (keep[e, t], turn[e, t]), (1.0, 0.0), rule)
    kb.store("y", int16, (c, n), (e, t), cast(round_even(sound[e, t] * 9000.0), int16))
    return kb.build()


def qam64_soft_bits(s: int = 14, k: int = 1201) -> Kernel:
    """How sure the six bits of received 64-QAM symbols are, in bytes; each of k carriers has a weight of its own."""
    kb = KernelBuilder("qam64_soft_bits")
    i, j, c = kb.axis("s", s), kb.axis("k", k), kb.axis("c", 2)
    x, weight = kb.input("x", (s, k, 2), int16, range=(-8000, 8000)), kb.input("weight", (k,), uint8)
    first = cast(x[i, j, c], int32)
    second = 4096 - absolute(first)
    third = 2048 - absolute(second)
    for bit, v in enumerate((first, second, third)):
        soft = clip((v * cast(weight[j], int32) + 2048) >> 12, -127, 127)
        kb.store("y", int8, (s, k, 3, 2), (i, j, c), cast(soft, int8), (i, j, bit, c))
    return kb.build()


def segment_power(s: int = 4096, n: int = 256, k: int = 128) -> Kernel:
    """The mean power of windowed pieces of a signal, of which each begins k samples after the one before."""
    kb = KernelBuilder("segment_power")
    i, j = kb.axis("s", s), kb.axis("n", n)
    x, window = kb.input("x", ((s - 1) * k + n,), float32), kb.input("window", (n,), float32)
    power = kb.sum("power", (i,), j, (x[i * k + j] * window[j]) ** 2)
    kb.store("y", float32, (s,), (i,), power[i] * (1.0 / n))
    return kb.build()


def peak_meters(b: int = 6, f: int = 251, s: int = 480) -> Kernel:
    """What a meter shows of stereo sound after every s samples (it rises at once and falls slowly), and how many samples were clipped."""
    kb = KernelBuilder("peak_meters")
    i, t, c, k = kb.axis("b", b), kb.axis("t", f * s), kb.axis("c", 2), kb.axis("f", f)
    o = kb.axis("t@over", f * s)
    x = kb.input("x", (b, f * s, 2), int16, range=(-32768, 32767))
    loud = absolute(cast(x[i, t, c], float32))

    def rule(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        return before[0] * after[0], maximum(before[1] * after[0], after[1])

    _, peak = kb.associative_scan(("fall", "peak"), (i, t, c), t, (0.9995, loud), (1.0, 0.0), rule)
    over = kb.sum("over", (i, c), o, (x[i, o, c] > 32700) | (x[i, o, c] < -32700))
    kb.store("level", float32, (b, f, 2), (i, k, c), peak[i, s * k + s - 1, c] * (1 / 32768))
    kb.store("clipped", int32, (b, 2), (i, c), over[i, c])
    return kb.build()


def voice_frames(b: int = 3, f: int = 1201, l: int = 400, s: int = 160) -> Kernel:
    """Of each 25 ms of speech, every 10 ms: its energy, how often it crosses zero, and whether it may be a vowel."""
    n = (f - 1) * s + l
    kb = KernelBuilder("voice_frames")
    i, k, p, q = kb.axis("b", b), kb.axis("f", f), kb.axis("l", l), kb.axis("pairs", l - 1)
    x = kb.input("x", (b, n), int16, range=(-32768, 32767))
    v = cast(x[i, s * k + p], int64)
    energy = kb.sum("energy", (i, k), p, v * v)
    cross = kb.sum("cross", (i, k), q, (x[i, s * k + q] ^ x[i, s * k + q + 1]) < 0)
    vowel = (energy[i, k] > l * 357913941) & (cross[i, k] * 2 < l)
    kb.store("power", int64, (b, f), (i, k), energy[i, k])
    kb.store("crossings", int16, (b, f), (i, k), cast(cross[i, k], int16))
    kb.store("vowel", uint8, (b, f), (i, k), where(vowel, cast(1, uint8), 0))
    return kb.build()


def mirrored_bank(c: int = 5, n: int = 7001) -> Kernel:
    """A pair of mirror filters run backwards in time: lows ahead and highs behind in one row, and the strongest high with its place."""
    kb = KernelBuilder("mirrored_bank")
    i, j, k, l = kb.axis("c", c), kb.axis("n", n), kb.axis("k", 8), kb.axis("k@high", 8)
    p, q = kb.axis("n@best", n), kb.axis("n@place", n)
    x, t = kb.input("x", (c, 2 * n + 6), float32), kb.input("t", (8,), float32)
    low = kb.sum("low", (i, j), k, t[k] * x[i, 2 * n + 5 - 2 * j - k])
    high = kb.sum("high", (i, j), l, where((l % 2).eq(0), t[7 - l], -t[7 - l]) * x[i, 2 * n + 5 - 2 * j - l])
    top = kb.max("most", (i,), p, absolute(high[i, p]))
    place = kb.min("at", (i,), q, where(absolute(high[i, q]) >= 0.75 * top[i], cast(q, int32), n))
    kb.store("y", float32, (c, 2 * n), (i, j), low[i, j], (i, j))
    kb.store("y", float32, (c, 2 * n), (i, j), high[i, j], (i, 2 * n - 1 - j))
    kb.store("top", float32, (c,), (i,), top[i])
    kb.store("place", int32, (c,), (i,), place[i])
    return kb.build()


def phase_vocoder(f: int = 301, b: int = 1025) -> Kernel:
    """The loudness and the true frequency (in bins) of each bin of each frame, by how far its phase moved in a quarter window."""
    kb = KernelBuilder("phase_vocoder")
    i, j = kb.axis("f", f), kb.axis("b", b)
    x = kb.input("x", (f + 1, b, 2), float32)

    def phase(k: int) -> Any:
        return atan2(x[i + k, j, 1], x[i + k, j, 0])

    turn = (phase(1) - phase(0)) * 0.15915494 - cast(j % 4, float32) * 0.25
    off = turn - round_even(turn)
    kb.store("loud", float32, (f, b), (i, j), sqrt(x[i + 1, j, 0] ** 2 + x[i + 1, j, 1] ** 2))
    kb.store("bin", float32, (f, b), (i, j), cast(j, float32) + off * 4.0)
    return kb.build()


def chorus(n: int = 24001) -> Kernel:
    """A chorus on stereo of 16 bits: each side mixed with itself some time ago, a time that swings like a sine."""
    kb = KernelBuilder("chorus")
    i, c = kb.axis("n", n), kb.axis("c", 2)
    x, side = kb.input("x", (n + 801, 2), int16), kb.input("side", (2,), float32, range=(0.0, 3.0))
    ago = sin(cast(i, float32) * 1.9634954e-4 + side[c]) * 300.0 + 400.0
    whole = floor(ago)
    part, at = ago - whole, cast(i, int64) + 800 - cast(whole, int64)

    def wide(v: Any) -> Any:
        return cast(cast(v, int32), float32)

    late = wide(x[at, c]) * (1.0 - part) + wide(x[at - 1, c]) * part
    kb.store("y", int16, (n, 2), (i, c), cast(round_even(clip(wide(x[i + 800, c]) * 0.7 + late * 0.5, -32768.0, 32767.0)), int32))
    return kb.build()


def causal_conv(c: int = 512, t: int = 8192, k: int = 4) -> Kernel:
    """Each channel convolved with k taps of its own along time; nothing comes before the beginning. Channels first."""
    kb = KernelBuilder("causal_conv")
    i, j, l = kb.axis("c", c), kb.axis("t", t), kb.axis("k", k)
    x, w, bias = kb.input("x", (c, t), float32), kb.input("w", (c, k), float32), kb.input("bias", (c,), float32)
    total = kb.sum("total", (i, j), l, w[i, l] * x.masked(j - l >= 0, i, j - l))
    kb.store("y", float32, (c, t), (i, j), total[i, j] + bias[i])
    return kb.build()


def audio_fir(n: int = 1 << 20, k: int = 64) -> Kernel:
    """A filter of 16-bit audio: sums in 32 bits, rounded, saturated."""
    kb = KernelBuilder("audio_fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x, w = kb.input("x", (n + k - 1,), int16), kb.input("w", (k,), int16, range=(-900, 900))
    total = kb.sum("total", (i,), l, cast(x[i + l], int32) * cast(w[l], int32))
    y = minimum(maximum((total[i] + 16384) >> 15, -32768), 32767)
    kb.store("y", int16, (n,), (i,), cast(y, int16))
    return kb.build()


SG = (-36, 9, 44, 69, 84, 89, 84, 69, 44, 9, -36)


def savgol_channels(n: int = 12000, c: int = 6) -> Kernel:
    """Savitzky and Golay's smoothing (11 points, quadratic) of 16-bit channels that lie interleaved, ends repeated."""
    kb = KernelBuilder("savgol_channels")
    i, k = kb.axis("n", n), kb.axis("c", c)
    x = kb.input("x", (n, c), int16)
    total = None
    for o, w in enumerate(SG):
        v = cast(x[maximum(minimum(i + o - 5, n - 1), 0), k], int32) * w
        total = v if total is None else total + v
    kb.store("y", float32, (n, c), (i, k), cast(total, float32) * (1 / 429))
    return kb.build()


def autocorr_channels(n: int = 2000, c: int = 24, l: int = 20) -> Kernel:
    """Products of samples with later ones, summed over time, of interleaved channels; lags by channels."""
    kb = KernelBuilder("autocorr_channels")
    i, k, t = kb.axis("l", l), kb.axis("c", c), kb.axis("n", n - l)
    x = kb.input("x", (n, c), float32)
    total = kb.sum("total", (i, k), t, x[t, k] * x[t + i, k])
    kb.store("y", float32, (l, c), (i, k), total[i, k] * (1.0 / n))
    return kb.build()


def real_fft_split(b: int = 40, n: int = 512) -> Kernel:
    """The spectrum of real numbers from that of half as many complex ones: each meets the one from the other end."""
    kb = KernelBuilder("real_fft_split")
    i, k = kb.axis("b", b), kb.axis("n", n)
    z, w = kb.input("z", (b, n, 2), float32), kb.input("w", (n, 2), float32)
    other = where(k.eq(0), 0, n - k)
    a, c = z[i, k, 0], z[i, k, 1]
    p, q = z[i, other, 0], -z[i, other, 1]
    er, ei, dr, di = 0.5 * (a + p), 0.5 * (c + q), 0.5 * (c - q), -0.5 * (a - p)
    kb.store("y", float32, (b, n, 2), (i, k), er + w[k, 0] * dr - w[k, 1] * di, (i, k, 0))
    kb.store("y", float32, (b, n, 2), (i, k), ei + w[k, 0] * di + w[k, 1] * dr, (i, k, 1))
    return kb.build()


def radar_power(p: int = 256, g: int = 3001) -> Kernel:
    """The power of complex 8-bit samples at each distance, summed over pulses."""
    kb = KernelBuilder("radar_power")
    i, j = kb.axis("g", g), kb.axis("p", p)
    x = kb.input("x", (p, g, 2), int8)
    re, im = cast(x[j, i, 0], int32), cast(x[j, i, 1], int32)
    total = kb.sum("total", (i,), j, re * re + im * im)
    kb.store("y", int32, (g,), (i,), total[i])
    return kb.build()


def overlap_add(f: int = 901, q: int = 128) -> Kernel:
    """Sound from windowed frames of 4 q samples, each q after the one before."""
    kb = KernelBuilder("overlap_add")
    i, j, k = kb.axis("f", f + 3), kb.axis("q", q), kb.axis("k", 4)
    x, w = kb.input("x", (f, 4 * q), float32), kb.input("w", (4 * q,), float32)
    total = kb.sum("total", (i, j), k, x.masked((i - k >= 0) & (i - k < f), i - k, k * q + j) * w[k * q + j])
    kb.store("y", float32, ((f + 3) * q,), (i, j), total[i, j], (i * q + j,))
    return kb.build()


def iq_filter(n: int = 1 << 18, k: int = 32) -> Kernel:
    """A filter with complex taps over interleaved 16-bit samples of a receiver."""
    kb = KernelBuilder("iq_filter")
    i, l, l2 = kb.axis("n", n), kb.axis("k@re", k), kb.axis("k@im", k)
    x, tap = kb.input("x", (n + k - 1, 2), int16), kb.input("tap", (k, 2), float32)

    def part(at: Any, c: int) -> Any:
        return cast(x[i + at, c], float32)

    re = kb.sum("re", (i,), l, part(l, 0) * tap[l, 0] - part(l, 1) * tap[l, 1])
    im = kb.sum("im", (i,), l2, part(l2, 0) * tap[l2, 1] + part(l2, 1) * tap[l2, 0])
    kb.store("y", float32, (n, 2), (i,), re[i], (i, 0))
    kb.store("y", float32, (n, 2), (i,), im[i], (i, 1))
    return kb.build()


def cic_decimate(c: int = 6, m: int = 6007, r: int = 8) -> Kernel:
    """Every r-th sample of channels of 16 bits by a filter of Hogenauer's: three running sums that wrap, three differences."""
    kb = KernelBuilder("cic_decimate")
    a, i, j = kb.axis("c", c), kb.axis("n", (m + 2) * r + 1), kb.axis("m", m)
    x = kb.input("x", (c, (m + 2) * r + 1), int16)
    one = kb.scan("add", "one", (a, i), i, cast(x[a, i], int32))
    two = kb.scan("add", "two", (a, i), i, one[a, i])
    three = kb.scan("add", "three", (a, i), i, two[a, i])

    def at(k: int) -> Any:
        return three[a, (j + k) * r]

    kb.store("y", int32, (c, m), (a, j), at(3) - at(2) * 3 + at(1) * 3 - at(0))
    return kb.build()


def nlms_step(c: int = 2003, k: int = 67) -> Kernel:
    """A step of an echo canceller (normalised LMS) on each of many lines, in float64: what is left, and the new taps."""
    kb = KernelBuilder("nlms_step")
    i, p, q, o = kb.axis("c", c), kb.axis("k@dot", k), kb.axis("k@power", k), kb.axis("k@out", k)
    x, w = kb.input("x", (c, k), float64), kb.input("w", (c, k), float64)
    heard = kb.input("heard", (c,), float64)
    guess, power = kb.sum("guess", (i,), p, w[i, p] * x[i, p]), kb.sum("power", (i,), q, x[i, q] ** 2)
    left = kb.value("rest", (i,), heard[i] - guess[i])
    kb.store("left", float64, (c,), (i,), left[i])
    kb.store("taps", float64, (c, k), (i, o), w[i, o] + 0.5 * left[i] / (power[i] + 1e-3) * x[i, o])
    return kb.build()


def tones(b: int = 512, k: int = 16, n: int = 205) -> Kernel:
    """How strong each of k tones is in blocks of samples, by sums with their sines and cosines (in place of Goertzel's filter)."""
    kb = KernelBuilder("tones")
    i, f, t, t2 = kb.axis("b", b), kb.axis("k", k), kb.axis("n@re", n), kb.axis("n@im", n)
    x, turn = kb.input("x", (b, n), float32), kb.input("turn", (k,), float32, range=(0.4, 2.8))
    re = kb.sum("re", (i, f), t, x[i, t] * cos(turn[f] * cast(t, float32)))
    im = kb.sum("im", (i, f), t2, x[i, t2] * sin(turn[f] * cast(t2, float32)))
    kb.store("y", float32, (b, k), (i, f), re[i, f] * re[i, f] + im[i, f] * im[i, f])
    return kb.build()


def biquads(b: int = 1024, t: int = 512) -> Kernel:
    """A resonant filter of second order with coefficients of its own for each channel: y = x + a·y₋₁ + c·y₋₂."""
    kb = KernelBuilder("biquads")
    i, j = kb.axis("b", b), kb.axis("t", t)
    x, a = kb.input("x", (b, t), float32), kb.input("a", (b,), float32, range=(-0.9, 0.9))
    c = kb.input("c", (b,), float32, range=(-0.6, 0.0))

    def rule(p: tuple[Node, ...], q: tuple[Node, ...]) -> tuple[Node, ...]:
        m = [q[0] * p[0] + q[1] * p[2], q[0] * p[1] + q[1] * p[3], q[2] * p[0] + q[3] * p[2], q[2] * p[1] + q[3] * p[3]]
        return *m, q[0] * p[4] + q[1] * p[5] + q[4], q[2] * p[4] + q[3] * p[5] + q[5]

    zero = x[i, j] * 0.0
    start = (zero + a[i], zero + c[i], zero + 1.0, zero, x[i, j], zero)
    names = ("m11", "m12", "m21", "m22", "now", "before")
    scans = kb.associative_scan(names, (i, j), j, start, (1.0, 0.0, 0.0, 1.0, 0.0, 0.0), rule)
    kb.store("y", float32, (b, t), (i, j), scans[4][i, j])
    return kb.build()


def resampled(b: int = 64, n: int = 16384, m: int = 15053) -> Kernel:
    """Sounds at another rate, by a cubic through four neighbours (Catmull and Rom); where each lies is the same for all."""
    kb = KernelBuilder("resampled")
    i, j = kb.axis("b", b), kb.axis("m", m)
    x = kb.input("x", (b, n), float32)
    at, off = kb.input("at", (m,), int32, range=(1, n - 3)), kb.input("off", (m,), float32, range=(0.0, 1.0))
    p = [x[i, cast(at[j], "int64") + k] for k in (-1, 0, 1, 2)]
    t = off[j]
    c = (0.5 * (p[2] - p[0]), p[0] - 2.5 * p[1] + 2.0 * p[2] - 0.5 * p[3], 1.5 * (p[1] - p[2]) + 0.5 * (p[3] - p[0]))
    kb.store("y", float32, (b, m), (i, j), p[1] + t * (c[0] + t * (c[1] + t * c[2])))
    return kb.build()


def fm_voices(v: int = 12, n: int = 4801) -> Kernel:
    """Voices of a synthesiser by frequency modulation, each gliding and fading, mixed and brought to 16 bits by a soft limit."""
    kb = KernelBuilder("fm_voices")
    i, j = kb.axis("v", v), kb.axis("n", n)
    pitch, glide = kb.input("pitch", (v,), "float64", range=(0.005, 0.1)), kb.input("glide", (v,), "float64", range=(-1e-4, 1e-4))
    ratio, depth = kb.input("ratio", (v,), "float64", range=(0.5, 4.0)), kb.input("depth", (v,), "float64", range=(0.0, 5.0))
    gain, fade = kb.input("gain", (v,), "float64", range=(0.0, 0.2)), kb.input("fade", (v,), "float64", range=(1e-4, 1e-3))
    phase = kb.scan("add", "phase", (i, j), j, pitch[i] * exp2(glide[i] * cast(j, "float64")))
    loud = kb.value("loud", (i, j), exp(-fade[i] * cast(j, "float64")))
    wave = sin(phase[i, j] + depth[i] * loud[i, j] * sin(ratio[i] * phase[i, j]))
    mix = kb.sum("mix", (j,), i, gain[i] * loud[i, j] * wave)
    kb.store("y", "int16", (n,), (j,), cast(round_even(tanh(mix[j]) * 32767.0), "int16"))
    return kb.build()


def butterfly(n: int = 1 << 20) -> Kernel:
    """A step of a Fourier transform: a + w·b and a − w·b of complex numbers."""
    kb = KernelBuilder("butterfly")
    i, e = kb.axis("n", n), kb.axis("part", 2)
    a, b, w = (kb.input(name, (n, 2), float32) for name in "abw")
    turned = w[i, 0] * b[i, e] + w[i, 1] * b[i, 1 - e] * (2.0 * cast(e, float32) - 1.0)
    kb.store("sum", float32, (n, 2), (i, e), a[i, e] + turned)
    kb.store("difference", float32, (n, 2), (i, e), a[i, e] - turned)
    return kb.build()


def autocorrelation(b: int = 64, n: int = 8192, l: int = 48) -> Kernel:
    """Autocorrelations of series at lags from 0, each divided by the one at lag 0."""
    kb = KernelBuilder("autocorrelation")
    i, k, j, j0 = kb.axis("b", b), kb.axis("l", l), kb.axis("n@lag", n), kb.axis("n@power", n)
    x = kb.input("x", (b, n), float32)
    power = kb.sum("power", (i,), j0, x[i, j0] * x[i, j0])
    total = kb.sum("total", (i, k), j, x[i, j] * x.masked(j + k < n, i, j + k))
    kb.store("y", float32, (b, l), (i, k), total[i, k] / power[i])
    return kb.build()


def ldpc_checks(m: int = 20000, d: int = 7, n: int = 40001) -> Kernel:
    """Half a step of decoding an LDPC code by least magnitudes: what each check tells its d bits, and whether it fails."""
    kb = KernelBuilder("ldpc_checks")
    i, j, k, p, q = kb.axis("m", m), kb.axis("d", d), kb.axis("d@least", d), kb.axis("d@odd", d), kb.axis("d@hard", d)
    bit, total = kb.input("bit", (m, d), "int32", range=(0, n - 1)), kb.input("total", (n,), "int16", range=(-900, 900))
    old = kb.input("old", (m, d), "int8", range=(-127, 127))
    told = kb.value("told", (i, j), cast(total[bit[i, j]], "int32") - cast(old[i, j], "int32"))
    least = kb.min("least", (i, j), k, where(k.eq(j), 127, minimum(absolute(told[i, k]), 127)))
    odd = kb.reduce("xor", "odd", (i,), p, told[i, p] < 0)
    size = least[i, j] * 3 >> 2
    kb.store("new", "int8", (m, d), (i, j), cast(where(odd[i] ^ (told[i, j] < 0), -size, size), "int8"))
    kb.store("fails", "bool", (m,), (i,), kb.reduce("xor", "hard", (i,), q, total[bit[i, q]] < 0)[i])
    return kb.build()
