"""What is said about rods that can't be, and what used to pass unseen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated, quick

import polhode as ph
from polhode.compiler.xla.entry_points import scalarise

SECTION = ph.rods.Section(stiffness=(3.0, 3.0, 2.0, 1e3, 1e3, 1e3), mass=1.0, inertia=(0.1, 0.1, 0.2))
RING = np.array([(0.0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])


def line(n):
    return np.linspace(0, 1, n + 1)[:, None] * np.array([1.0, 0, 0])


def rod(model=None, **options):
    return (model or ph.Model()).add_rod(**{"points": line(2), "section": SECTION, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"points": [*RING, RING[0]], "closed": True}, r"Edge 5 .*nodes 4 and 0 coincide\).*leave out the last point"),
        ({"points": [(0, 0, 0), (0.5, 0, 0), (0.5 + 1e-12, 0, 0)]}, "Edge 2 of the rod has no length"),
        ({"reference": (0, 0, 0, 0, 0, 0)}, "`reference` must have a positive third component of the extension"),
        ({"reference": (0, 0, 0, 0, 0, -1)}, "`reference` must have a positive third component"),
        ({"rotations": np.stack([np.eye(3)] * 3)}, r"third axes along the rod: at edge 1 .* angle of 90°"),
        ({"rotations": np.stack([np.eye(3)] * 3), "normal": (0, 0, 1)}, "`normal` is for frames along the points"),
        ({"clamped": None}, '`clamped` must be "first", "last" or a tuple'),
        ({"constrained": True}, "`constrained` must be one of none, .*K1, K2, K3, G1, G2, G3"),
        ({"constrained": "G7"}, "`constrained` must be one of .*G3"),
        ({"section": None}, "`section` must be one `rods.Section` or one for each"),
        ({"closed": "no"}, "`closed` must be True or False"),
    ],
)
def test_wrong_rods_are_explained(options, said):
    with pytest.raises(ValueError, match=said):
        rod(**options)


def test_a_single_strain_can_be_named():
    assert rod(constrained="G1").constrained == (3,)


def test_sections_have_symmetric_inertia():
    with pytest.raises(ValueError, match="`inertia` must be symmetric"):
        ph.rods.Section(stiffness=(1,) * 6, mass=1.0, inertia=[[1, 0.9, 0], [0, 1, 0], [0, 0, 1]])


def test_a_failed_call_leaves_the_model_as_it_was():
    model = ph.Model()
    model.add_body(mass=1.0, inertia=(1.0, 1, 1), name="beam-node-2")
    with pytest.raises(ValueError, match="clamped"):
        rod(model, name="beam", clamped="start")
    with pytest.raises(ValueError, match="'beam-node-2' is taken"):
        rod(model, name="beam")
    assert [body.name for body in model.bodies] == ["beam-node-2"]
    assert len(rod(model, name="beam", points=line(1)).nodes) == 2


def test_rods_know_their_system():
    mine, other = ph.Model(), ph.Model()
    first = rod(mine, clamped="first", name="mine")
    rod(other, clamped="first", name="other")
    with pytest.raises(ValueError, match=r"no 'mine-node-1': rod 'mine' belongs to another model"):
        first.points(other.assemble()[0])


def test_a_rod_without_freedom_is_refused():
    model = ph.Model()
    points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)]
    held = ("K1", "K2", "K3", "G1", "G2")
    beam = rod(model, points=points, reference="as-placed", constrained=held, clamped="first")
    model.add(ph.joints.Spherical(model.ground, beam.last, point=points[-1]))
    with pytest.raises(ValueError, match="leave the 18 velocities no freedom"):
        model.assemble()


@pytest.mark.exhaustive
def test_redundancy_that_round_off_hides_is_found():
    model = ph.Model()
    beam = rod(model, points=line(4), constrained="both")
    for end, x in ((beam.first, 0.0), (beam.last, 1.0)):
        model.add(ph.joints.PointOnLine(model.ground, end, point=(x, 0, 0), axis=(0, 0, 1)))
    with pytest.raises(ValueError, match=r"redundant.*constrain fewer strains in `add_rod`"):
        model.assemble()


def test_a_rod_that_is_straight_at_the_start_only_keeps_all_its_constraints():
    """Sheared and bent it fits between its ends, so that nothing follows from the rest there."""
    model = ph.Model(gravity=(0, 0, -9.81))
    beam = rod(model, points=line(4), constrained="inextensible")
    for end, x in ((beam.first, 0.0), (beam.last, 1.0)):
        model.add(ph.joints.PointOnLine(model.ground, end, point=(x, 0, 0), axis=(0, 0, 1)))
    assert not model.assemble()[0].dropped


@pytest.mark.exhaustive
def test_section_forces_where_constraints_were_dropped():
    """Of a straight rod that is clamped at both ends one extension follows from the others."""
    model = ph.Model(gravity=(3.0, 1.0, -9.81))
    beam = rod(model, points=line(3), clamped=("first", "last"), constrained="both")
    system, state = model.assemble(redundant="minimum-norm")
    assert system.dropped
    _, multipliers = system.accelerations(0.0, *state)
    found = beam.section_forces(system)(0.0, state, multipliers)
    # The weight along the rod, 3 on each of the two inner nodes of mass 1/3, is held by both ends alike.
    np.testing.assert_allclose(found[:, 5], [1.0, 0.0, -1.0], atol=1e-9)
    # And so is the weight across it.
    np.testing.assert_allclose(found[0, 3:5] + found[2, 3:5], 0, atol=1e-9)


def test_steps_above_the_fastest_wave_are_said_before_the_run():
    model = ph.Model(gravity=(0.0, 0.0, -1.0))
    rod(model, clamped="first")
    system, state = model.assemble()
    with pytest.warns(ph.StepSizeWarning, match=r"need steps of about .* or less.*the step was 0.2"):
        ph.simulate(system, "rkmk4", h=0.2, t1=0.2, state0=state, throw=False)


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.parametrize("strain", ["SE3", "SO3xR3"])
@pytest.mark.parametrize("load", ["along", "looked up", "switched"])
def test_loads_in_loops_over_rows_are_those_on_arrays(strain, load):
    """Also with what can't be done on scalars: the loop then gives way to arrays."""
    table = jnp.array([0.0, 1.0, 2.0, 3.0])
    force = {
        "along": lambda s, t: jnp.array([0.0, s, 0.0]),
        "looked up": lambda s, t: table[jnp.floor(3 * s).astype(int)] * jnp.array([0.0, 1.0, 0.0]),
        "switched": lambda s, t: jax.lax.cond(t > 0.5, lambda: jnp.array([0.0, 1.0, 0.0]), lambda: jnp.zeros(3)),
    }[load]
    model = ph.Model()
    beam = rod(model, points=line(9) * 1.1, clamped="first", strain=strain, lengths=1 / 9)
    model.add(ph.rods.DistributedLoad(beam, force=force))
    system, (q, v) = model.assemble()
    looped = quick(scalarise(lambda t, q, v: system.force(t, q, v), 0), 0.7, q, v)
    np.testing.assert_allclose(looped, evaluated(lambda t, q, v: system.force(t, q, v), 0.7, q, v), atol=1e-12)
    assert np.abs(looped).max() > 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("strain", ["SE3", "SO3xR3"])
def test_both_discretisations_sag_like_a_beam(strain):
    """With nine free nodes, from which on rows are in loops."""
    model = ph.Model(gravity=(0.0, 0.0, -1.0))
    beam = rod(model, points=line(9), clamped="first", strain=strain)
    system, state = model.assemble()
    found = ph.equilibrium(system, state)
    tip = beam.points(system)(0.0, found.state)[-1]
    # Cantilever with its own weight: w = q L⁴/(8 EI) + q L²/(2 GA), weights of nodes of the trapezoidal rule.
    np.testing.assert_allclose(tip[2], -(1 / 24 + 1 / 2000), rtol=0.02)


def test_problems_with_rods_get_a_method_that_steps_over_their_waves():
    model = ph.Model()
    rod(model, clamped="first")
    assert model.problem(t1=1.0).integrator == "generalized-alpha"
