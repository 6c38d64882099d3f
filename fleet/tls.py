"""Certificates of a fleet's own authority: whoever has one takes part, nobody else can connect or read.

A worker runs whatever a client sends it, so a fleet is one domain of trust: its certificates are its fence."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any, Literal

from ..files import folders
from ..ir.errors import FleetError
from .worker import EXTRA, dask

Role = Literal["scheduler", "worker", "client"]
ROLES: tuple[Role, ...] = ("scheduler", "worker", "client")
AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"
ENV = "TILEWRIGHT_FLEET_TLS"
DAYS = 825
_OWN = "tilewright fleet"
"""Whom our own authority says it is."""


def default_folder() -> Path:
    """Where certificates are looked for: TILEWRIGHT_FLEET_TLS, else the user's configuration folder."""
    given = os.environ.get(ENV)
    return Path(given) if given else folders.config() / "fleet"


def files(role: Role) -> tuple[str, str, str]:
    """The three files that a machine of this role needs."""
    return AUTHORITY, f"{role}.pem", f"{role}-key.pem"


def security(url: str, role: Role, folder: Path | None = None) -> Any:
    """Dask's security for `url`: None for tcp://, which nothing protects. Raises FleetError where certificates are missing, expired or
    readable by others, and for another kind of URL."""
    scheme, _, place = url.partition("://")
    port = place.rstrip("/").rpartition(":")[2]
    reached = role == "scheduler" or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    if scheme == "tcp" and reached:
        return None
    if scheme != "tls" or not place or not reached:
        raise FleetError(f"{url!r} is no address of a fleet: write tls://HOST:8786, or tcp://HOST:8786 in a network that you trust")
    folder = folder or default_folder()
    missing = [name for name in files(role) if not (folder / name).is_file()]
    if missing:
        raise FleetError(
            f"{folder} has no {', '.join(missing)}: make certificates with `tune fleet certificates`, once for the whole fleet, and copy "
            f"{', '.join(files(role))} into that folder{'; --insecure does without, where you trust the network' * (role == 'scheduler')}"
        )
    authority, certificate, key = (str(folder / name) for name in files(role))
    _sound(folder, certificate, key)
    return dask().Security(
        require_encryption=True,
        tls_ca_file=authority,
        **{f"tls_{r}_{part}": path for r in ROLES for part, path in (("cert", certificate), ("key", key))},
    )


def make(folder: Path, days: int = DAYS) -> list[Path]:
    """Make an authority where the folder has none, and with it certificates for all roles that hold for `days` days; the files written.
    An authority that is there is kept, so certificates of before stay good. Raises FleetError."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as e:
        raise FleetError(f"making certificates needs the package cryptography ({e}): {EXTRA}") from None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        out: list[Path] = []
        if (folder / AUTHORITY).exists() != (folder / AUTHORITY_KEY).exists():
            raise FleetError(
                f"{folder} has only one of {AUTHORITY} and {AUTHORITY_KEY}: make certificates where the authority's key is kept, or in an empty folder"
            )
        if not (folder / AUTHORITY).exists() and (there := [n for r in ROLES for n in files(r) if os.path.lexists(folder / n)]):
            raise FleetError(f"{folder} has {there[0]} and no {AUTHORITY}: it was left as it is; make certificates in an empty folder")
        if (folder / AUTHORITY).exists():
            ca = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            signer = _load(folder / AUTHORITY_KEY)
            if ca.subject.rfc4514_string() != f"CN={_OWN}":
                raise FleetError(f"{folder / AUTHORITY} is another authority's: it was left as it is; make certificates in an empty folder")
        else:
            signer = ec.generate_private_key(ec.SECP256R1())
            ca = _certificate(_OWN, signer, None, signer, 10 * 365)
            out += _write(folder, AUTHORITY, AUTHORITY_KEY, ca, signer)
        for role in ROLES:
            key = ec.generate_private_key(ec.SECP256R1())
            out += _write(folder, *files(role)[1:], _certificate(f"tilewright {role}", key, ca, signer, days), key)
        return out
    except (OSError, ValueError) as e:
        raise FleetError(f"cannot make certificates in {folder}: {getattr(e, 'strerror', None) or e}") from None


def _certificate(name: str, key: Any, issuer: Any, signer: Any, days: int) -> Any:
    """A certificate for `key`, signed by `signer`; of an authority where there is no issuer."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _write(folder: Path, certificate: str, key: str, made: Any, private: Any) -> list[Path]:
    from cryptography.hazmat.primitives import serialization as s

    from ..files.write_file import replace

    secret = private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    place = folder / key
    place.touch(mode=0o600)
    place.chmod(0o600)  # before there is anything in it; what replaces it keeps that
    replace(place, secret)
    replace(folder / certificate, made.public_bytes(s.Encoding.PEM))
    return [folder / certificate, place]


def _load(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(path.read_bytes(), None)


def _sound(folder: Path, certificate: str, key: str) -> None:
    """FleetError for a key that others may read, or a certificate that has expired."""
    if hasattr(os, "geteuid") and os.stat(key).st_mode & 0o077:
        raise FleetError(f"others may read the key {key}: chmod 600 {key}")
    try:
        from cryptography import x509
    except ImportError:
        return  # the connection fails all the same, with fewer words
    try:
        made = x509.load_pem_x509_certificate(Path(certificate).read_bytes())
    except ValueError as e:
        raise FleetError(f"{certificate} is no certificate ({e}); make it again with `tune fleet certificates {folder}`") from None
    if made.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        raise FleetError(
            f"{certificate} has expired ({made.not_valid_after_utc:%Y-%m-%d}): `tune fleet certificates` makes new ones where the authority's key is"
        )
