"""Export of runs: tables, figures, pages for the browser, films, glTF, VTK."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from polhode.progress import ProgressCallback, progress_bar
from polhode.replacement import replacement
from polhode.solution.dataset import to_xarray
from polhode.solution.solution import Solution
from polhode.storage.attributes import attributes

if TYPE_CHECKING:
    from polhode.viewing.scene.scene import Scene


def export(
    solution: Solution,
    path: str | Path,
    columns: str | Sequence[str] | None = None,
    *,
    progress: bool = False,
    joints: bool = True,
    tint: str | None = None,
    arrows: str | Sequence[str] = (),
) -> Path:
    """Writes `solution` in the format that the suffix of `path` names and returns the path.

    A file of that name is replaced when the new one is complete; after an error it is unchanged.

    - `.csv`, `.parquet`: one row an instant, one column a number, named like `crank.angle` and `rocker.x` (Parquet
      needs the `parquet` extra).
    - `.nc`: netCDF with labelled dimensions, or with `columns` these (needs the `netcdf` extra).
    - `.png`: outputs, drifts, residuals.
    - `.html`: one offline page with charts and, for named problems and those of models, the motion.
    - `.mp4`, `.gif`: a film of the motion (mp4 needs the `video` extra).
    - `.glb`: the motion as glTF. - `.pvd`: the motion for ParaView, with a folder of files beside it.

    **Arguments:**

    - `columns`: of tables, as in `Solution.to_pandas`.
    - `progress`: show the number of drawn pictures of a film on standard error.
    - `joints`: mark joints and the ground in films and glTF; pages have a switch for it.
    - `tint`: colour the rods of a film by a strain or force, such as "curvature" or "axial force".
    - `arrows`: draw these in a film, such as "joint force", "weight" or "linear momentum".

    Raises ValueError for options that the format or the run doesn't have, OSError if the file can't be written.
    """
    path = Path(path)
    check_ending(path)
    suffix = path.suffix.lower()
    if columns is not None and suffix not in _TABLES:
        raise ValueError(f"`columns` are for {', '.join(_TABLES)}; `{path.name}` shows the whole run.")
    if (tint is not None or len(arrows)) and suffix not in _FILMS:
        raise ValueError(f"`tint` and `arrows` are for films, {', '.join(_FILMS)}; pages let one choose them.")
    if suffix in _FILMS:
        look = (tint, (arrows,) if isinstance(arrows, str) else tuple(arrows))
        scene = _moving_scene(solution, joints)
        with progress_bar(progress, path.name) as report, replacement(path) as part:
            _FILMS[suffix](solution, scene, part, look, report)
    elif suffix == ".pvd":
        _pvd(solution, path, joints)
    else:
        with replacement(path) as part:
            _WRITERS[suffix](solution, part, _FormatOptions(columns, joints))
    return path


class _FormatOptions(NamedTuple):
    """Options of some formats: columns of tables, and whether joints are marked."""

    columns: str | Sequence[str] | None
    joints: bool


def check_ending(path: Path) -> None:
    """Raises ValueError for a suffix that names no format."""
    endings = (*_WRITERS, ".pvd", *_FILMS)
    if path.suffix.lower() not in endings:
        raise ValueError(f"`{path.name}` must end in one of {', '.join(endings)} to say which format is wanted.")


def _csv(solution: Solution, path: Path, options: _FormatOptions) -> None:
    # The writer of pandas is several times faster than NumPy's and keeps all digits.
    frame = solution.to_pandas(options.columns)
    frame.columns = [_no_formula(str(name)) for name in frame.columns]
    frame.to_csv(path, index=False)


def _no_formula(name: str) -> str:
    """A heading that spreadsheets don't evaluate as a formula: names come from untrusted files."""
    return f"'{name}" if name.lstrip().startswith(_FORMULAS) or name[:1].isspace() else name


def _parquet(solution: Solution, path: Path, options: _FormatOptions) -> None:
    try:
        solution.to_pandas(options.columns).to_parquet(path, engine="pyarrow", index=False)
    except ImportError as error:
        raise ValueError("Writing Parquet needs pyarrow: `pip install 'polhode[parquet]'`.") from error


def _netcdf(solution: Solution, path: Path, options: _FormatOptions) -> None:
    if options.columns is None:
        dataset = to_xarray(solution)
    else:
        dataset = solution.to_pandas(options.columns).set_index("time").to_xarray()
        dataset.attrs = attributes(solution.meta, solution.stats)
    content = io.BytesIO()
    try:
        # HDF5 crashes if the disk becomes full, so it writes into memory.
        dataset.to_netcdf(content, engine="h5netcdf")
    except ImportError as error:
        raise ValueError("Writing netCDF needs h5netcdf and h5py: `pip install 'polhode[netcdf]'`.") from error
    path.write_bytes(content.getvalue())


def _png(solution: Solution, path: Path, options: _FormatOptions) -> None:
    del options
    from polhode.viewing import plots

    plots.run(solution).savefig(path, dpi=_FINE)


def _html(solution: Solution, path: Path, options: _FormatOptions) -> None:
    del options
    from polhode.solution import show
    from polhode.viewing.page import page

    path.write_text(page.page(solution, show.scene_of(solution)), encoding="utf-8")


def _moving_scene(solution: Solution, joints: bool) -> Scene:
    """The scene of a run, with symbols for joints or without. Raises ValueError where there is none."""
    from polhode.solution import show

    scene = show.scene_of(solution)
    if scene is None or not scene.parts:
        raise ValueError(
            "The run has no scene, so there is no motion to draw: no scene is defined for this system. Runs of models, "
            "of particles and of named problems have one; .html, .png and .csv hold the numbers."
        )
    return scene if joints else scene.without_symbols()


def _mp4(solution: Solution, scene: Scene, path: Path, look: _Look, report: ProgressCallback | None) -> None:
    from polhode.viewing.film import film

    film.mp4(solution, scene, path, film.Look(*look), report)


def _gif(solution: Solution, scene: Scene, path: Path, look: _Look, report: ProgressCallback | None) -> None:
    from polhode.viewing.film import film

    film.gif(solution, scene, path, film.Look(*look), report)


def _glb(solution: Solution, path: Path, options: _FormatOptions) -> None:
    from polhode.viewing.files import gltf

    gltf.write(solution, _moving_scene(solution, options.joints), path)


def _pvd(solution: Solution, path: Path, joints: bool) -> None:
    from polhode.viewing.files import vtk

    # The writer replaces the file and its folder itself.
    vtk.write(solution, _moving_scene(solution, joints), path)


_Look = tuple[str | None, tuple[str, ...]]
"""Quantities that colour rods, and arrows that are drawn."""

_FINE = 300
"""Dots per inch of figures."""
_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_TABLES = (".csv", ".parquet", ".nc")
_WRITERS = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".nc": _netcdf,
    ".png": _png,
    ".html": _html,
    ".glb": _glb,
}
_FILMS = {".mp4": _mp4, ".gif": _gif}
