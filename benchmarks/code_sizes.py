"""Sizes of exported code, the time that gcc takes for it, and whether its steps have the bytes of `simulate`.

    python benchmarks/code_sizes.py [panda] [quadruped] [talos] [ball] [box] …

Prints for each model and method lines of C, bytes on the stack of a call at most, processor seconds of Python and of
gcc -O2, and the largest difference after 50 steps. Robots need the extra `survey`.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from robots import ROBOTS

import polhode as ph

if sys.platform == "win32":
    sys.exit("The CPU time of other processes is not measured on Windows.")
import resource

COUNT = 50
BEFORE = 5
"""Numbers of a carry before its state."""


def robot(name: str) -> ph.Problem:
    """A robot without contacts."""
    return ph.load_model(ROBOTS[name].path, floating=ROBOTS[name].floating).problem(t1=1.0)


def dropped(shape: ph.shapes.Sphere | ph.shapes.Box) -> ph.Problem:
    """A body that falls on the floor."""
    model = ph.Model(gravity=(0, 0, -9.81))
    motion = {"velocity": (1.0, 0.2, -1.0), "angular_velocity": (1.0, 2.0, 0.5)}
    model.add_body(mass=1.0, inertia=(0.01, 0.012, 0.015), position=(0, 0, 0.3), shape=shape, name="body", **motion)
    model.ground.add_shape(ph.shapes.Plane())
    model.contacts(friction=0.5, restitution=0.3)
    return model.problem("SO3xR3", t1=1.0)


def measure(name: str, problem: ph.Problem, method: str, h: float) -> None:
    """Prints one row."""
    with tempfile.TemporaryDirectory() as place:
        folder, began = Path(place), time.process_time()
        source = ph.export_code(problem, method, folder / "model.c", h=h, name="model")
        python, before = time.process_time() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        flags = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")
        subprocess.run(["cc", *flags, source, "-o", folder / "model.so", "-lm"], check=True)
        gcc = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        library, carry = ctypes.CDLL(str(folder / "model.so")), (ctypes.c_double * 1_000_000)()
        library.model_start(ctypes.c_double(problem.t_span[0]), carry)
        failures = sum(library.model_step(carry) != 0 for _ in range(COUNT))
        lines = source.read_text().count("\n")
        stack = re.findall(r"at most (\d+) bytes", source.with_suffix(".h").read_text())[0]
    run = ph.simulate(problem, method, h=h, t1=problem.t_span[0] + COUNT * h, save_every=None)
    state = np.concatenate([np.ravel(np.asarray(x)[-1]) for x in jax.tree.leaves(run.state)])
    off = np.max(np.abs(np.frombuffer(carry)[BEFORE : BEFORE + len(state)] - state))
    print(
        f"{name} {method}: {lines} lines, {stack} bytes, {python:.1f} s + gcc {gcc:.1f} s, {failures} failures, {off}"
    )


CASES = {
    **{name: (lambda name=name: robot(name), ("rkmk4", "generalized-alpha")) for name in ("panda", "quadruped")},
    "talos": (lambda: robot("talos"), ("rkmk4",)),
    "ball": (lambda: dropped(ph.shapes.Sphere(0.1)), ("moreau",)),
    "box": (lambda: dropped(ph.shapes.Box((0.2, 0.3, 0.4))), ("moreau",)),
}

if __name__ == "__main__":
    for key in sys.argv[1:] or CASES:
        make, methods = CASES[key]
        for each in methods:
            measure(key, make(), each, 2.0**-10)
