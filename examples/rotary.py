"""Rotary places (Su et al., 2021): which angles a model's config says, and pairs of numbers turned by them."""

import math

import numpy as np
import tilewright as tw
from tilewright import Tensor

from . import language

SCALINGS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""How angles may be scaled, and the numbers that each must have."""


def scaling_of(said):
    """(the base of angles, how they are scaled, the numbers of that as sorted pairs) that a config.json says. Raises UsageError where they cannot
    be."""
    rope = language.object_of(said, "rope_scaling") | language.object_of(said, "rope_parameters")
    (theta,) = language.numbers(said | rope, ("rope_theta",), 1e4)
    if (name := str(rope.get("rope_type", rope.get("type", "default")))) not in SCALINGS:
        raise tw.UsageError(f"the angles are scaled as {name[:50]!r}; {', '.join(SCALINGS)} are known")
    if name == "yarn":
        rope = {"original_max_position_embeddings": said.get("max_position_embeddings")} | rope
    found = dict(zip(SCALINGS[name], language.numbers(rope, SCALINGS[name]), strict=True))
    if name == "llama3" and found["high_freq_factor"] <= found["low_freq_factor"]:
        raise tw.UsageError("the angles' high_freq_factor is not above their low_freq_factor")
    if name == "yarn":
        found |= _yarn(rope, found["factor"])
        if theta <= 1:
            raise tw.UsageError(f"the angles are scaled as 'yarn', and their base is {theta:g}: it must be above 1")
    return theta, name, tuple(sorted(found.items()))


def _yarn(rope, factor):
    """What YaRN (Peng et al., 2023) takes besides, with what is usual for what is missing or 0."""

    def longer(by):  # how much larger the scores of a longer context are
        return 1 + 0.1 * by * math.log(max(factor, 1))

    given = {k: v for k, v in rope.items() if v}
    mscale, whole = (language.numbers(given, (n,), 1.0)[0] for n in ("mscale", "mscale_all_dim"))
    usual = longer(mscale) / longer(whole) if {"mscale", "mscale_all_dim"} <= given.keys() else longer(1)
    (times,) = language.numbers(rope, ("attention_factor",), usual)
    (fast,), (slow,) = (language.numbers(given, (n,), x) for n, x in (("beta_fast", 32.0), ("beta_slow", 1.0)))
    return {"times": times, "beta_fast": fast, "beta_slow": slow, "truncate": float(bool(rope.get("truncate", True)))}


def factors_of(said, head):
    """What the angle of each pair is divided by, (head / 2,), where the file says it; else nothing. Raises UsageError where they cannot be."""
    found = said.get("rope_factors") or ()
    if found and (not isinstance(found, list) or len(found) != head // 2):
        raise tw.UsageError(f"the factors of angles are {str(found)[:50]}, and not {head // 2} numbers")
    named = {f"rope_factors[{i}]": x for i, x in enumerate(found)}
    return tuple(language.numbers(named, named))


def frequencies(config):
    """Radians a place of each pair of a head, (head / 2,)."""
    count, s = config.head // 2, dict(config.scaling)
    f = config.theta ** (-np.arange(count) / count)
    if config.factors:
        return f / np.array(config.factors)
    if config.scaled == "linear":
        return f / s["factor"]
    if config.scaled == "llama3":  # long waves are slowed, short ones are not, and between it is smooth
        turns = s["original_max_position_embeddings"] * f / (2 * math.pi)
        kept = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
    elif config.scaled == "yarn":  # the same, and between it is smooth over pairs

        def pair(turns):  # that turns so often within the first context
            return count * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / math.log(config.theta)

        low, high = pair(s["beta_fast"]), pair(s["beta_slow"])
        if s["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, config.head - 1)
        kept = 1 - np.clip((np.arange(count) - low) / ((high - low) or 0.001), 0, 1)
    else:
        return f
    return f * (kept + (1 - kept) / s["factor"])


def angles(config):
    """Cosines (places, 1, head / 2) of each place, and sines (places, 2, head / 2), of which the first of a pair has the other sign."""
    a = np.outer(np.arange(language.places(config.context)), frequencies(config))
    times = dict(config.scaling).get("times", 1.0)
    cos, sin = (Tensor((x * times).astype("float32")) for x in (np.cos(a)[:, None], np.stack([-np.sin(a), np.sin(a)], axis=1)))
    return {"cos": cos, "sin": sin}


def turned(x, cos, sin, interleaved):
    """Rotary places of (heads, n, head): pairs of numbers turned by the angle of their place. Pairs end half a head apart, whichever way they lay:
    products of queries with keys do not mind."""
    lead, half = x.shape[:-1], x.shape[-1] // 2
    pairs = x.reshape(*lead, half, 2).mT if interleaved else x.reshape(*lead, 2, half)
    return (pairs * cos + pairs[..., ::-1, :] * sin).reshape(x.shape)
