"""A cable between two masts: its sag against that of a catenary, and how it vibrates.

`python examples/cable.py FOLDER` writes cable.png into FOLDER.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")
span, length, edges = 8.0, 10.0, 8  # m, m, pieces of the rod
left, right = (-span / 2, 0, 0), (span / 2, 0, 0)

# Stiffness of bending (twice), torsion, shear (twice) and extension; the last three are constrained away below.
section = ph.rods.Section((0.1, 0.1, 50.0, 1e6, 1e6, 1e6), mass=0.5, inertia=(1e-3, 1e-3, 1e-3), radius=0.01)
model = ph.Model(gravity=(0, 0, -9.81), units="SI")
points = ph.rods.catenary(left, right, length=length, edges=edges)
cable = model.add_rod(
    points=points, lengths=length / edges, normal=(0, 1, 0), section=section, constrained="both", name="cable"
)
# Universal joints hold the ends and keep the cable from spinning about itself.
for name, node, point in (("left", cable.first, left), ("right", cable.last, right)):
    model.add(ph.joints.Universal(model.ground, node, point, (1, 0, 0), (0, 1, 0), name=name))

problem = model.problem("S3|xR3", t1=1.0, repair=True)
rest = ph.equilibrium(problem)
shape = np.asarray(cable.points(problem.system)(0.0, rest.state))

a = brentq(lambda a: 2 * a * np.sinh(span / (2 * a)) - length, 1.0, 100.0)
sag = a * (np.cosh(span / (2 * a)) - 1)
print(f"sag {-shape[:, 2].min():.4f} m, of a catenary {sag:.4f} m; stable: {rest.stable}")
print(f"force of a mast {np.linalg.norm(rest.joints['left'].force):.2f} N")
print("frequencies", ph.modes(problem, rest.state).hertz[:4].round(4), "Hz")

x = np.linspace(-span / 2, span / 2, 200)
figure, axes = plt.subplots(layout="constrained")
axes.plot(shape[:, 0], shape[:, 2], "o-", label=f"rod of {edges} edges")
axes.plot(x, a * (np.cosh(x / a) - np.cosh(span / (2 * a))), "--", label="catenary")
axes.set(xlabel="x, m", ylabel="z, m", aspect="equal")
axes.legend()
figure.savefig(folder / "cable.png")
