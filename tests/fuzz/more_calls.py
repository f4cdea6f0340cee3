"""More of the public interface, with arguments that work: joints, forces, rods, particles, problems, studies."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from calls import MATERIAL, SECTION, TOP, Call, joint, load, model_with_body, rod, simulate, spring

import polhode as ph
from polhode import particles as pt


def on_hinge(kind, numeric=(), **arguments):
    """A part on a hinge of a model."""

    def call(joint="hinge", **given):
        model, body = model_with_body()
        hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
        chosen = (
            {"hinge": hinge, "hinges": [hinge, hinge], "body": body}.get(joint) if isinstance(joint, str) else joint
        )
        return model.add(kind(joint if chosen is None else chosen, **given))

    return Call(call, {"joint": "hinge", **arguments}, numeric)


def on_hinges(kind, numeric=(), **arguments):
    """What takes a list of joints; one of its arguments may be a body."""

    def call(joints="hinges", **given):
        model, body = model_with_body()
        hinge = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
        words = {"hinges": [hinge], "hinge": hinge, "body": body, "bodies": [body], "model": model}
        made = kind(words.get(joints, joints) if isinstance(joints, str) else joints, **given)
        return made

    return Call(call, {"joints": "hinges", **arguments}, numeric)


def bond(**given):
    model, body = model_with_body()
    other = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(1.5, 0, 0), name="other")
    return model.add(pt.Bond(body, other, **given))


def distributed(**given):
    return ph.rods.DistributedLoad(rod(), **given)


def resting(**given):
    return ph.rods.RodContact(rod(), **given)


def problem(name, numeric, **arguments):
    return Call(ph.problems.get, {"name": name, **arguments}, numeric)


def event(**given):
    watched = [ph.Event(**given)]
    return simulate(LINE, "rkmk4", h=0.05, t1=0.1, state0=np.ones(1), events=watched)


def ensemble(**given):
    return ph.ensemble(TOP, "rkmk4", **{"h": 1e-3, "t1": 2e-3, "save_every": None, **given})


LINE = ph.VectorField(ph.spaces.Rn(1), lambda t, y: -y)
SIZES: dict[str, Any] = {"youngs_modulus": 1e7, "density": 1e3, "poisson": 0.3, "damping": None}

MORE = [
    on_hinges(ph.joints.Combination, ("ratios",), ratios=(1.0,)),
    on_hinges(ph.forces.JointControl, control=lambda t, s, rates: -s),
    on_hinge(ph.joints.RotorInertia, ("inertia",), inertia=0.1, coordinate=None, name="rotor"),
    on_hinge(ph.forces.JointSpring, ("stiffness", "damping", "rest"), stiffness=1.0, damping=0.1, rest=0.0, name="s"),
    on_hinge(
        ph.forces.JointStops,
        ("limits", "stiffness", "damping", "onset"),
        limits=(-1.0, 1.0),
        stiffness=1e3,
        damping=0.1,
        onset=1e-3,
    ),
    on_hinge(ph.forces.JointFriction, ("friction", "stick_velocity"), friction=0.1, stick_velocity=0.01),
    on_hinge(
        ph.forces.Actuator,
        ("gain", "bias", "gear"),
        control=0.1,
        gain=1.0,
        bias=(0.0, 0.0, 0.0),
        gear=1.0,
        control_limits=(-1.0, 1.0),
        force_limits=(-2.0, 2.0),
    ),
    on_hinge(
        ph.forces.PD,
        ("proportional", "derivative"),
        proportional=1.0,
        derivative=0.1,
        force_limits=(-1.0, 1.0),
    ),
    joint(ph.joints.KnifeEdge, ("point", "across"), point=(0.0, 0.0, 0.0), across=(0.0, 1.0, 0.0)),
    joint(
        ph.joints.RollingBall, ("radius", "point", "normal"), radius=0.1, point=(0.5, 0.0, -0.1), normal=(0.0, 0.0, 1.0)
    ),
    joint(
        ph.joints.RollingDisc,
        ("axis", "radius", "normal"),
        axis=(0.0, 1.0, 0.0),
        radius=0.1,
        point=(0.5, 0.0, -0.1),
        normal=(0.0, 0.0, 1.0),
    ),
    joint(ph.joints.Generic, ("axes",), point=(0.0, 0.0, 0.0), axes=((1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0))),
    joint(
        ph.joints.PrescribedMotion,
        ("point",),
        point=(0.0, 0.0, 0.0),
        translation=lambda t: jnp.zeros(3),
        fixed=("x", "y", "z"),
    ),
    joint(ph.joints.PrescribedPose, (), position=lambda t: jnp.array([0.5, 0.0, 0.0]), name="pose"),
    load(ph.forces.PointForce, ("force",), force=(1.0, 0.0, 0.0), point=(0.0, 0.0, 0.0), frame="body", name="pull"),
    spring(
        ph.forces.Bushing,
        ("point", "rotational_damping", "axes"),
        point=(0.0, 0.0, 0.0),
        rotational_damping=1.0,
        axes=((1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0)),
    ),
    spring(ph.forces.TorsionalSpringDamper, ("angle",), axis=(0.0, 1.0, 0.0), stiffness=1.0, angle=0.1),
    Call(distributed, {"force": (0.0, 0.0, -1.0), "moment": None, "frame": "inertial", "name": "weight"}),
    Call(
        resting,
        {
            "point": (0, 0, -1.0),
            "normal": (0, 0, 1.0),
            "stiffness": 1e3,
            "radius": 0.1,
            "damping": 0.1,
            "exponent": 1.5,
        },
        ("point", "normal", "stiffness", "damping", "exponent"),
    ),
    Call(
        ph.rods.catenary,
        {"first": (0.0, 0.0, 0.0), "last": (1.0, 0.0, 0.0), "length": 1.5, "edges": 4, "down": (0.0, 0.0, -1.0)},
        ("first", "last", "length", "down"),
    ),
    Call(ph.rods.circular, {"radius": 0.1, **SIZES}, ("radius", "youngs_modulus", "density", "poisson")),
    Call(ph.rods.rectangle, {"width": 0.1, "height": 0.2, **SIZES}, ("width", "height", "youngs_modulus", "density")),
    Call(ph.rods.tube, {"outer_radius": 0.2, "inner_radius": 0.1, **SIZES}, ("outer_radius", "inner_radius")),
    Call(pt.Strength, {"tension": 1.0, "moment": 2.0, "shear": 3.0}),
    Call(pt.Plane, {"point": (0.0, 0.0, 0.0), "normal": (0.0, 0.0, 1.0)}, ("point", "normal")),
    Call(pt.Box, {"lower": (0.0, 0.0, 0.0), "upper": (1.0, 1.0, 1.0)}),
    Call(
        pt.Cylinder,
        {"radius": 1.0, "point": (0.0, 0.0, 0.0), "axis": (0.0, 0.0, 1.0)},
        ("radius", "point", "axis"),
    ),
    Call(
        pt.chain,
        {"n": 3, "diameter": 1.0, "start": (0.0, 0.0, 0.0), "direction": (1.0, 0.0, 0.0)},
        ("diameter", "start"),
    ),
    Call(
        pt.block,
        {"shape": (2, 2, 2), "diameter": 1.0, "corner": (0.0, 0.0, 0.0), "diagonals": False},
        ("diameter",),
    ),
    Call(pt.torus, {"n": 8, "diameter": 3.0, "centre": (0.0, 0.0, 0.0)}, ("diameter", "centre")),
    Call(pt.packing, {"file": "nowhere.txt", "gap": 0.05}),
    Call(bond, {"material": MATERIAL, "first_point": None, "second_point": (1.0, 0.0, 0.0), "name": "bond"}),
    Call(event, {"function": lambda t, y: y[0] - 0.95, "terminal": True, "direction": 0, "name": "e"}),
    Call(ph.Parameter, {"name": "stiffness", "default": 1.0}),
    Call(ph.Model, {"gravity": (0.0, 0.0, -9.81), "units": None}, ("gravity",)),
    Call(
        ensemble, {"parameters": {"mass": (14.0, 15.0)}, "h": 1e-3, "t1": 2e-3, "workers": 1, "keep": True}, ("h", "t1")
    ),
    Call(ensemble, {"parameters": None, "samples": {"mass": (14.0, 15.0)}, "statistics": True, "quantiles": (0.5,)}),
    Call(ph.studies.lyapunov, {"problem": TOP, "integrator": "rkmk4", "h": 1e-2, "t1": 0.1}, ("h", "t1")),
    Call(ph.linearise, {"problem": TOP, "t": 0.0, "state": None, "inputs": (), "outputs": None, "anyway": True}),
    Call(ph.load_ensemble, {"path": "nowhere.zarr"}),
    Call(ph.spaces.Rn, {"n": 3, "blocks": None}),
    Call(ph.spaces.power, {"space": ph.spaces.SO3(), "n": 2}),
    Call(
        ph.integrators.get,
        {"name": "bdf", "max_order": 3, "newton": "full", "rtol": 1e-8, "atol": 1e-8, "max_iterations": 9},
    ),
    Call(ph.integrators.get, {"name": "generalized-alpha", "rho_inf": 0.8, "newton": "full", "max_iterations": 9}),
    Call(ph.integrators.get, {"name": "rodrigues", "map": "25", "phi": 0.5, "max_iterations": 9}),
    Call(ph.integrators.get, {"name": "symplectic", "theta": 0.5, "max_iterations": 9}),
    Call(rod, {"section": SECTION, "lengths": None, "name": "rod"}),
    problem(
        "heavy-top", ("mass", "gravity"), mass=15.0, gravity=9.81, axis=(0.0, 1.0, 0.0), angular_velocity=(1.0, 2, 3)
    ),
    problem("free-rigid-body", ("inertia", "duration"), inertia=(6.0, 8.0, 3.0), duration=2.0, formulation="SO3"),
    problem("pendulum-chain", ("gravity",), n=2, masses=1.0, gravity=9.81, length="unit", q=None),
    problem("mass-spring", ("masses", "stiffnesses", "width"), masses=(2.0, 1.0), stiffnesses=(1.0, 3.0), width=0.1),
    problem("spring-pendulum", ()),
    problem("pendulum-3d", ("mg_over_j", "angle"), mg_over_j=1.0, angle=2.0, angular_velocity=(0.2, 0.0, 0.2)),
    problem("torus", (), n=4, shear="literal", wall=True),
    problem(
        "falling-block", ("diameter", "mass", "height"), edge=2, diameter=0.02, mass=0.005, height=0.05, strength=np.inf
    ),
    problem(
        "grain-pile", ("diameter", "mass", "stiffness"), grains=3, diameter=0.01, mass=0.001, stiffness=2e3, seed=0
    ),
    problem(
        "rotating-drum", ("diameter", "radius", "stiffness"), grains=3, diameter=0.01, radius=0.03, stiffness=500.0
    ),
    problem("hopper", ("hole", "half_angle", "stiffness"), grains=3, hole=0.03, half_angle=0.7, stiffness=500.0),
    problem("heavy-top-constrained", ("mass",), mass=15.0, frame="body", formulation="SO3xR3"),
    problem("cantilever", ("load", "length"), n=2, load=10.0, damping=0.0, length=1.0),
    problem("body-chain", ("mass", "length"), n=2, mass=1.0, length=0.5, bend=(0.3, -0.2)),
]
