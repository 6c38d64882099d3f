"""Signed bundles: `schedules.jsonl` with `schedules.jsonl.minisig` beside it, as the tool minisign writes and verifies.

A signature is one of Ed25519 over the BLAKE2b hash of the file's bytes (F. Denis, https://jedisct1.github.io/minisign).
py-minisign, of the same author, makes and checks them (extra `sign`). Which keys are trusted is said with each call,
or kept: minisign's own public key files, in `trusted` in the platform's folder for a user's settings."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import folders, owned
from ..files.write_file import replace
from ..ir.errors import CacheError, UsageError
from ..log import logger
from . import bundles
from .rows import Row

if TYPE_CHECKING:
    from minisign import PublicKey, Signature

SUFFIX = ".minisig"
ENV = "TILEWRIGHT_REQUIRE_SIGNATURE"
MAX_BYTES = 1 << 16
"""Of a key or a signature."""
_LINE = re.compile(r"RW[A-Za-z0-9+/]{54}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key by the name that people gave it. `id`: 16 hex digits, as minisign shows them."""

    name: str
    id: str
    text: str
    """The line of the key file: `RW...`."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What a bundle must show. `keys`: whose signatures count; `required`: whether a bundle without one is refused;
    `signature`: where the signature is, None for beside the bundle."""

    keys: tuple[TrustedKey, ...]
    required: bool = True
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """Who signed a bundle; `comment`: what the signature says beside that, which is signed too: when, mostly."""

    key: TrustedKey
    comment: str


def required_by_environment() -> bool:
    """Whether TILEWRIGHT_REQUIRE_SIGNATURE=1 says that every import wants a signature. Raises UsageError for other values than 0 and 1."""
    text = os.environ.get(ENV, "")
    if text not in ("", "0", "1"):
        raise UsageError(f"{ENV} is 1 (import no bundle without a trusted signature) or 0, not {text!r}")
    return text == "1"


def standing_trust() -> Trust:
    """What goes where nothing else is said: the kept keys, and what the environment requires."""
    return Trust(trusted_keys(), required_by_environment())


def read(file: str | os.PathLike[str], trust: Trust | None = None) -> tuple[list[Row], Signed | None]:
    """A bundle's rows, after its signature was checked as `trust` asks (None: `standing_trust`), and who signed it. Raises CacheError."""
    raw = bundles.content(file)
    found = check(raw, os.fspath(file), trust)
    return bundles.loads(raw.splitlines(keepends=True), os.fspath(file)), found


def check(raw: bytes, name: str, trust: Trust | None = None) -> Signed | None:
    """Check the bytes of the bundle called `name`; who signed them. Raises CacheError where they are not what a trusted key signed,
    and where `trust` requires a signature that is not there. A signature that nobody asked for and nobody knows is None."""
    trust = trust or standing_trust()
    place = trust.signature or f"{name}{SUFFIX}"
    if not trust.required and not (trust.keys and os.path.isfile(place)):
        return None
    if not trust.keys:
        raise CacheError("no key is trusted: give one with --trust, or keep one with `tune cache keys trust KEY`")
    signature = _signature(place, name)
    id = _id(bytes(signature).splitlines()[1])
    key = next((k for k in trust.keys if k.id == id), None)
    if key is None:
        if not trust.required:
            return None
        known = ", ".join(f"{k.id} ({k.name})" for k in trust.keys)
        raise CacheError(f"{name} was signed by the key {id}, and trusted are {known}: nothing of it is used")
    from minisign import PublicKey, VerifyError

    try:
        PublicKey.from_base64(key.text).verify(raw, signature)
    except VerifyError:
        raise CacheError(
            f"{name} is not what {key.name} ({id}) signed: it, or its signature, was changed or cut off since; nothing of it is used"
        ) from None
    return Signed(key, signature.trusted_comment)


def _signature(place: str, name: str) -> Signature:
    minisign = library()
    try:
        raw = _content(place)
    except FileNotFoundError:
        raise CacheError(f"{name} is not signed: there is no {place} (--signature FILE, where it is elsewhere)") from None
    except OSError as e:
        raise CacheError(f"cannot read the signature {place}: {e.strerror}") from None
    try:
        found: Signature = minisign.Signature.from_bytes(raw)
    except minisign.ParseError as e:
        logger("cache").debug("%s: %s", place, e)
        raise CacheError(f"{place} is not a signature of minisign, or was cut off ({e}): nothing of {name} is used") from None
    return found


# signing ------------------------------------------------------------------------------------------------------------
def sign(raw: bytes, name: str, key: str | os.PathLike[str], password: Callable[[], str]) -> bytes:
    """The signature file of a bundle's bytes. `key`: a secret key of minisign; `password` is asked where it is encrypted.
    Raises CacheError."""
    minisign = library()
    try:
        secret = minisign.SecretKey.from_bytes(_content(os.fspath(key)))
    except OSError as e:
        raise CacheError(f"cannot read the secret key {os.fspath(key)}: {e.strerror}") from None
    except minisign.ParseError as e:
        hint = "; this is the public key, sign with the secret one" if os.fspath(key).endswith(".pub") else ""
        raise CacheError(f"{os.fspath(key)} is not a secret key of minisign ({e}){hint}") from None
    with secret:
        try:
            if secret.is_encrypted():
                secret.decrypt(password())
            comment = f"timestamp:{int(time.time())}\tfile:{_printable(os.path.basename(name))}\thashed"
            made = secret.sign(raw, prehash=True, untrusted_comment="signature of a bundle of Tilewright", trusted_comment=comment)
        except minisign.Error as e:
            raise CacheError(f"cannot sign with {os.fspath(key)}: {e}") from None
    return bytes(made) + b"\n"


