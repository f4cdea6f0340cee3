"""Four methods on the heavy top: the error of each step size and the order they show; then a spread of masses.

`python examples/study.py FOLDER` writes study.png into FOLDER.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")
top = ph.problems.get("heavy-top")
steps = [4e-3, 2e-3, 1e-3, 5e-4]

figure, axes = plt.subplots(layout="constrained")
for method in ("lie-midpoint", "rkmk3", "rkmk4", "rkmk5"):
    study = ph.studies.convergence(top, method, steps, outputs=["centre_of_mass"], t1=0.2, chaos=False)
    errors = study.errors["centre_of_mass"]
    print(f"{method}: order {study.orders['centre_of_mass']:.2f}, error {errors[-1]:.1e} m with h = {steps[-1]}")
    axes.loglog(steps, errors, "o-", label=method)
axes.set(xlabel="step, s", ylabel="error of the centre of mass, m", title="Heavy top after 0.2 s")
axes.legend()
figure.savefig(folder / "study.png")

# Many at once, in the lanes of the processor's vectors: how far uncertain data scatter the motion.
spread = ph.ensemble(
    top, "rkmk4", samples=lambda random: {"mass": 15.0 * random.normal(1.0, 0.01)}, seeds=64, t1=0.2, save_every=None
)
height = spread.dataset["outputs.centre_of_mass"].values[:, -1, 2]
print(
    f"{spread.stats['members']} tops with masses of 1 % deviation: heights {height.mean():.4f} ± {height.std():.4f} m"
)
