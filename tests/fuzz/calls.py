"""Calls of the public interface with arguments that work."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import polhode as ph
from polhode import particles as pt


class Call(NamedTuple):
    """A function of the interface with arguments that work, and which of them must be finite real numbers."""

    function: Any
    arguments: dict[str, Any]
    numeric: tuple[str, ...] = ()


def model_with_body():
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0.5, 0, 0), name="body")
    return model, body


def on_model(method, **arguments):
    numeric = tuple(k for k, v in arguments.items() if isinstance(v, float | tuple) and k != "name")

    def call(**given):
        model, _ = model_with_body()
        return getattr(model, method)(**given)

    return Call(call, arguments, numeric)


def joint(kind, numeric=(), **arguments):
    def call(first="ground", second="body", **given):
        model, body = model_with_body()
        ends = {"ground": model.ground, "body": body}
        chosen = [ends.get(end, end) if isinstance(end, str) else end for end in (first, second)]
        made = kind(*chosen, **given)
        model.add(made)
        return made

    return Call(call, {"first": "ground", "second": "body", **arguments}, numeric)


def load(kind, numeric=(), **arguments):
    def call(body="body", **given):
        model, known = model_with_body()
        return model.add(kind(known if body == "body" else body, **given))

    return Call(call, {"body": "body", **arguments}, numeric)


def spring(kind, numeric, **arguments):
    def call(**given):
        model, body = model_with_body()
        return model.add(kind(model.ground, body, **given))

    return Call(call, arguments, numeric)


TOP = ph.problems.get("heavy-top")
LINE = ph.VectorField(ph.spaces.Rn(1), lambda t, y: -y)


def simulate(problem=TOP, integrator="rkmk4", **given):
    """Runs of a few steps; nothing that would take long is tried."""
    for name in ("t1", "t0", "h", "rtol", "atol"):
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 1e5 < abs(value) < 1e301:
            given[name] = -1.0 if name != "t0" else None
    return ph.simulate(problem, integrator, **given)


def pendulum(formulation="minimal", **given):
    model, body = model_with_body()
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    return model.problem(formulation, **{"t1": 0.01, **given})


def rod(**given):
    model = ph.Model()
    given = {"points": ((0, 0, 0), (1, 0, 0), (2, 0, 0)), "section": SECTION, **given}
    return model.add_rod(**given)


SECTION = ph.rods.Section(stiffness=(1.0, 1.0, 1.0, 1e3, 1e3, 1e3), mass=1.0, inertia=(0.1, 0.1, 0.2))
MATERIAL = pt.BondMaterial(bending=1.0, axial=100.0, shear=10.0)


def controlled(kind, **given):
    model, body = model_with_body()
    hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
    joint = given.pop("joint", "hinge")
    return model.add(kind(hinge if joint == "hinge" else joint, **given))


def pd(**given):
    return controlled(ph.forces.PD, **given)


def pid(**given):
    return controlled(ph.forces.PID, **given)


CALLS = [
    Call(ph.problems.get, {"name": "heavy-top", "mass": 15.0, "formulation": "SO3"}, ("mass",)),
    Call(ph.problems.get, {"name": "pendulum-chain", "n": 2}),
    Call(ph.problems.get, {"name": "free-rigid-body", "formulation": "S3"}),
    Call(ph.integrators.get, {"name": "generalized-alpha", "rho_inf": 0.8, "newton": "full", "max_iterations": 20}),
    Call(ph.integrators.get, {"name": "herk4", "projection": "position", "tolerance": 1e-9}),
    Call(ph.integrators.get, {"name": "rkmk4", "coordinates": "cayley"}),
    Call(
        ph.StepControl,
        {"safety": 0.9, "min_factor": 0.2, "max_factor": 5.0, "exponent": 0.3, "pi": 0.4, "norm": "rms"},
        ("safety", "min_factor", "max_factor", "exponent", "pi"),
    ),
    Call(ph.StepControl, {"first_step": 1e-3, "max_step": 0.1}, ("first_step", "max_step")),
    Call(
        simulate,
        {
            "problem": TOP,
            "integrator": "rkmk4",
            "h": 1e-3,
            "t0": 0.0,
            "t1": 5e-3,
            "save_every": 2,
            "throw": True,
            "progress": False,
            "breakpoints": (),
            "state0": None,
            "when_full": "fail",
            "control": None,
            "max_steps": 100,
        },
        ("h", "t1", "t0"),
    ),
    Call(simulate, {"rtol": 1e-4, "atol": 1e-6, "integrator": "rkmk32", "t1": 5e-3, "max_steps": 50}, ("rtol", "atol")),
    Call(simulate, {"h": 1e-3, "t1": 5e-3, "save_at": (1e-3, 2e-3)}, ("save_at",)),
    Call(simulate, {"problem": LINE, "integrator": "rkmk3", "state0": np.ones(1), "t1": 0.1, "h": 0.05}, ("state0",)),
    Call(ph.load, {"path": "nowhere.zarr", "salvage": False}),
    Call(ph.resume, {"path": "nowhere.zarr", "t1": 1.0}),
    Call(ph.load_model, {"path": "nowhere.urdf", "positions": {"a": 1.0}, "velocities": None, "keyframe": None}),
    Call(ph.Model, {"gravity": (0.0, 0.0, -9.81)}, ("gravity",)),
    on_model(
        "add_body",
        mass=1.0,
        inertia=(1.0, 1.0, 1.0),
        position=(0.0, 0.0, 0.0),
        rotation=(1.0, 0.0, 0.0, 0.0),
        velocity=(0.0, 0.0, 0.0),
        angular_velocity=(0.0, 0.0, 0.0),
        name="other",
        formulation=None,
        check_inertia=True,
    ),
    on_model("add_point", mass=1.0, position=(0.0, 0.0, 0.0), velocity=(0.0, 0.0, 0.0), name="point"),
    on_model("add_coordinate", mass=1.0, value=0.0, velocity=0.0, name="coordinate"),
    on_model("add_integral", name="integral"),
    on_model("add", part=None),
    on_model("body", name="body"),
    Call(
        pendulum,
        {
            "formulation": "minimal",
            "t1": 0.01,
            "h": 1e-3,
            "name": "p",
            "integrator": "rkmk4",
            "repair": False,
            "hold": (),
        },
        ("t1", "h"),
    ),
    Call(
        pendulum,
        {"formulation": "minimal", "redundant": "error", "t0": 0.0, "outputs": None, "joints": "invariant"},
        ("t0",),
    ),
    joint(ph.joints.Revolute, ("point", "axis"), point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), name="hinge"),
    joint(ph.joints.Spherical, ("point",), point=(0.0, 0.0, 0.0), name=None),
    joint(ph.joints.Prismatic, ("axis",), axis=(0.0, 1.0, 0.0), point=None),
    joint(ph.joints.Cylindrical, ("point", "axis"), point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)),
    joint(ph.joints.Screw, ("point", "axis", "lead"), point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), lead=0.01),
    joint(ph.joints.Planar, ("normal",), normal=(0.0, 1.0, 0.0)),
    joint(
        ph.joints.Universal,
        ("point", "first_axis", "second_axis"),
        point=(0.0, 0.0, 0.0),
        first_axis=(0.0, 1.0, 0.0),
        second_axis=(1.0, 0.0, 0.0),
    ),
    joint(ph.joints.Fixed, (), point=None, name="weld"),
    joint(ph.joints.Generic, ("point",), point=(0.0, 0.0, 0.0), fixed=("x", "rz")),
    joint(
        ph.joints.Distance,
        ("first_point", "second_point", "length"),
        first_point=(0.0, 0.0, 0.0),
        second_point=(0.5, 0.0, 0.0),
        length=0.5,
    ),
    joint(ph.joints.PointOnLine, ("point", "axis"), point=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0)),
    joint(ph.joints.PrescribedRotation, ("axis",), axis=(0.0, 1.0, 0.0), angle=lambda t: t * t),
    joint(ph.joints.PrescribedTranslation, ("axis",), axis=(0.0, 1.0, 0.0), displacement=lambda t: t * t),
    load(ph.forces.PointForce, ("force",), force=(1.0, 0.0, 0.0), point=None),
    load(ph.forces.Torque, ("torque",), torque=(1.0, 0.0, 0.0), frame="body"),
    load(ph.forces.Load, (), function=lambda t, poses, twists: [(jnp.zeros(3), jnp.zeros(3))]),
    load(ph.forces.Potential, (), function=lambda t, poses: poses[0].x @ poses[0].x, time_dependent=False),
    spring(
        ph.forces.SpringDamper,
        ("first_point", "second_point", "stiffness", "damping", "length"),
        first_point=(0.0, 0.0, 0.0),
        second_point=(0.5, 0.0, 0.0),
        stiffness=10.0,
        damping=1.0,
        length=0.4,
    ),
    Call(ph.PiecewiseLinear, {"times": (0.0, 1.0), "values": (1.0, 2.0)}, ("times", "values")),
    Call(ph.CubicSpline, {"times": (0.0, 1.0, 2.0, 3.0), "values": (1.0, 2.0, 0.0, 1.0)}, ("times", "values")),
    Call(ph.Table2D, {"x": (0.0, 1.0), "y": (0.0, 1.0), "values": ((1.0, 2.0), (3.0, 4.0))}, ("x", "y", "values")),
    Call(ph.rotation_vector, {"theta": (0.1, 0.2, 0.3)}, ("theta",)),
    Call(
        ph.studies.convergence,
        {"problem": TOP, "integrator": "rkmk4", "steps": (2e-3, 1e-3), "t1": 4e-3, "outputs": ("axis",)},
        ("steps", "t1"),
    ),
    Call(
        ph.studies.work_precision,
        {"problem": TOP, "integrators": ("rkmk4",), "steps": (2e-3,), "t1": 4e-3, "outputs": ("axis",)},
        ("steps", "t1"),
    ),
    Call(ph.reproduce, {"experiment": "nothing"}),
    Call(ph.equilibrium, {"problem": TOP}),
    Call(ph.modes, {"problem": TOP}),
    Call(
        pt.BondMaterial,
        {"bending": 1.0, "axial": 100.0, "shear": 10.0, "axial_damping": 0.1, "bending_damping": 0.1, "strength": None},
        ("bending", "axial", "shear", "axial_damping", "bending_damping"),
    ),
    Call(
        pt.Particles,
        {
            "masses": 1.0,
            "inertias": 0.1,
            "diameters": 1.0,
            "positions": ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
            "pairs": ((0, 1),),
            "material": MATERIAL,
            "contact": 0.0,
            "gravity": (0.0, 0.0, -9.81),
            "skin": 0.2,
            "walls": (),
            "dtype": "float64",
        },
        ("masses", "inertias", "diameters", "positions", "gravity", "skin"),
    ),
    Call(
        rod, {"points": ((0, 0, 0), (1.0, 0, 0), (2.0, 0, 0)), "section": SECTION, "reference": "straight"}, ("points",)
    ),
    Call(rod, {"constrained": "kirchhoff", "strain": "SE3", "clamped": "first", "closed": False, "lengths": None}),
    Call(
        ph.rods.Section,
        {"stiffness": (1.0, 1.0, 1.0, 1e3, 1e3, 1e3), "mass": 1.0, "inertia": (0.1, 0.1, 0.2), "radius": 0.1},
        ("stiffness", "mass", "inertia", "radius"),
    ),
    Call(pd, {"joint": "hinge", "proportional": 1.0, "derivative": 0.1, "target": 0.2}, ("proportional", "derivative")),
    Call(
        pid, {"joint": "hinge", "proportional": 1.0, "integral": 1.0, "derivative": 0.1}, ("proportional", "integral")
    ),
    spring(
        ph.forces.Bushing,
        ("point", "stiffness", "damping", "rotational_stiffness"),
        point=(0.0, 0.0, 0.0),
        stiffness=1.0,
        damping=0.1,
        rotational_stiffness=1.0,
    ),
    spring(
        ph.forces.TorsionalSpringDamper,
        ("axis", "stiffness", "damping"),
        axis=(0.0, 1.0, 0.0),
        stiffness=1.0,
        damping=0.1,
    ),
    load(
        ph.forces.PlaneContact,
        ("point", "normal", "stiffness", "radius", "damping", "exponent"),
        point=(0.0, 0.0, -1.0),
        normal=(0.0, 0.0, 1.0),
        stiffness=1e3,
        radius=0.1,
        damping=0.1,
        exponent=1.5,
    ),
    Call(
        on_model("add_particles").function,
        {
            "positions": ((2.0, 0.0, 0.0), (3.0, 0.0, 0.0)),
            "masses": 1.0,
            "inertias": 0.1,
            "diameters": 1.0,
            "contact": 0.0,
            "velocities": (0.0, 0.0, 0.0),
        },
        ("positions", "masses", "inertias", "diameters", "velocities"),
    ),
    Call(TOP.replace, {"mass": 15.0}, ("mass",)),
]
