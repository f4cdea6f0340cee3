"""BibTeX keys of the sources of methods, problems and experiments; `references.bib` has the entries."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import resources

from polhode import checks

PAPERS = {
    "000": "tumiotto2024",
    "001": "holzinger2024",
    "002": "celledoni2022",
    "003": "baker2021",
    "004": "kinon2024",
}
"""Keys of the papers whose experiments can be reproduced, by their numbers in this library."""

_RKMK = ("munthekaas1999", "celledoni2022")
_FREE = ("celledoni2003", "celledoni2022")
_PAIR_32, _PAIR_54 = ("bogacki1989",), ("dormand1980", "shampine1986")
_HALF_EXPLICIT = ("tumiotto2024", "brasey1993", "arnold1998")
_LIVENS = ("kinon2024", "gonzalez1996")
_SYMPLECTIC = ("celledoni2022", "bogfjellmo2016")

METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lie-euler", "lie-euler-heun", "lie-midpoint"), _RKMK),
    **dict.fromkeys(("rkmk3", "rkmk4"), (*_RKMK, "kutta1901")),
    "rkmk4-2c": ("casas2003", "celledoni2022"),
    "rkmk5": (*_RKMK, "dormand1980"),
    "rkmk6": (*_RKMK, "butcher1964"),
    "rkmk32": (*_RKMK, *_PAIR_32),
    "rkmk54": (*_RKMK, *_PAIR_54),
    "cg3": ("crouch1993", "celledoni2022"),
    "cg4": ("crouch1993", "owren1999"),
    **dict.fromkeys(("cf3", "cf4"), _FREE),
    **dict.fromkeys(("cf32a", "cf32b", "cf43"), (*_FREE, "curry2019")),
    "rk4": ("kutta1901",),
    "rk6": ("butcher1964",),
    "ode23": _PAIR_32,
    "dopri5": _PAIR_54,
    "generalized-alpha": ("bruls2010", "arnold2015", "chung1993", "holzinger2024", "bruls2014", "cosimo2020"),
    "bdf": ("wieloch2021", "brenan1996", "gear1985"),
    **dict.fromkeys(("herk1", "herk2", "herk3", "herk4"), _HALF_EXPLICIT),
    **dict.fromkeys(("herk5", "herk54"), (*_HALF_EXPLICIT, "dormand1980")),
    "implicit-midpoint": ("hairer2006", "zanna2001"),
    "moreau": ("moreau1988", "jean1999"),
    "stormer-verlet": ("hairer2006",),
    "rattle": ("andersen1983", "leimkuhler1994", "hairer2006"),
    "rodrigues": ("baker2021", "campello2015"),
    "rigid-verlet": ("dullweber1997", "moser1991"),
    "symplectic": _SYMPLECTIC,
    "symplectic4": (*_SYMPLECTIC, "suzuki1990", "hairer2006"),
    "symplectic6": (*_SYMPLECTIC, "kahan1997", "hairer2006"),
    **dict.fromkeys(("eml", "reml", "null-eml"), (*_LIVENS, "simo1991")),
    "mpl": ("kinon2024",),
    **dict.fromkeys(("emh", "mph"), ("betsch2009",)),
}
"""Keys of each method; its definition first."""

PROBLEMS: dict[str, tuple[str, ...]] = {
    "andrews": ("schiehlen1990", "hairer1996"),
    "bend-45": ("bathe1979", "simo1986"),
    "bennett": ("bennett1903",),
    "body-chain": (),
    "cantilever": ("mattiasson1981", "bisshopp1945"),
    "eulers-disc": ("moffatt2000",),
    "falling-block": (),
    "flexible-slider-crank": ("simeon1996",),
    "flying-spaghetti": ("simo1988", "tumiotto2024"),
    "four-bar-loop": ("kinon2024",),
    "free-rigid-body": ("kinon2024", "landau1976"),
    "grain-pile": (),
    "hanging-cable": (),
    "heavy-top": ("bruls2010", "celledoni2022"),
    "heavy-top-constrained": ("bruls2010",),
    "hopper": (),
    "mass-spring": ("kinon2024",),
    "pendulum-3d": ("baker2021",),
    "pendulum-chain": ("celledoni2022",),
    "planar-four-bar": (),
    "puma": ("holzinger2024",),
    "quadrotors": ("celledoni2022", "lee2013"),
    "rattleback": ("bondi1986",),
    "roll-up": ("tumiotto2024",),
    "rotating-drum": (),
    "rotor": ("holzinger2024",),
    "slender-ring": ("love",),
    "slider-crank": ("iftomm", "holzinger2024"),
    "spring-pendulum": ("kinon2024",),
    "steady-precession": ("kinon2024",),
    "tippe-top": ("rauch2005",),
    "torus": ("baker2021",),
    "whirling-cable": (),
}
"""Keys of each named problem; none for those of this library."""


def keys(name: str | None = None) -> tuple[str, ...]:
    """Keys to cite for a method, a named problem or an experiment; this library's own key where there is no other.

    Raises ValueError for unknown names.
    """
    if name is None:
        return ("polhode",)
    sources = METHODS | PROBLEMS
    paper = name.partition("-")[0]
    if paper in PAPERS:
        from polhode import experiments

        sources |= {each: (PAPERS[paper],) for each in (paper, *experiments.names(paper))}
    if name not in sources:
        near = checks.nearest(name, sources)
        raise ValueError(f"There is no integrator, problem or experiment `{name}`.{near} `polhode list` names them.")
    return sources[name] or ("polhode",)


def bibtex(entries: Iterable[str]) -> str:
    """The entries of some keys, as the text of a BibTeX file."""
    return "\n\n".join(_entries()[key] for key in entries)


@functools.cache
def _entries() -> dict[str, str]:
    """Key → entry."""
    import polhode

    text = resources.files("polhode").joinpath("references.bib").read_text(encoding="utf-8")
    own = (
        "@misc{polhode,\n  author = {{polhode developers}},\n"
        "  title = {polhode: structure-preserving simulation of mechanical systems with large rotations},\n"
        f"  note = {{Version {polhode.__version__}}},\n}}"
    )
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in (*text.strip().split("\n\n"), own)}
