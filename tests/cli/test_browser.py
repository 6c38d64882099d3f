"""The report's page in a real browser, at three widths, light and dark; skipped where no Chromium is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from .conftest import Tune
from .test_pictures import keep_study, record_crowd

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium-headless-shell"),
]

PROBE = """<script>
addEventListener("load", () => {
  const frames = [];
  const overlap = (a, b) => a.left < b.right - 1 && a.right > b.left + 1 && a.top < b.bottom - 1 && a.bottom > b.top + 1;
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const measure = frame => {
    const doc = frame.contentDocument, look = frame.contentWindow.getComputedStyle.bind(frame.contentWindow);
    const names = [...doc.querySelectorAll("svg text.label, svg text.note")].map(t => [t.textContent, t.getBoundingClientRect(), t]);
    const ticks = [...doc.querySelectorAll("svg")].flatMap(svg => {
      const boxes = [...svg.querySelectorAll("text.tick[text-anchor=middle]")].map(t => t.getBoundingClientRect());
      return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => overlap(a, b)));
    });
    const upright = names.filter(([,, t]) => !t.hasAttribute("transform"));
    const page = look(doc.body).backgroundColor, card = look(doc.querySelector("section")).backgroundColor;
    return {
      width: frame.contentWindow.innerWidth, wide: doc.documentElement.scrollWidth,
      dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches, back: light(page),
      met: upright.flatMap(([n, a], i) => upright.slice(i + 1).filter(([, b]) => overlap(a, b)).map(([m]) => [n, m])),
      drawn: [...doc.querySelectorAll("div.study")].map(d => d.querySelector("svg.main-svg")?.getBoundingClientRect().width / d.clientWidth),
      ticks: ticks.length, names: doc.querySelectorAll("svg text.label").length, points: doc.querySelectorAll("figure > svg .point").length,
      contrast: Math.min(contrast(look(doc.querySelector("h1")).color, page), contrast(look(doc.querySelector("header .soft")).color, page),
        ...names.map(([,, t]) => contrast(look(t).fill, card))),
      outside: upright.filter(([, b, t]) => {
        const box = t.closest("svg").getBoundingClientRect();
        return b.left < box.left - 1 || b.right > box.right + 1;
      }).map(([n]) => n),
    };
  };
  document.body.innerHTML = "<pre id=found>" + JSON.stringify([...document.querySelectorAll("iframe")].map(measure)) + "</pre>";
});
</script>"""
"""Measures the pages in its frames: what overlaps, what is wider than the window, and how well it can be read (contrast as WCAG 2 defines it)."""


def dumped(file: Path, dark: bool) -> str:
    """What the browser makes of a file."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    done = subprocess.run(
        [*command, scheme, f"--user-data-dir={file.parent / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_and_can_be_read(tune: Tune, cache_file: Path, tmp_path: Path, dark: bool) -> None:
    record_crowd(cache_file)
    assert tune("report", "--html", str(tmp_path / "r.html")).code == 0
    widths, files = [360, 800, 1600], ["r.html"] * 3
    if dark and find_spec("plotly") is not None:
        study = str(tmp_path / "study.log")
        keep_study(study)
        assert tune("report", "--html", str(tmp_path / "s.html"), "--study", study, "--kernel", "*").code == 0
        widths, files = [*widths, 360], [*files, "s.html"]
    frames = "".join(
        f'<iframe src="{file}" width="{w}" height="900" style="border:0"></iframe>' for file, w in zip(files, widths, strict=True)
    )
    (tmp_path / "all.html").write_text(f"<!doctype html><meta charset=utf-8>{frames}{PROBE}")
    found = re.search(r"<pre id=\"found\">(.*?)</pre>", dumped(tmp_path / "all.html", dark), re.S)
    assert found
    pages = json.loads(found[1])
    assert [p["width"] for p in pages] == widths
    for p, file in zip(pages, files, strict=True):
        assert p["wide"] <= p["width"], f"the page is {p['wide']} wide in a window of {p['width']}"
        assert not p["met"] and not p["outside"] and not p["ticks"], p
        assert len(p["drawn"]) == 3 * (file == "s.html") and all(share and 0.9 < share <= 1.01 for share in p["drawn"]), p
        assert p["names"] >= 5 and p["points"] == 40
        assert p["dark"] == dark and (p["back"] < 0.1) == dark, p
        assert p["contrast"] >= 4.5, p
