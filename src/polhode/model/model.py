"""Models: bodies, joints and forces as an engineer lists them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polhode import checks, summary
from polhode.assembly.assembly import AssembledSystem, Redundant, assemble
from polhode.assembly.contacts import check_rule
from polhode.assembly.describe import describe
from polhode.assembly.held_coordinates import HeldQuantity
from polhode.assembly.history import History, record_call
from polhode.assembly.name_registry import Register
from polhode.assembly.parameters import substitute
from polhode.assembly.rebuild import Replay, declared_parameters
from polhode.assembly.rod_contacts import check_rod_rule, is_of_rods
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.contact.filled_shapes import check_shapes, fill_shapes
from polhode.contact.rules import ContactRule
from polhode.flexible.flexible_body import FlexibleBody
from polhode.jax_context import warn
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.string_length import StringLength
from polhode.multibody import bodies
from polhode.multibody.bodies import Body, ShapeAdder
from polhode.multibody.consistent_start import InconsistentStart
from polhode.multibody.formulations import FORMULATIONS
from polhode.multibody.parts import AbstractComposite, AbstractForce, AbstractJoint, AbstractPart
from polhode.multibody.system import MultibodySystem
from polhode.name_errors import missing_attribute
from polhode.printable import printable
from polhode.results.quantity import Quantity
from polhode.systems.base import AbstractSystem, Observable, State
from polhode.systems.lagrangian import StartWarning
from polhode.units import check_units

if TYPE_CHECKING:
    from polhode.contact.shapes import AbstractShape
    from polhode.flexible.flexible_part import FlexiblePart
    from polhode.joints.named_coordinates import AbstractMeasuredPair
    from polhode.particles import AbstractWall, BondMaterial, ParticleGroup
    from polhode.problem import Problem
    from polhode.rods.add_to_model import ConstrainedStrains
    from polhode.rods.rod import Rod
    from polhode.rods.section import Section

Part = TypeVar("Part", bound=AbstractPart | AbstractComposite)


class Model:
    """A multibody model: bodies, what joins them and what acts on them, independent of coordinates.

    ```python
    model = ph.Model(gravity=(0, 0, -9.81))
    top = model.add_body(mass=15, inertia=(0.234375, 0.46875, 0.234375), position=(0, 1, 0),
                         angular_velocity=(0, 150, -4.61538), velocity=(4.61538, 0, 0))
    model.add(ph.joints.Spherical(model.ground, top, point=(0, 0, 0)))
    system, state0 = model.assemble(formulation="SE3")
    ```

    **Arguments:**

    - `gravity`: acceleration in the inertial frame, shape (3,).
    - `units`: of its numbers, for labels of results: "SI", or names of those of "length", "mass", "time" and, if it is
      not made of these, "force": {"length": "mm", "mass": "t", "time": "s", "force": "N"}. Nothing is converted.

    Points and axes of joints and forces are given in the inertial frame at the initial time. Numbers may be traced by
    JAX, so that runs can be differentiated with respect to masses, lengths or stiffnesses.
    """

    @eager_numpy()
    def __init__(self, gravity: Any = (0.0, 0.0, 0.0), *, units: str | Mapping[str, str] | None = None) -> None:
        self.units = check_units(units)
        self.gravity = checks.array("gravity", gravity, (3,), "acceleration in the inertial frame")
        self._given_gravity = gravity
        self.history = History()
        self.ground = dataclasses.replace(bodies.ground(), attach=ShapeAdder(self.add_shape))
        self.register = Register()
        self.parts: list[tuple[str, AbstractPart]] = []
        self.file_joints: dict[str, AbstractMeasuredPair] = {}
        self.rods: list[Rod] = []
        self.contact_rules: list[ContactRule] = []
        self.contact_capacity: int | None = None

    @property
    def bodies(self) -> list[Body]:
        """All bodies but the ground and nodes of flexible ones, in the order of addition."""
        return self.register.bodies

    @record_call
    def add_body(
        self,
        *,
        mass: Any = None,
        inertia: Any = None,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        name: str | None = None,
        formulation: str | None = None,
        check_inertia: bool = True,
        shape: AbstractShape | Sequence[AbstractShape] = (),
        density: Any = None,
    ) -> Body:
        """Add a rigid body.

        **Arguments:**

        - `mass`: positive; or the `density` of its `shape` in place of it.
        - `inertia`: about the centre of mass in the body frame, three principal moments or a 3×3 matrix; by default
          that of the shape, filled with uniform density.
        - `position`: initial centre of mass in the inertial frame.
        - `rotation`: initial rotation from the body to the inertial frame: 3×3, a unit quaternion (w, x, y, z) or
          `polhode.rotation_vector(...)`.
        - `velocity`, `angular_velocity`: of the centre of mass in the inertial frame; body-fixed, rad per time.
        - `name`: for messages and outputs, "body-1", "body-2", … by default.
        - `formulation`: coordinates of this body, if not those given to `assemble`.
        - `check_inertia`: whether to refuse moments that no distribution of mass has. Without it mass and inertia may
          also be zero; only joint coordinates take such bodies, where others move with every one of their joints.
        - `shape`: one or several from `polhode.shapes`, in the body frame; what touches, see `contacts`.
        - `density`: of the shape, mass over volume.

        **Raises** ValueError for values that make no sense, with the remedy.
        """
        if formulation is not None:
            checks.choice("formulation", formulation, FORMULATIONS)
        pose, twist = (position, rotation), (velocity, angular_velocity)
        shapes = check_shapes(shape)
        mass, inertia = fill_shapes(shapes, mass, inertia, density)
        name = self.register.name(name, "body")
        body = bodies.rigid(name, mass, inertia, pose, twist, formulation, check_inertia)
        return self.register.take(dataclasses.replace(body, shapes=shapes, attach=ShapeAdder(self.add_shape)))

    @record_call
    def add_shape(self, body: Body, shape: AbstractShape) -> AbstractShape:
        """Give a body, or the ground, one more shape from `polhode.shapes`; the same as `body.add_shape(shape)`.

        Raises ValueError for bodies of other models, for coordinates, which have no place, and for what is no shape.
        """
        self._check_body(body)
        if body.kind in ("coordinate", "integral"):
            raise ValueError(f"{body!r} is a {body.kind} without a place in space, so it can't have a shape.")
        body.shapes.extend(check_shapes(shape))
        return shape

    @record_call
    def contacts(
        self,
        *,
        friction: Any = 0.5,
        restitution: Any = 0.0,
        impact_law: str = "newton",
        tangential_restitution: Any = 0.0,
        drilling: Any = 0.0,
        rolling: Any = 0.0,
        without: Sequence[tuple[Body, Body]] = (),
        law: str = "rigid",
        stiffness: Any = None,
        exponent: Any = 1.5,
        damping: Any = 0.0,
        impact_speed: Any = None,
        slip_speed: Any = None,
        static_friction: Any = None,
        stribeck_speed: Any = None,
    ) -> None:
        r"""Let all bodies with shapes touch each other and the ground, but for bodies with a joint between them.

        Rigid laws are exact: no penetration, no creep under Coulomb friction. `add_contact` gives single pairs other
        numbers. Compliant contacts are forces of the model, for every method: at each point along the normal
        $k\delta^p\langle 1+c\dot\delta\rangle$ of the depth δ, and against the slip u friction of
        $\mu N |u|/\sqrt{|u|^2 + v_s^2}$. That never sticks: a load F < μN along the surface makes
        bodies creep with $v_s F/\sqrt{(\mu N)^2 - F^2}$.

        **Arguments:**

        - `friction`: coefficient of friction; two of them for tangents with different friction.
        - `static_friction`: that of rigid contacts which stick, μ_s, from which it falls to `friction`, μ, over the
          `stribeck_speed` v_s: $\mu + (\mu_s - \mu)e^{-|u|^2/v_s^2}$. None for the same at all speeds.
        - `restitution`: of Newton's law of impact, speed after over speed before along the normal, from 0 to 1. Of
          compliant contacts that at the `impact_speed`, which makes a damping in place of `damping`.
        - `impact_law`: "newton", or "poisson", of which restitution is one of normal impulses, in expansion over
          compression; by methods that locate impacts, such as `rkmk54`.
        - `tangential_restitution`: the same along the tangents, for balls that grip.
        - `drilling`, `rolling`: lengths; the largest moment about the normal and about the tangents, over the normal
          force.
        - `without`: pairs of bodies that pass through each other.
        - `law`: "rigid" or "compliant"; what follows is of compliant contacts only.
        - `stiffness`, `exponent`: k and p, 3/2 for round bodies (`polhode.forces.hertz_stiffness`), 1 for springs; of
          rods, which are included if they have a `radius`, k is per length of the rod.
        - `damping`: c, time per length.
        - `slip_speed`: v_s, over which friction builds up, for every method; None for friction that sticks, which
          `moreau`, `rattle` and explicit methods take.

        **Raises** ValueError for numbers that make no sense.
        """
        for pair in without:
            for body in pair:
                self._check_body(body)
        self.contact_rules.append(
            ContactRule(
                without=tuple(without), friction=friction, restitution=restitution,
                tangential_restitution=tangential_restitution, drilling=drilling, rolling=rolling, law=law,
                stiffness=stiffness, exponent=exponent, damping=damping, impact_speed=impact_speed,
                slip_speed=slip_speed, static_friction=static_friction, stribeck_speed=stribeck_speed,
                impact_law=impact_law,
            )
        )  # fmt: skip

    @record_call
    def add_contact(
        self,
        first: Body | AbstractShape | Rod,
        second: Body | AbstractShape | Rod,
        *,
        friction: Any = 0.5,
        restitution: Any = 0.0,
        impact_law: str = "newton",
        tangential_restitution: Any = 0.0,
        drilling: Any = 0.0,
        rolling: Any = 0.0,
        surface_velocity: Any = None,
        name: str | None = None,
        law: str = "rigid",
        stiffness: Any = None,
        exponent: Any = 1.5,
        damping: Any = 0.0,
        impact_speed: Any = None,
        slip_speed: Any = None,
        static_friction: Any = None,
        stribeck_speed: Any = None,
    ) -> None:
        """Let two bodies, or the ground and a body, or two shapes on them touch; later calls replace earlier ones.

        Either may be a rod, or both, also the same one twice, which then touches itself: by law="compliant".

        **Arguments:** as for `contacts`, and

        - `surface_velocity`: of the surface of `first` against this body and in its frame, as of a conveyor belt,
          shape (3,); its part along the normal doesn't count.
        - `name`: for results, besides the names of bodies and shapes, from which it differs.

        **Raises** ValueError for bodies without shapes, pairs of shapes without a distance, and numbers that make no
        sense.
        """
        rule = ContactRule(
            first, second, (), friction, restitution, tangential_restitution, drilling, rolling, surface_velocity, name,
            law, stiffness, exponent, damping, impact_speed, slip_speed, static_friction, stribeck_speed,
            impact_law, is_of_rods(first, second),
        )  # fmt: skip
        check = check_rod_rule if rule.of_rods else check_rule
        check(self, rule)
        self.contact_rules.append(rule)

    @record_call
    def limit_contacts(self, capacity: int) -> None:
        """Make room for so many points that touch at a time, out of all that could; by default some four a body.

        As many rigid stops of joints may press at a time; by default six.

        A run in which more of them touch ends with `too_many_contacts`. Raises ValueError for other than whole numbers
        from 1.
        """
        self.contact_capacity = checks.count("capacity", capacity, "points that touch at a time")

    def _check_body(self, body: Body) -> None:
        """Raises ValueError for what is no body of this model."""
        if not isinstance(body, Body) or not (body is self.ground or self.register.has(body)):
            raise ValueError(f"{short_repr(body)} is not a body of this model.")

    @record_call
    def add_point(self, *, mass: Any, position: Any, velocity: Any = (0.0, 0.0, 0.0), name: str | None = None) -> Body:
        """Add a mass point: three linear coordinates in every formulation."""
        point = bodies.point(self.register.name(name, "point"), mass, position, velocity)
        return self.register.take(dataclasses.replace(point, attach=ShapeAdder(self.add_shape)))

    @record_call
    def add_coordinate(
        self, *, mass: Any = 1.0, value: Any = 0.0, velocity: Any = 0.0, name: str | None = None
    ) -> Body:
        """Add a single linear coordinate with an inertia, such as the state of a controller; gravity spares it.

        In elements it is the first component of its position.
        """
        name = self.register.name(name, "coordinate")
        return self.register.take(bodies.coordinate(name, mass, value, velocity))

    @record_call
    def add_integral(self, *, name: str | None = None) -> Body:
        """Add a single linear coordinate whose rate integrates what a force element puts on it; it has no energy.

        The rate starts at zero, and the integral is never differentiated: what is integrated may jump.
        """
        return self.register.take(bodies.integral(self.register.name(name, "integral")))

    @record_call
    def add_rod(
        self,
        *,
        points: Any,
        section: Section | Sequence[Section],
        rotations: Any = None,
        normal: Any = None,
        reference: Any = "straight",
        lengths: Any = None,
        constrained: ConstrainedStrains = "none",
        constrained_stress: bool = False,
        strain: str = "SE3",
        clamped: str | Sequence[str] = (),
        closed: bool = False,
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        radius: Any = None,
        name: str | None = None,
    ) -> Rod:
        """Add a geometrically exact rod: nodes that are bodies, with the mass beside them, and elastic edges.

        Joints, forces and loads take its nodes as they take any body. Neighbouring nodes must turn by less than π
        against each other: beyond, an edge takes the rotation for the opposite one, without notice. Use more edges.

        **Arguments:**

        - `points`: the n + 1 nodes at the start, in the inertial frame, shape (n + 1, 3).
        - `section`: one for all edges, or one for each; see `polhode.rods`.
        - `rotations`: of the nodes, third column along the rod, shape (n + 1, 3, 3); by default frames along the
          points that turn about the rod as little as possible.
        - `normal`: first axis of the section at the first node, for these frames.
        - `reference`: the shape without stress: "straight", "as-placed" for that of the start, or strains
          (K1, K2, K3, G1, G2, G3), shape (6,) or (n, 6).
        - `lengths`: of the edges without stress, a number or (n,); by default the start has no extension.
        - `constrained`: strains kept as they are without stress: "none", "kirchhoff" (no shear), "inextensible",
          "both", or names out of `polhode.rods.STRAINS`.
        - `constrained_stress`: whether these strains have the stress of the section all the same, C (w - w⁰) + D ẇ. It
          is as small as the drift from the constraint, but multipliers are then only what is left to hold, and methods
          of low order, which drift, give other results within their order. For comparison with codes that have it.
        - `strain`: "SE3" for edges that are helices (S³⋉R³), "SO3xR3" for straight edges with a section that turns.
        - `clamped`: "first" and "last" nodes that don't move; they are no bodies then, but part of the ground.
        - `closed`: whether an edge leads from the last point back to the first, which must not be repeated.
        - `velocity`, `angular_velocity`: of the nodes, inertial and in their own frames, shape (3,) or (n + 1, 3).
        - `radius`: for contact, with which `contacts` includes the rod; `add_contact` takes that of its sections else.
        - `name`: for messages, "rod-1", "rod-2", … by default.

        **Raises** ValueError for values that make no sense, with the remedy.
        """
        # Loads on rods are made of forces, which take their bodies from this package.
        from polhode.rods import add_to_model

        rod = add_to_model.build(
            self,
            name=self.register.name(name, "rod"),
            points=points,
            section=section,
            rotations=rotations,
            normal=normal,
            reference=reference,
            lengths=lengths,
            constrained=constrained,
            constrained_stress=constrained_stress,
            strain=strain,
            clamped=clamped,
            closed=closed,
            velocity=velocity,
            angular_velocity=angular_velocity,
            radius=radius,
        )
        self.rods.append(rod)
        return rod

    @record_call
    def add_flexible(
        self,
        part: FlexiblePart,
        *,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        amplitudes: Any = None,
        rates: Any = None,
        name: str | None = None,
    ) -> FlexibleBody:
        """Add a body with small deformations in a floating frame of reference, from matrices of finite elements.

        Joints and forces take its nodes, `body.node("tip")`, as they take any body. Explicit, half-explicit and
        symplectic methods and generalized-α take it, in absolute coordinates on Lie groups.

        **Arguments:**

        - `part`: modes, inertia and nodes, from `polhode.flexible.reduced` or `polhode.flexible.from_modes`. Bodies
          made of the same part are computed together.
        - `position`, `rotation`: initial place of the origin of the part's coordinates in the inertial frame, and the
          rotation from these coordinates to it: 3×3, a unit quaternion (w, x, y, z) or `polhode.rotation_vector(...)`.
        - `velocity`, `angular_velocity`: of that origin in the inertial frame, as if it were fixed to the frame of the
          body; body-fixed, rad per time.
        - `amplitudes`, `rates`: of the modes at the start, shape (k,); by default none.
        - `name`: "flexible-1", "flexible-2", … by default; its nodes are "name-node".

        **Raises** ValueError for values that make no sense, with the remedy.
        """
        from polhode.flexible import add_to_model

        body = add_to_model.build(
            part,
            name=self.register.name(name, "flexible"),
            position=position,
            rotation=rotation,
            velocity=velocity,
            angular_velocity=angular_velocity,
            amplitudes=amplitudes,
            rates=rates,
        )
        for node in body.nodes:
            self.register.name(node.name, "node")
        return self.register.take(body)

    @record_call
    def add_particles(
        self,
        positions: Any,
        *,
        masses: Any,
        inertias: Any,
        diameters: Any,
        pairs: Any = (),
        material: BondMaterial | Sequence[BondMaterial] | None = None,
        kinds: Any = None,
        contact: Any = 0.0,
        contact_damping: Any = 0.0,
        bonded_contacts: bool = False,
        walls: Sequence[AbstractWall] = (),
        wall_contact: Any = None,
        velocities: Any = (0.0, 0.0, 0.0),
        angular_velocities: Any = (0.0, 0.0, 0.0),
        name: str | None = None,
    ) -> ParticleGroup:
        """Add spheres that are bodies, with bonds between them, contacts and walls.

        Joints, forces and `particles.Bond` take these bodies as they take any: so particles are bonded to other bodies.
        For particles by themselves, thousands and more, `particles.Particles` is much faster, finds neighbours, and
        its bonds can break.

        **Arguments:** as for `particles.Particles`, but

        - `material`: bonds can't break here, and have the objective law of shear.
        - `contact`: between all particles of the group, pair by pair, so for some two hundred of them at most.
        - `velocities`, `angular_velocities`: shape (3,) or (n, 3), both in the inertial frame.
        - `name`: "particles-1", "particles-2", … by default; particles are "name-0", …, bonds "name-bond-0", …

        **Returns** a handle with the `bodies`.

        **Raises** ValueError for values that make no sense, with the remedy.
        """
        from polhode.particles import model_particles

        return model_particles.build(
            self,
            self.register.name(name, "particles"),
            positions,
            masses=masses,
            inertias=inertias,
            diameters=diameters,
            pairs=pairs,
            material=material,
            kinds=kinds,
            contact=contact,
            contact_damping=contact_damping,
            bonded_contacts=bonded_contacts,
            walls=walls,
            wall_contact=wall_contact,
            velocities=velocities,
            angular_velocities=angular_velocities,
        )

    @record_call
    def add(self, part: Part) -> Part:
        """Add a joint from `polhode.joints`, a force from `polhode.forces` or a load on a rod; returns it."""
        if isinstance(part, AbstractComposite):
            for each in part.parts():
                self.add(each)
            return part
        if not isinstance(part, AbstractPart):
            raise ValueError(f"`add` takes joints and forces, got {type(part).__name__}. {_comes_by(part)}")
        for body in part.bodies:
            if body is not self.ground and not self.register.has(body):
                raise ValueError(
                    f"{type(part).__name__} refers to {short_repr(body)}, which is not a body of this model."
                )
            if isinstance(body, FlexibleBody):
                nodes = ", ".join(body.called)
                raise ValueError(f"{type(part).__name__} must name a node of {body!r}, `.node(name)`; it has {nodes}.")
        movable = [body for body in part.bodies if body is not self.ground]
        if isinstance(part, AbstractJoint | AbstractForce) and part.bodies and not movable:
            raise ValueError(f"{type(part).__name__} connects the ground with itself; one end must be a body.")
        whole = part.attach(self)
        self.parts.append((self.register.name(part.name, _kebab(type(part).__name__)), whole))
        return part

    @eager_numpy()
    def assemble(
        self,
        formulation: str = "SE3",
        *,
        repair: bool = False,
        redundant: Redundant = "error",
        t0: float = 0.0,
        joints: str = "invariant",
        hold: Sequence[str | HeldQuantity] = (),
    ) -> tuple[AssembledSystem, State]:
        """The equations of motion in the chosen coordinates, and a consistent initial state.

        **Arguments:**

        - `formulation`: coordinates of rigid bodies; see `polhode.multibody.formulations`. "livens" makes a system of
          quaternions, velocities and momenta for the energy–momentum method (`eml`); "separable" one without joints
          and with potentials only for explicit variational methods (`rigid-verlet`, and `rodrigues` for spheres).
        - `repair`: whether to move bodies and velocities to the nearest state, in the metric of the mass matrix, that
          keeps the constraints. Without it a start that violates them is an error.
        - `hold`: names of joints, whose coordinates and their rates `repair` leaves as the bodies are placed, and of
          bodies, whose poses and velocities it leaves. A `StartWarning` names what can't be kept together with
          the joints.
        - `redundant`: what to do with constraints that follow from others: "error" names the joints,
          "minimum-norm" leaves redundant components out and spreads the multipliers over all of them with least norm
          (`system.joint_multipliers`). The `dropped` of such a system repeats that choice inside JAX transformations.
        - `t0`: initial time, for joints that depend on it.
        - `joints`: for "livens": "invariant", which keeps angular momentum as well as energy, or "vector", as published
          (P. L. Kinon, P. Betsch); see `polhode.multibody.conversions.livens`.

        **Returns** the system and its state, (q, v), or (q, v, p) for "livens" and `BodyStates` for "separable".

        **Raises** ValueError for inconsistent starts, loops that can't be closed and redundant constraints, with the
        names of the joints.
        """
        return assemble(self, formulation, repair=repair, redundant=redundant, t0=t0, joints=joints, hold=hold)

    def problem(
        self,
        formulation: str | None = None,
        *,
        t1: float,
        h: float = 1e-3,
        name: str = "model",
        integrator: str | None = None,
        outputs: Callable[[MultibodySystem], Mapping[str, Observable]] | None = None,
        repair: bool = False,
        redundant: Redundant = "error",
        t0: float = 0.0,
        joints: str = "invariant",
        hold: Sequence[str | HeldQuantity] = (),
        save_loads: bool = False,
        save: Sequence[Quantity] = (),
    ) -> Problem:
        """A complete problem, so that `simulate`, studies, the audit and pages with the motion take the model.

        **Arguments:**

        - `formulation`: as for `assemble`; by default what suits (see "Choose" in the documentation): joint coordinates
          where joints carry the bodies, absolute ones for rods, particles, free bodies and large trees, and always
          such as `integrator` takes. `problem.choice` says which, and why.
        - `repair`, `redundant`, `t0`, `joints`, `hold`: as for `assemble`.
        - `t1`, `h`: end of the run and its step, unless `simulate` gets others. Both are in the model's unit of
          time; the default step is 1e-3 of it, whatever the span and the motion.
        - `name`: of the problem, in results.
        - `integrator`: by default "generalized-alpha" with constraints, waves in elastic elements or, at the start,
          motions too fast for explicit steps of `h`; "rkmk4" otherwise; "herk4" for coordinates whose rates are not the
          velocities, which implicit methods don't take; "eml" for "livens", "rigid-verlet" or "rodrigues" for
          "separable".
        - `outputs`: function of the assembled system (for "livens" and "separable" of its `base`, with states (q, v))
          that returns name → (t, state) → array, besides its own outputs.
        - `save_loads`: save what joints transmit with every frame, as output "joint_loads": in runs inside JAX's
          transformations, and for stores that are read without the problem. Otherwise it is computed from saved states
          when it is first used; see `solution.joints`.
        - `save`: quantities to save with every frame as well, for the same and for ensembles:
          `save=[polhode.results.BodyResults.kinetic_energy]`.

        **Raises** ValueError as `assemble` does, for unknown integrators and for outputs that are no functions or
        have the name of another.
        """
        from polhode.model.as_problem import ProblemRequest, problem

        return problem(
            self,
            ProblemRequest(
                formulation=formulation,
                t1=t1,
                h=h,
                name=name,
                integrator=integrator,
                outputs=outputs,
                repair=repair,
                redundant=redundant,
                t0=t0,
                joints=joints,
                hold=hold,
                save_loads=save_loads,
                save=save,
            ),
        )

    def show(self, formulation: str | None = None, *, block: bool | None = None, browser: bool = True) -> Any:
        """Shows the model at its start: bodies, joints, supports, applied forces; nothing is solved or compiled.

        A start that doesn't fit the joints is shown as it was given, with a warning that names them. Arguments: see
        `problem` and `Solution.show`.

        **Raises** ValueError as `problem` does for other reasons.
        """
        from polhode.first_frame import given_frame

        try:
            start = self.problem(formulation, t1=1.0, redundant="minimum-norm").start
        except InconsistentStart as error:
            warn(f"It is shown as it was given. {error}", StartWarning)
            start = given_frame(self)
        return start.show(block=block, browser=browser)

    @eager_numpy()
    def to_mjcf(self, name: str = "model", *, strict: bool = False) -> str:
        """The model as MJCF, the inverse of `polhode.load_model`: text to write to a file that MuJoCo runs.

        Bodies start where they are here; their velocities and the controls of actuators are in the keyframe "start".
        Joints of this model keep their names, with those of their coordinates where they have several, and count from
        the start. See "Export" in the documentation for the counterpart of each part.

        ```python
        text = model.to_mjcf("pendulum")
        again = ph.load_model(text, keyframe="start")
        ```

        **Arguments:**

        - `name`: of the model in the file.
        - `strict`: whether to refuse a model that MJCF can't express completely.

        A `ModelFileWarning` names what MJCF can't express exactly, with the reasons.

        **Raises** ValueError with `strict` instead of that, for traced numbers, and for bodies that carry each other
        in longer rows than MuJoCo reads.
        """
        from polhode.exporters import mjcf

        return mjcf.export(self, name, strict=strict)

    def __repr__(self) -> str:
        return printable(f"Model({'; '.join(f'{what}: {text}' for what, text in describe(self))})")

    def _repr_html_(self) -> str:
        return summary.html("Model", describe(self))

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of its `Parameter`s, by name."""
        arguments = (self._given_gravity, [(call.arguments, call.options) for call in self.history.calls])
        defaults = {name: parameter.default for name, parameter in declared_parameters(arguments).items()}
        return {name: value.item() if value.ndim == 0 else value for name, value in defaults.items()}

    @eager_numpy()
    def replace(self, **parameters: Any) -> Model:
        """The same model rebuilt with other values of its parameters; they may be traced by JAX.

        Bodies and joints have the same names; `model.body(name)` gives those of the new model. Points, axes and numbers
        follow as far as they were given as parameters, expressions of such, or as `body.x`, `body.R`, `body.u` and
        `body.omega` of a body themselves; what was computed from these beforehand stays.

        **Raises** ValueError for names of no parameter.
        """
        defaults = self.parameters
        for name in parameters:
            if name not in defaults:
                listing = (
                    ", ".join(defaults) or "none; declare them, polhode.Parameter(name, value), where it takes numbers"
                )
                raise ValueError(
                    f"The model has no parameter {short_repr(name)}.{checks.nearest(name, defaults)} It has {listing}."
                )
        values = {**defaults, **parameters}
        new = Model(substitute(self._given_gravity, values), units=self.units)
        Replay(self, new, values).run(self.history.calls)
        return new

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("A Model", name, dir(type(self)), _INSTEAD)

    def body(self, name: str) -> Body:
        """The body of that name. Raises ValueError, with the nearest and all names, if there is none."""
        return self.register.find(name)


