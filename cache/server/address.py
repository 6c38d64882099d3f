"""Where a server is, without its password: a URL that is safe to print, and the one that is used."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from ...files import folders, owned
from ...files.write_file import SECRETS, hidden
from ...ir.errors import CacheError, UsageError
from ..file_check import CacheWarning

EXAMPLE = "postgresql://USER@HOST/DATABASE"
_DRIVERS = ("postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2")
_URL = re.compile(
    r"(?P<scheme>[\w+]+)://(?:(?P<user>[^:/@]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<host>\[[^\]]*\]|[^:/?@]*)(?::(?P<port>\d*))?(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?"
)


@dataclass(frozen=True)
class Address:
    """A server's database. `str` and `repr` have no password."""

    scheme: str
    user: str | None
    host: str
    port: int | None
    database: str
    query: tuple[tuple[str, str], ...]
    password: str | None = field(default=None, repr=False)
    sslpassword: str | None = field(default=None, repr=False)
    written: str = field(default="", repr=False, compare=False)
    """As the user wrote it, for whoever must find what was kept under that name."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises CacheError, which does not repeat a password, for what is no PostgreSQL URL."""
        found = _URL.fullmatch(url)
        if found is None:
            raise CacheError(f"cannot understand the cache {hidden(url)}: write {EXAMPLE}, with %40 for an @ in a name")
        scheme = found["scheme"]
        if scheme not in _DRIVERS:
            raise CacheError(f"cannot use the cache {hidden(url)}: one on {scheme} is not supported; use a file, or a {EXAMPLE} URL")
        pairs = parse_qsl(found["query"] or "", keep_blank_values=True)
        secret = {k.lower(): v for k, v in pairs if k.lower() in SECRETS}
        return cls(
            scheme="postgresql" if scheme == "postgres" else scheme,
            user=_unquoted(found["user"]),
            host=(found["host"] or "").strip("[]"),
            port=int(found["port"]) if found["port"] else None,
            database=_unquoted(found["database"]) or "",
            query=tuple(sorted((k, v) for k, v in pairs if k.lower() not in SECRETS)),
            password=_unquoted(found["password"]) or secret.get("password") or secret.get("passwd"),
            sslpassword=secret.get("sslpassword"),
            written=url,
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        at = f"{self.user}@" if self.user else ""
        query = "&".join(f"{k}={quote(v, safe='/:,')}" for k, v in self.query)
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{at}{host}{port}/{self.database}" + f"?{query}" * bool(query)

    @property
    def secret(self) -> bool:
        """Whether it was written with a password."""
        return bool(self.password or self.sslpassword)

    @property
    def name(self) -> str:
        """A name for files that are about this server, whatever the driver and the password."""
        about = str(Address("postgresql", self.user, self.host, self.port, self.database, self.query))
        host = re.sub(r"[^\w.-]", "", self.host or "local")[:40]
        return f"{host}-{hashlib.sha256(about.encode(errors='surrogateescape')).hexdigest()[:12]}"

    @property
    def driver(self) -> str:
        """SQLAlchemy's name of the dialect and the driver; psycopg where none is named. Raises CacheError where it is not installed."""
        _, _, named = self.scheme.partition("+")
        chosen = named or next((d for d in ("psycopg", "psycopg2") if find_spec(d)), "psycopg")
        if find_spec(chosen) is None:
            how = "pip install 'tilewright[postgresql]'" if chosen == "psycopg" else f"pip install {chosen}"
            raise CacheError(f"the cache {self} needs the Python package {chosen}: {how}")
        return f"postgresql+{chosen}"

    def scrubbed(self, text: str) -> str:
        """What a driver or server said, without our secrets."""
        for secret in filter(None, (self.password, self.sslpassword)):
            text = text.replace(secret, "***")
        return hidden(text)


def _unquoted(part: str | None) -> str | None:
    return unquote(part) if part is not None else None


# team setting -----------------------------------------------------------------------------------------------
# Which server is the team's: TILEWRIGHT_TEAM_CACHE, else the file `cache.toml` in the platform's folder for a user's
# settings, which says `team = "postgresql://USER@HOST/DATABASE"`. Both may be empty.
#
# Its rows then answer what the user's own cache and the project's do not.


ENV = "TILEWRIGHT_TEAM_CACHE"


def team() -> Address | None:
    """The server, None where none is named. Raises UsageError for a file that cannot be understood, CacheError for a
    URL that cannot."""
    named = os.environ.get(ENV)
    if named is None:
        named = _written(path())
    return Address.parse(named) if named else None


def path() -> Path:
    """Where the file is."""
    return folders.config() / "cache.toml"


def remember(url: str) -> Path:
    """Write the file; where. '' forgets the team. Raises CacheError for a URL that is none, UsageError where it cannot be written."""
    from ...files.write_file import replace

    if url and Address.parse(url).secret:
        raise UsageError("the settings are no place for a password: put it into ~/.pgpass, and name the server without")
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = url.replace("\\", "\\\\").replace('"', '\\"')
        replace(file, f'# the cache of this user\'s team\nteam = "{text}"\n')
    except OSError as e:
        raise UsageError(f"cannot write {file}: {e.strerror}; {ENV}=URL says the same") from None
    return file


def _written(file: Path) -> str:
    try:
        raw = owned.read(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as e:  # a home that this user may not look into, say: work goes on
        warnings.warn(f"the settings {file} are not read: {e.strerror or e}; {ENV}= (empty) says so for good", CacheWarning, stacklevel=5)
        return ""
    import tomllib

    try:
        said = tomllib.loads(raw.decode())
    except ValueError:
        raise UsageError(f'{file} is not understood: it says team = "{EXAMPLE}", and nothing else') from None
    url = said.pop("team", "")
    if said or not isinstance(url, str):
        raise UsageError(f'{file} is not understood: it says team = "{EXAMPLE}", and nothing else')
    return url
