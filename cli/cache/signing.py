"""`tune cache keys`: keys that sign bundles, and those that are trusted; and what other commands' arguments say of signatures."""

from __future__ import annotations

import getpass
import io
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ...ir.errors import CacheError, UsageError
from ..terminal.style import console, table

if TYPE_CHECKING:
    from ...cache import Row
    from ...cache.signatures import Trust

PASSWORD = "TILEWRIGHT_KEY_PASSWORD"


def trust(args: Namespace) -> Trust:
    """What a bundle must show, by the arguments, else by what is kept and set. Raises CacheError for a key that is none."""
    from ...cache import signatures

    if args.trust:
        return signatures.Trust(signatures.trusted(args.trust), True, args.signature)
    required = args.require_signature or bool(args.signature) or signatures.required_by_environment()
    return signatures.Trust(signatures.trusted_keys(), required, args.signature)


def checker(args: Namespace) -> Callable[[bytes, str], None]:
    """What refuses a bundle's bytes."""
    from ...cache import signatures

    asked = trust(args)

    def check(raw: bytes, name: str) -> None:
        signatures.check(raw, name, asked)

    return check


def export_signed(rows: Sequence[Row], args: Namespace) -> int:
    """Write a bundle and its signature. The signature is made first, so a wrong password changes nothing."""
    from ...cache import bundles, signatures
    from ...files.write_file import replace

    if args.file == "-":
        raise UsageError("--sign writes the signature beside the bundle, so the bundle must be a file")
    text = io.StringIO()
    written = bundles.write(rows, text)
    raw = text.getvalue().encode()
    made = signatures.sign(raw, args.file, args.sign, lambda: password(args.sign))
    for path, content, kind in ((args.file, raw, "bundle"), (f"{args.file}{signatures.SUFFIX}", made, "signature")):
        try:
            replace(path, content, None if args.overwrite else kind)
        except OSError as e:
            raise CacheError(f"cannot write {path}: {e.strerror}; choose another file") from None
    print(f"wrote {written} measurements to {args.file}, signed in {args.file}{signatures.SUFFIX}")
    return 0


def mention_older(file: str) -> None:
    """A signature beside a bundle that was just written anew is of what it was before."""
    from ...cache.signatures import SUFFIX

    if os.path.isfile(f"{file}{SUFFIX}"):
        print(f"note: {file}{SUFFIX} is of its earlier content: delete it, or export with --sign", file=sys.stderr)


def password(key: str, twice: bool = False) -> str:
    """The password of a secret key: of the environment, else asked on the terminal. Raises UsageError where nobody can be asked."""
    if PASSWORD in os.environ:
        return os.environ[PASSWORD]
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(f"{key} wants a password and there is no terminal to ask on: set {PASSWORD}, or use a key made with --no-password")
    said = getpass.getpass(f"Password of {key}: ")
    if twice and getpass.getpass("Again: ") != said:
        raise UsageError("the two passwords differ; nothing was written")
    return said


# the command ------------------------------------------------------------------------------------------------
def list_keys(args: Namespace) -> int:
    """Print whom this user trusts."""
    from rich.text import Text

    from ...cache import signatures

    found = signatures.trusted_keys()
    if args.format == "json":
        print(json.dumps([asdict(k) for k in found], indent=1))
    elif not found:
        print("no key is trusted (`tune cache keys trust KEY` keeps one)")
    else:
        listed = table(str(signatures.folder()), "name", "id", "key?1")
        for k in found:
            listed.add_row(Text(k.name), Text(k.id), Text(k.text))
        console().print(listed)
    return 0


def make(args: Namespace) -> int:
    """Write a pair of keys."""
    from ...cache import signatures

    public, key = signatures.make(args.file, None if args.no_password else password(args.file, twice=True))
    print(f"{args.file} signs: keep it to yourself" + ("; it has no password" if args.no_password else ""))
    print(f"{public} is for everybody who shall trust it: tune cache keys trust {key.text}", flush=True)
    return 0


def trust_key(args: Namespace) -> int:
    """Trust a key from now on."""
    from ...cache import signatures

    key = signatures.parse(args.key)
    key = replace(key, name=args.name) if args.name else key
    print(f"{key.name} ({key.id}) is trusted from now on: {signatures.keep(key)}")
    return 0


def forget(args: Namespace) -> int:
    """Trust a kept key no more."""
    from ...cache import signatures

    key = signatures.forget(args.name)
    print(f"{key.name} ({key.id}) is trusted no more")
    return 0


def verify(args: Namespace) -> int:
    """Say whether a trusted key signed a bundle."""
    from ...cache import signatures

    rows, found = signatures.read(args.file, replace(trust(args), required=True))
    assert found is not None
    print(f"{args.file} was signed by {found.key.name} ({found.key.id}): {len(rows)} measurements")
    print(f"it says: {found.comment}".replace("\t", ", "))
    return 0