_RUN = "Make a problem and run it: `run = polhode.simulate(model.problem(t1=…))`"
_INSTEAD = {
    **dict.fromkeys(("plot", "view", "draw", "render"), f"`model.show()` has the start. {_RUN}, then `run.show()`."),
    **dict.fromkeys(("simulate", "run", "solve", "step", "integrate"), f"{_RUN}."),
    **dict.fromkeys(("add_joint", "add_force", "add_spring", "add_motor"), "Joints and forces come by `model.add(…)`."),
    "add_gravity": "Gravity comes with the model: `Model(gravity=(0, 0, -9.81))`.",
    "save": "`model.to_mjcf()` writes it as a file; runs are saved by `run.save(path)`.",
}
"""Hints for common wrong names."""


def _comes_by(part: Any) -> str:
    """A hint for objects that are no parts."""
    if isinstance(part, StringLength):
        return (
            "The length of a string holds nothing by itself: give it to what acts along it, such as "
            "`forces.JointStops(string, limits=(-inf, L))`, or add a `forces.Tendon` through the same points."
        )
    if isinstance(part, AbstractMeasured):
        return (
            "A combination of joint coordinates holds nothing by itself: give it to what acts along it, such as "
            "`forces.JointSpring(combination, stiffness=…)`. A stiff spring along `Combination([first, second], "
            "[ratio, -1])` couples two joints like a gear, and an equality of joints in an MJCF file does so exactly."
        )
    if isinstance(part, AbstractSystem):
        return "It is a system of its own: `simulate(system, …)`. Particles of a model come by `add_particles`."
    return "Bodies come by `add_body`."


def _kebab(name: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
