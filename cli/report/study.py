"""Pictures of studies for the report's page: importances and parallel coordinates by Optuna's own visualisation, which draws with Plotly.

Plotly's JavaScript goes into the page, so that it fetches nothing. A figure is JSON in the page; the page's script draws it in the page's
colours."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..cache.query import same_kernel

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from ...search.strategies.optuna_study import StoredStudy

STUDIES, SPACES, LINES, FEWEST = 24, 2, 300, 4
"""Studies and templates of each that are drawn, trials in parallel coordinates, and trials below which nothing is drawn."""


def studies_page(url: str, args: Namespace) -> str:
    """The part of the page about the studies of a storage that `args` (--kernel, --dtype, --device, --threads) ask for, with Plotly's
    JavaScript. Raises UsageError where Plotly is missing, or there is no study."""
    return f"{figures_page(url, args)}<script>{library()}</script>{drawing()}"


def drawing() -> str:
    """What draws the figures of a page, and again after a change of it; Plotly comes before."""
    return f"<script>{(files(__package__) / 'study.js').read_text(encoding='utf-8')}</script>"


def figures_page(url: str, args: Namespace) -> str:
    """The same without any script. Raises UsageError."""
    library()
    from ...search.strategies.optuna_study import studies

    found = [s for s in studies(url) if _matches(s, args)]
    if not found:
        raise UsageError("the storage holds no study like that: name another --study, or ask for less")
    parts = [_study(i, s) for i, s in enumerate(found[:STUDIES])]
    if len(found) > STUDIES:
        parts.append(f"<p>The first {STUDIES} of {len(found)} studies are drawn; narrow the report with --kernel for others.</p>")
    return f"<h2>Studies</h2>{''.join(parts)}"


def library() -> str:
    """Plotly's JavaScript. Raises UsageError where it is missing."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError:
        raise UsageError("--study draws with Plotly: pip install 'tilewright[pictures]', or write the page without --study") from None
    return str(get_plotlyjs())


def _matches(s: StoredStudy, args: Namespace) -> bool:
    about = s.about
    name = str(about.get("kernel", s.name))
    return (
        (not args.kernel or same_kernel(name, args.kernel))
        and (not args.device or fnmatchcase(str(about.get("device", "")), args.device))
        and (not args.dtype or str(about.get("dtype", args.dtype)) == args.dtype)
        and (not args.threads or about.get("threads", args.threads) == args.threads)
    )


def _study(i: int, s: StoredStudy) -> str:
    """A section: the study's name, how its trials ended, and pictures of the templates that hold its best trials."""
    ended: dict[str, int] = {}
    for t in s.trials:
        what = str(t.user_attrs.get("outcome", t.state.name.lower()))
        ended[what] = ended.get(what, 0) + 1
    said = ", ".join(f"{n} {what}" for what, n in ended.items())
    spaces = [(name, trials) for name, trials in s.spaces().items() if len(trials) >= FEWEST]
    drawn = "".join(_space(f"p{i}-{k}", name, trials) for k, (name, trials) in enumerate(spaces[:SPACES]))
    if not drawn:
        drawn = f"<p>Fewer than {FEWEST} finished trials of any template: too few for a picture.</p>"
    elif len(spaces) > SPACES:
        drawn += f'<p class="soft">{len(spaces) - SPACES} more templates hold slower trials.</p>'
    return f"<section><h3>{escape(s.name)}</h3><p>{len(s.trials)} trials: {escape(said)}</p>{drawn}</section>"


def _space(mark: str, name: str, trials: Sequence[FrozenTrial]) -> str:
    """The pictures of one template, of which `trials` were finished."""
    import optuna

    from ...search.strategies.optuna_samplers import quiet

    fastest = sorted(trials, key=lambda t: t.value or math.inf)
    unit, scale = _unit(fastest[0].value or 1.0)
    params = sorted({p for t in trials for p in t.params})
    # what never differed has no importance, and only widens the picture
    params = [p for p in params if len({repr(t.params.get(p)) for t in trials}) > 1 and all(p in t.params for t in trials)]
    if not params:
        return f"<p>Every finished trial of {escape(name)} chose the same.</p>"
    names = {p: p.removeprefix(f"{name}.") for p in params}

    title = f"time in {unit}"
    whole, part = _renamed(trials, names, scale), _renamed(fastest[:LINES], names, scale)
    view = optuna.visualization
    with quiet():
        figures = [
            ("Every finished trial", view.plot_optimization_history(whole, target_name=title)),
            ("Importance of each choice for the time", view.plot_param_importances(whole, target_name=title)),
            ("Parallel coordinates: a line is a trial", view.plot_parallel_coordinate(part, target_name=title)),
        ]
    head = f"<h4>{escape(name or 'all trials')}: {len(trials)} finished trials</h4>"
    return head + "".join(_figure(f"{mark}-{n}", caption, figure) for n, (caption, figure) in enumerate(figures))


def _renamed(trials: Sequence[FrozenTrial], names: dict[str, str], scale: float) -> Study:
    """A study in memory of finished trials with some of their parameters, by shorter names, and their times by `scale`."""
    import optuna

    with_names = [
        optuna.trial.create_trial(
            value=(t.value or 0.0) * scale,
            params={new: t.params[old] for old, new in names.items()},
            distributions={new: t.distributions[old] for old, new in names.items()},
        )
        for t in sorted(trials, key=lambda t: t.number)
    ]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="minimize")
    study.add_trials(with_names)
    return study


def _unit(seconds: float) -> tuple[str, float]:
    """A unit in which a time is easy to read, and how many of it a second is."""
    return next(((u, f) for u, f in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if seconds * f >= 1), ("ns", 1e9))


def _figure(mark: str, caption: str, figure: Any) -> str:
    made = json.loads(figure.to_json())
    layout = {k: v for k, v in made["layout"].items() if k not in ("template", "title")}
    data = json.dumps({"data": made["data"], "layout": layout}, allow_nan=False)
    # inside a script nothing is an entity; a name may hold anything
    data = data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return (
        f'<figure class="wide"><figcaption>{escape(caption)}</figcaption><div class="study" data-figure="{mark}"></div></figure>'
        f'<script type="application/json" id="{mark}">{data}</script>'
    )
