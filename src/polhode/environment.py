"""The environment of this library: versions, processor, back end, cache."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

_EXTRAS = ("import", "video", "netcdf", "parquet", "dask")
"""Extras for users; the others are for development."""

_NUMBERS = ("jax", "jaxlib", "numpy", "scipy", "equinox", "llvmlite", "klujax")
"""Packages that results and speed depend on most."""


def report() -> dict[str, Any]:
    """Versions, processor, back end and cache: plain values by name."""
    import polhode

    requirements, pythons = _support()
    return {
        "polhode": polhode.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": _processor(),
        "packages": {name: _version(name) for name in _NUMBERS},
        "extras": _extras(requirements),
        "back end": _back_end(),
        "cache": _cache(),
        "untested": _untested_versions(requirements, pythons),
    }


def processor_name() -> str:
    """The name of the processor."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _processor() -> dict[str, Any]:
    from polhode.compiler.llvm import jit

    facts: dict[str, Any] = {"name": processor_name(), "machine": platform.machine(), "cores": os.cpu_count()}
    if jit.llvm is not None:
        facts |= {"llvm": jit.llvm.get_host_cpu_name(), "doubles in a vector": jit.vector_width()}
    return facts


def _back_end() -> str:
    """The compiler of runs on this machine, with the reason if it isn't LLVM."""
    import jax

    from polhode.compiler.llvm import jit
    from polhode.compiler.placement import on_processor

    devices = f"JAX on {jax.default_backend()}, {jax.device_count()} device{'s' if jax.device_count() > 1 else ''}"
    if not on_processor():
        return f"XLA, since JAX computes on another device than the processor; {devices}"
    if not jit.IS_KNOWN:
        return f"XLA, since this JAX is not known to polhode; {devices}"
    if jit.llvm is None:
        return f"XLA, since llvmlite can't be imported; {devices}"
    return f"machine code by LLVM {'.'.join(map(str, jit.llvm.llvm_version_info))}; {devices}"


def _cache() -> dict[str, Any]:
    from polhode.compiler.cache import disk_cache

    sizes = disk_cache.sizes()
    folder = str(disk_cache.folder())
    with contextlib.suppress(RuntimeError, ValueError):
        # Reports in issues need not contain the name of the user.
        folder = str(Path("~") / disk_cache.folder().relative_to(Path.home()))
    facts: dict[str, Any] = {"folder": folder, "programs": len(sizes), "bytes": sum(sizes)}
    return (
        facts | {"in use": disk_cache.is_on()} | ({"because": disk_cache.objection()} if disk_cache.objection() else {})
    )


def _support() -> tuple[list[Any], list[str]]:
    """Requirements of this library and the Python versions it is tested with; empty if it isn't installed."""
    # A requirement of xarray.
    from packaging.requirements import Requirement

    try:
        metadata = importlib.metadata.metadata("polhode")
    except importlib.metadata.PackageNotFoundError:
        return [], []
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist") or ()]
    kinds = metadata.get_all("Classifier") or ()
    prefix = "Programming Language :: Python :: 3."
    return requirements, [text.rpartition(" ")[2] for text in kinds if text.startswith(prefix)]


def _extras(requirements: list[Any]) -> dict[str, str]:
    """Versions of the installed packages of the extras."""
    names = {one.name for one in requirements if not _applies(one, "") and any(_applies(one, x) for x in _EXTRAS)}
    versions = {name: _version(name) for name in sorted(names)}
    return {name: version for name, version in versions.items() if version is not None}


def _applies(requirement: Any, extra: str) -> bool:
    """Whether a requirement applies here, with an extra, or without any if that is empty."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _untested_versions(requirements: list[Any], pythons: list[str]) -> list[str]:
    """Packages and Python in versions that this library is not tested with."""
    if not requirements:
        return ["polhode runs from its sources, so bounds of versions are not known"]
    problems = []
    here = ".".join(platform.python_version_tuple()[:2])
    if pythons and here not in pythons:
        problems.append(f"Python {here} is none of {', '.join(pythons)}")
    for one in requirements:
        version = _version(one.name) if _applies(one, "") else None
        if version is not None and not one.specifier.contains(version, prereleases=True):
            problems.append(f"{one.name} {version} is not {one.specifier}")
    return problems


def _version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None
