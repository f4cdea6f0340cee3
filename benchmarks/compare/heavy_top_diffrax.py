"""A heavy top at 150 rad/s about its fixed point: diffrax."""

import diffrax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
FIRST = {"rtol": 1e-5}
weight, inertia = 15.0 * 9.81, jnp.array([15.234375, 0.46875, 15.234375])
start = jnp.array([1.0, 0, 0, 0]), jnp.array([0.0, 150.0, -4.61538])


def centre(p):
    """The second column of the rotation: the centre of mass is at distance 1 along the body's second axis."""
    w, x, y, z = p
    return jnp.stack((2 * (x * y - w * z), w * w - x * x + y * y - z * z, 2 * (y * z + w * x)))


def field(t, state, args):
    p, omega = state
    w, v = p[0], p[1:]
    rate = 0.5 * jnp.concatenate((jnp.array([-v @ omega]), w * omega + jnp.cross(v, omega)))
    # The weight -mg e₃ in the body frame is -mg times the third row of the rotation.
    x, y, z = v
    third = jnp.stack((2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z))
    moment = jnp.cross(jnp.array([0.0, 1.0, 0.0]), -weight * third)
    return rate, (jnp.cross(inertia * omega, omega) + moment) / inertia


@jax.jit
def solved(rtol):
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Dopri5(), 0.0, 1.0, None, start, max_steps=100_000,
        saveat=diffrax.SaveAt(t1=True), stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol / 100),
    )  # fmt: skip
    return found.ys[0][-1], found.stats["num_steps"]


def prepare(rtol):
    return rtol


def march(rtol):
    p, steps = jax.block_until_ready(solved(rtol))
    return {"numbers": centre(p), "steps": steps, "quaternion's norm off by": jnp.abs(p @ p - 1)}
