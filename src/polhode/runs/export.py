"""Runs in other people's formats: csv, netCDF, a figure, a page for the browser, films, glTF, VTK."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from polhode.runs import layout
from polhode.runs.dataset import to_xarray
from polhode.solution import Solution

if TYPE_CHECKING:
    from polhode.viewing.scene import Scene


def export(solution: Solution, path: str | Path) -> Path:
    """Writes `solution` in the format that the ending of `path` names and returns the path.

    - `.csv`: one row an instant, one column a number, named like `outputs.centre_of_mass.0`.
    - `.nc`: netCDF with labelled dimensions (needs the `netcdf` extra).
    - `.png`: outputs, drifts, residuals.
    - `.html`: one offline page with charts and, for named problems and those of models, the motion.
    - `.mp4`, `.gif`: a film of the motion (mp4 needs the `video` extra).
    - `.glb`: the motion as glTF. - `.pvd`: the motion for ParaView, with a folder of files beside it.
    """
    path = Path(path)
    writer(path)(solution, path)
    return path


def writer(path: Path) -> Callable[[Solution, Path], None]:
    """The function that writes the format that the ending names. Raises ValueError for other endings."""
    found = _WRITERS.get(path.suffix.lower())
    if found is None:
        raise ValueError(f"`{path.name}` must end in one of {', '.join(_WRITERS)} to say which format is wanted.")
    return found


def columns(solution: Solution) -> dict[str, np.ndarray]:
    """Every number of every frame by its flat name; arrays of shape (n,), `time` first."""
    _, leaves = layout.flatten(solution.frames)
    flat: dict[str, np.ndarray] = {}
    for name, values in leaves.items():
        for index in np.ndindex(values.shape[1:]):
            flat[".".join((name, *map(str, index)))] = values[(slice(None), *index)]
    return flat


def _csv(solution: Solution, path: Path) -> None:
    # xarray brings pandas, whose writer is some times faster than NumPy's and keeps all digits.
    import pandas

    pandas.DataFrame(columns(solution)).to_csv(path, index=False)


def _netcdf(solution: Solution, path: Path) -> None:
    try:
        to_xarray(solution).to_netcdf(path, engine="h5netcdf")
    except ImportError as error:
        raise ValueError("Writing netCDF needs h5netcdf and h5py: `pip install 'polhode[netcdf]'`.") from error


def _png(solution: Solution, path: Path) -> None:
    from polhode.viewing import plots

    plots.run(solution).savefig(path)


def _html(solution: Solution, path: Path) -> None:
    from polhode.viewing import page, showing

    path.write_text(page.page(solution, showing.scene_of(solution)), encoding="utf-8")


def _moving(solution: Solution) -> Scene:
    """The scene of a run. Raises ValueError where there is none."""
    from polhode.viewing import showing

    scene = showing.scene_of(solution)
    if scene is None or not scene.parts:
        raise ValueError(
            "The run has no scene, so there is no motion to draw: it is of a system that only you know. Runs of models "
            "and of named problems have one; .html, .png and .csv hold the numbers."
        )
    return scene


def _mp4(solution: Solution, path: Path) -> None:
    from polhode.viewing import film

    film.mp4(solution, _moving(solution), path)


def _gif(solution: Solution, path: Path) -> None:
    from polhode.viewing import film

    film.gif(solution, _moving(solution), path)


def _glb(solution: Solution, path: Path) -> None:
    from polhode.viewing import gltf

    gltf.write(solution, _moving(solution), path)


def _pvd(solution: Solution, path: Path) -> None:
    from polhode.viewing import vtk

    vtk.write(solution, _moving(solution), path)


_WRITERS = {
    ".csv": _csv,
    ".nc": _netcdf,
    ".png": _png,
    ".html": _html,
    ".mp4": _mp4,
    ".gif": _gif,
    ".glb": _glb,
    ".pvd": _pvd,
}