def make(secret: str | os.PathLike[str], password: str | None) -> tuple[Path, TrustedKey]:
    """Write a new pair of keys, `release.key` and `release.pub` for `release.key`; where the public one is, and what it is. `password`:
    None leaves the secret key in the clear, as `minisign -W` does. Raises CacheError, also where either file is there."""
    minisign = library()
    place = Path(secret)
    public = place.with_suffix(".pub")
    if public == place:
        raise CacheError(f"{place} is a name for a public key: call the secret one {place.with_suffix('.key')}")
    for path in (place, public):
        if path.exists():
            raise CacheError(f"{path} is there already: choose another name")
    pair = minisign.KeyPair.generate()
    line = pair.public_key.to_base64().decode()
    with pair.secret_key as key:
        if password is not None:
            key.encrypt(password)
        try:
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as f:
                f.write(bytes(key) + b"\n")
            replace(public, bytes(pair.public_key) + b"\n")
        except OSError as e:
            raise CacheError(f"cannot write {e.filename or place}: {e.strerror}") from None
    return public, _key(line, place.stem)


# whom to trust ------------------------------------------------------------------------------------------------------
def folder() -> Path:
    """Where kept keys are."""
    return folders.config() / "trusted"


def trusted_keys() -> tuple[TrustedKey, ...]:
    """The keys that this user keeps, by name. Raises CacheError where somebody else could have put them there."""
    place = folder()
    try:
        files = sorted(place.glob("*.pub"))
        why = owned.why_not(place, roots=True) if files else None
    except OSError as e:
        raise CacheError(f"cannot read the trusted keys in {place}: {e.strerror}") from None
    if why is not None:
        raise CacheError(f"the trusted keys in {place} do not count: {why}")
    return tuple(parse(str(f)) for f in files)


def keep(key: TrustedKey) -> Path:
    """Trust a key from now on; where it is kept. Raises CacheError where another one has that name."""
    if not _NAME.fullmatch(key.name):
        raise CacheError(f"{key.name!r} cannot be a key's name: use letters, digits, '.', '-' and '_' (--name)")
    place = folder() / f"{key.name}.pub"
    try:
        if place.exists() and parse(str(place)).id != key.id:
            raise CacheError(f"another key is called {key.name}: give a --name, or `tune cache keys forget {key.name}` first")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(place, f"untrusted comment: minisign public key {key.id}\n{key.text}\n")
    except OSError as e:
        raise CacheError(f"cannot write {place}: {e.strerror}") from None
    return place


def forget(name: str) -> TrustedKey:
    """Trust a kept key no more. `name`: its name or id. Raises CacheError where there is none."""
    for key in trusted_keys():
        if name in (key.name, key.id):
            try:
                (folder() / f"{key.name}.pub").unlink()
            except OSError as e:
                raise CacheError(f"cannot forget {key.name}: {e.strerror}") from None
            return key
    raise CacheError(f"no trusted key is called {name!r} (`tune cache keys list`)")


def trusted(named: Iterable[str], base: Path | None = None) -> tuple[TrustedKey, ...]:
    """The keys of a list: each a public key file (below `base`, where it is relative), the key itself (`RW...`), or the name or
    id of a kept one. Raises CacheError."""
    out: list[TrustedKey] = []
    for text in named:
        known = [k for k in trusted_keys() if text in (k.name, k.id)]
        out += known or [parse(text, base)]
    return tuple(out)


def parse(text: str, base: Path | None = None) -> TrustedKey:
    """A public key from a file's path, or the key itself. Raises CacheError."""
    if _LINE.fullmatch(text):
        return _key(text, text[:12])
    path = (base or Path()) / folders.expanded(text)
    try:
        lines = _content(str(path)).decode("utf-8", "replace").splitlines()
    except OSError as e:
        raise CacheError(
            f"{text!r} is no trusted key: it is not kept, no key (RW...), and no file that can be read ({e.strerror})"
        ) from None
    line = next((x.strip() for x in lines if _LINE.fullmatch(x.strip())), "")
    if len(lines) > 2 or not line:
        raise CacheError(f"{path} is not a public key of minisign" + ("; this is a secret key" if "secret" in "".join(lines[:1]) else ""))
    return _key(line, path.stem)


def library() -> Any:
    """The module `minisign`. Raises CacheError where it is not installed."""
    try:
        import minisign
    except ModuleNotFoundError as e:
        raise CacheError(f"signatures need the package py-minisign ({e.name} is missing): pip install 'tilewright[sign]'") from None
    return minisign


def _key(line: str, name: str) -> TrustedKey:
    minisign = library()
    try:
        found: PublicKey = minisign.PublicKey.from_base64(line)
    except minisign.ParseError as e:
        raise CacheError(f"{name} is not a public key of minisign: {e}") from None
    return TrustedKey(name, _id(found.to_base64()), line)


def _id(line: bytes) -> str:
    """A key's id, from its line or a signature's: after two bytes for the algorithm, eight, the lowest first."""
    return base64.b64decode(line)[2:10][::-1].hex().upper()


def _printable(text: str) -> str:
    """A text as a comment may hold it."""
    return "".join(c if " " <= c < "\x7f" else "?" for c in text)[:200]


def _content(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read(MAX_BYTES)
