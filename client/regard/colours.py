"""The colours of maps, as the service draws them: a table from cold to hot, and two tables with zero in the middle."""

import base64
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Colours: TypeAlias = npt.NDArray[np.uint8]
"""(levels, 3): red, green and blue."""

_VIRIDIS = """
RAFURAJWRQRXRQVZRgdaRghcRgpdRgteRw1gRw5hRxBjRxFkRxNlSBRnSBZoSBdpSBhqSBpsSBttSBxuSB1vSB9wSCBxSCFzSCN0SCR1SCV2SCZ3SCh4
SCl5Ryp6Ryx6Ry17Ry58Ry99RjB+RjJ+RjN/RjSARTWBRTeBRTiCRDmDRDqDRDuEQz2EQz6FQj+FQkCGQkGGQUKHQUSHQEWIQEaIP0eIP0iJPkmJPkqJ
PkyKPU2KPU6KPE+KPFCLO1GLO1KLOlOLOlSMOVWMOVaMOFiMOFmMN1qMN1uNNlyNNl2NNV6NNV+NNGCNNGGNM2KNM2ONMmSOMmWOMWaOMWeOMWiOMGmO
MGqOL2uOL2yOLm2OLm6OLm+OLXCOLXGOLHGOLHKOLHOOK3SOK3WOKnaOKneOKniOKXmOKXqOKXuOKHyOKH2OJ36OJ3+OJ4COJoGOJoKOJoKOJYOOJYSO
JYWOJIaOJIeOI4iOI4mOI4qNIouNIoyNIo2NIY6NIY+NIZCNIZGMIJKMIJKMIJOMH5SMH5WLH5aLH5eLH5iLH5mKH5qKHpuKHpyJHp2JH56JH5+IH6CI
H6GIH6GHH6KHIKOGIKSGIaWFIaaFIqeFIqiEI6mDJKqDJauCJayCJq2BJ62BKK6AKa9/KrB/LLF+LbJ9LrN8L7R8MbV7MrZ6NLZ5Nbd5N7h4OLl3Orp2
O7t1Pbx0P7xzQL1yQr5xRL9wRsBvSMFuSsFtTMJsTsNrUMRqUsVpVMVoVsZnWMdlWshkXMhjXsliYMpgY8tfZcteZ8xcac1bbM1abs5YcM9Xc9BWddBU
d9FTetFRfNJQf9NOgdNNhNRLhtVJidVIi9ZGjtZFkNdDk9dBldhAmNg+m9k8ndk7oNo5oto3pds2qNs0qtwyrdwwsN0vst0ttd4ruN4put4ovd8mwN8l
wt8jxeAhyOAgyuEfzeEd0OEc0uIb1eIa2OIZ2uMZ3eMY3+MY4uQY5eQZ5+QZ6uUa7OUb7+Uc8eUd9OYe9uYg+OYh++cj/ecl
"""
"""Smith & van der Walt 2015 (CC0)."""
_BLUE_TO_RED = (  # RdBu of ColorBrewer (Brewer, Apache-2.0); its grey is white
    "053061", "2166ac", "4393c3", "92c5de", "d1e5f0", "ffffff", "fddbc7", "f4a582", "d6604d", "b2182b", "67001f",
)  # fmt: skip
_AGAINST, _FOR = "1f77d0", "e03c28"
SIDE = 127
"""Levels on each side of zero."""


def _between(*hexes: str, levels: int) -> Colours:
    """Return a table of colours, interpolated between equally distant ones."""
    stops = np.array([list(bytes.fromhex(one)) for one in hexes])
    places = np.linspace(0, len(stops) - 1, levels)
    return np.stack([np.interp(places, range(len(stops)), channel) for channel in stops.T], 1).round().astype(np.uint8)


HEAT: Colours = np.frombuffer(base64.b64decode(_VIRIDIS), np.uint8).reshape(256, 3)
"""Of values without signs."""
SIGNED: Colours = _between(*_BLUE_TO_RED, levels=2 * SIDE + 1)
"""Of cells: from blue by way of white to red."""
AGAINST_AND_FOR: Colours = np.concatenate(
    [_between(_AGAINST, _AGAINST, levels=SIDE), _between(_FOR, _FOR, levels=SIDE + 1)]
)
"""Over a picture, where it is the opacity that grows: blue below zero, and red from there."""


def levels_of(shares: npt.NDArray[np.floating], colours: Colours) -> npt.NDArray[np.uint8]:
    """Return the nearest level of a table for each share of its length, 0 to 1."""
    return (shares * (len(colours) - 1) + 0.5).astype(np.uint8)


def hexes(shares: npt.NDArray[np.floating], colours: Colours) -> list[str]:
    """Return the colour of each share, 0 to 1, as `#rrggbb`."""
    return ["#" + bytes(colour).hex() for colour in colours[levels_of(shares, colours)]]


def ink_on(colour: str) -> str:
    """Return black or white: what is read better on a colour."""
    red, green, blue = bytes.fromhex(colour[1:])
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 128 else "#ffffff"
