"""URLs of servers, and the passwords in them."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import CacheWarning
from tilewright.cache.server import address as team_setting
from tilewright.cache.server.address import Address
from tilewright.cache.server.server_errors import Unreachable, classify
from tilewright.cli import main
from tilewright.files.write_file import hidden
from tilewright.ir.errors import CacheError, UsageError

SECRET = "s%40same"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://u:{SECRET}@h:5433/db", "postgresql://u@h:5433/db"),
        (f"postgres://u@h/db?password={SECRET}&sslmode=require", "postgresql://u@h/db?sslmode=require"),
        (f"postgresql+psycopg://u:{SECRET}@/db?host=/run/pg", "postgresql+psycopg://u@/db?host=/run/pg"),
        (f"postgresql://h/db?PASSWORD={SECRET}", "postgresql://h/db"),
        (f"postgresql://u:{SECRET}@[::1]:5432/db", "postgresql://u@[::1]:5432/db"),
        (f"postgresql://:{SECRET}@h/db", "postgresql://h/db"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    address = Address.parse(url)
    assert str(address) == shown and address.password == "s@same"
    assert "same" not in repr(address) + address.name + f"{address!r}{address!s}"
    assert address.name == Address.parse(url.replace(SECRET, "other")).name
    with cache.open(url) as store:
        assert store.location == shown
    assert "same" not in hidden(f"error: unrecognized arguments: --cahce {url} and more")


@pytest.mark.parametrize("url", ["postgresql://u:s@same@h/db", "mysql://u:s%40same@h/db", "postgresql://u:s%40same@h:port/db"])
def test_what_is_no_address_is_refused_without_its_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CacheError) as e:
        cache.open(url)
    assert "same" not in "".join(traceback.format_exception(e.value))
    assert main(["cache", "list", "--cache", url]) == 2
    shown = capsys.readouterr()
    assert "same" not in shown.out + shown.err and "error: " in shown.err


def test_a_driver_that_repeats_the_password_is_not_quoted() -> None:
    address = Address.parse(f"postgresql://u:{SECRET}@h/db?sslpassword=key")
    error = classify(type("OperationalError", (Exception,), {})("cannot use s@same or key at h"), address)
    assert isinstance(error, Unreachable) and "cannot use *** or *** at h" in str(error)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process change its arguments")
def test_other_users_do_not_see_it_among_the_arguments() -> None:
    code = "import tilewright.cli.terminal.sanitised as a; print(a.hide(), open('/proc/self/cmdline').read().split(chr(0)))"
    words = [
        sys.executable,
        "-c",
        code,
        "cache",
        "pull",
        "--cache",
        f"postgresql://u:{SECRET}@h/db",
        f"--cache=postgresql://h/db?password={SECRET}",
        "é",
    ]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240).stdout
    assert shown.startswith("True") and SECRET not in shown and "postgresql://u:***@h/db" in shown and shown.rstrip().endswith("'é', '']")


# the settings -------------------------------------------------------------------------------------------------------
def test_the_settings_name_the_team(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert team_setting.team() is None
    assert main(["cache", "team"]) == 2 and "no team's cache is named: `tune cache team URL` keeps one" in capsys.readouterr().err
    assert main(["cache", "team", "postgresql://u@h/db"]) == 0
    assert str(team_setting.team()) == "postgresql://u@h/db"
    monkeypatch.setenv(team_setting.ENV, "postgresql://other/db")
    assert str(team_setting.team()) == "postgresql://other/db"
    monkeypatch.setenv(team_setting.ENV, "")
    assert team_setting.team() is None
    monkeypatch.delenv(team_setting.ENV)
    with pytest.raises(UsageError, match="no place for a password"):
        team_setting.remember("postgresql://u:p@h/db")
    assert main(["cache", "team", "--forget"]) == 0 and team_setting.team() is None


@pytest.mark.parametrize("text", ["team = 3", "team", 'team = "a"\nmore = 1', "\xff", 'team = "mysql://h/db"'])
def test_settings_that_are_not_understood_are_said(text: str) -> None:
    team_setting.remember("postgresql://h/db")
    team_setting.path().write_bytes(text.encode("latin-1"))
    with pytest.raises((UsageError, CacheError), match=r"is not understood|is not supported"):
        cache.open()


def test_settings_that_others_can_write_are_not_read() -> None:
    file = team_setting.remember("postgresql://h/db")
    file.chmod(0o666)
    with pytest.warns(CacheWarning, match=r"cache.toml are not read"):
        assert team_setting.team() is None
