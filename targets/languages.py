"""What each language of generated code can say: capabilities by name, so that nothing has to ask which language it is.

A new language declares its own with `declare`. Capabilities are the language's; what a certain processor or driver brings on top of
them is in `Target.features`, and the sizes are in `Target`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `name` is what `Target.lang` says, `title` what people call it.

    groups: groups of threads, with shared memory, barriers and `thread` (LOCAL, GROUP).
    prefetch: it can ask for a line of memory ahead of its use (CACHE with prefetch).
    instructions: it can name a row of `targets.instructions` (TC).
    constants: what is packed from constant inputs is kept from call to call (`Program.once`).
    shuffles: threads exchange values without memory: 'always', 'never', or the feature of a target that brings it.
    async_copies: copies into shared memory go on beside the thread (where the target has the feature sm80).
    halves: 16-bit floats are converted by instructions: 'always', 'never', or the feature that brings it; else integer code does it.
    fuses: a Program's fma of floats is one rounding on every target; else only with the feature fma, and two roundings without.
    vectors: the most lanes of a vector in a variable; 0: as many as one likes, 1: there are only scalars.
    masked: a vector is loaded or stored under a mask by one operation; else lane by lane.
    unaligned: vectors are loaded from and stored to any address; else only where it is known to be a multiple of their size.
    nontemporal: stores can go past the caches.
    neighbours: its compiler finds the instruction that adds neighbouring products, where the processor has one.
    tensor_cores: it can name a row of `targets.tensor_rows` (TC on GPUs), where the target's features have it.
    warpgroups: Hopper's asynchronous units: mbarriers, TMA, wgmma, roles (where the target has the feature sm90a).
    static_shared: bytes of shared memory that may be declared with its size; more is given at launch; 0: there is no such limit.
    """

    name: str
    title: str
    groups: bool = False
    prefetch: bool = False
    instructions: bool = False
    constants: bool = False
    shuffles: str = "never"
    async_copies: bool = False
    halves: str = "never"
    fuses: bool = False
    vectors: int = 0
    masked: bool = False
    unaligned: bool = False
    nontemporal: bool = False
    neighbours: bool = False
    tensor_cores: bool = False
    warpgroups: bool = False
    static_shared: int = 0


_LANGUAGES = {
    x.name: x
    for x in (
        Language(
            "llvm",
            "LLVM IR",
            prefetch=True,
            instructions=True,
            constants=True,
            halves="f16c",
            masked=True,
            unaligned=True,
            nontemporal=True,
            neighbours=True,
        ),
        Language("c", "C", prefetch=True, instructions=True, constants=True, unaligned=True, nontemporal=True),
        Language(
            "opencl",
            "OpenCL",
            groups=True,
            prefetch=True,
            instructions=True,
            shuffles="subgroups",
            halves="fp16",
            fuses=True,
            vectors=16,
            unaligned=True,
            nontemporal=True,
        ),
        Language(
            "cuda",
            "CUDA",
            groups=True,
            shuffles="always",
            async_copies=True,
            halves="always",
            fuses=True,
            vectors=1,
            nontemporal=True,
            tensor_cores=True,
            warpgroups=True,
            static_shared=48 << 10,
        ),
        Language("hip", "HIP", groups=True, shuffles="always", halves="always", fuses=True, vectors=1, static_shared=64 << 10),
    )
}


def declare(language: Language) -> None:
    """Make `language` the one that `Target.lang` of its name means."""
    _LANGUAGES[language.name] = language


def language(name: str) -> Language:
    """What the language `name` can say; one that nobody declared can do nothing that is optional."""
    found = _LANGUAGES.get(name)
    return Language(name, name) if found is None else found


def declared() -> tuple[str, ...]:
    """The names of all languages, sorted."""
    return tuple(sorted(_LANGUAGES))


def has(capability: str, features: frozenset[str]) -> bool:
    """Whether 'always', 'never' or the name of a feature holds for a target with `features`."""
    return capability == "always" or capability in features
