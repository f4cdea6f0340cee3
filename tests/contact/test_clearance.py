"""A slider–crank whose pin has clearance in the slider, with the sizes of P. Flores and others (2006)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.spaces import Rn
from polhode.systems.mechanical import FunctionContacts, Mechanical

CRANK, ROD, CLEARANCE, PIN = 0.05, 0.12, 5e-4, 9.5e-3
SPEED = 5000 * 2 * np.pi / 60
M_ROD, J_ROD, M_SLIDER, E = 0.21, 2.5e-4, 0.14, 0.9
TURN = 2 * np.pi / SPEED


def slider_crank(friction: float = 0.0, restitution: float = E) -> Mechanical:
    """The crank turns at constant speed; coordinates are the angle of the rod and the place of the slider."""

    def rod(t, q):
        """Middle and end of the rod, (2, 2)."""
        start = CRANK * jnp.stack((jnp.cos(SPEED * t), jnp.sin(SPEED * t)))
        along = ROD * jnp.stack((jnp.cos(q[0]), jnp.sin(q[0])))
        return jnp.stack((start + along / 2, start + along))

    def force(t, q, v):
        """The start of the rod has the acceleration -SPEED² CRANK."""
        return jnp.stack((0.5 * M_ROD * ROD * CRANK * SPEED**2 * jnp.sin(SPEED * t - q[0]), 0.0 * q[1]))

    def offset(t, q):
        """Of the pin from the centre of its hole."""
        return rod(t, q)[1] - jnp.stack((q[1], 0.0 * q[1]))

    def gap(t, q):
        """Smooth where pin and hole are concentric, with the rate of a distance where they touch."""
        away = offset(t, q)
        return (CLEARANCE - away @ away / CLEARANCE)[None] / 2

    def slip(t, q, v):
        away = offset(t, q)
        across = jnp.stack((-away[1], away[0])) / CLEARANCE
        start = CRANK * SPEED * jnp.stack((-jnp.sin(SPEED * t), jnp.cos(SPEED * t)))
        end = start + ROD * v[0] * jnp.stack((-jnp.sin(q[0]), jnp.cos(q[0])))
        return (across @ (end - jnp.stack((v[1], 0.0 * v[1]))) + PIN * v[0])[None]

    pin = FunctionContacts(gap, slip, number=1, friction=friction, restitution=restitution)
    mass = np.diag([J_ROD + M_ROD * ROD**2 / 4, M_SLIDER])
    return Mechanical(Rn(2), mass, force, contact_set=pin)


def start() -> tuple[np.ndarray, np.ndarray]:
    """Stretched out, concentric, with the velocities of a joint without clearance."""
    return np.array([0.0, CRANK + ROD]), np.array([-SPEED * CRANK / ROD, 0.0])


class ByHand:
    """The rod in coordinates x, y, angle of its middle and place of the slider, joints and contact by multipliers."""

    MASS = np.diag([M_ROD, M_ROD, J_ROD, M_SLIDER])

    def __init__(self, friction: float, restitution: float) -> None:
        self.friction, self.restitution = friction, restitution
        self.held, self.instants, self.pieces = False, [], []

    def rows(self, t, q, v):
        """Rows of the crank's joint, of the normal and of the tangent, with what v adds to their rates."""
        c, s = np.cos(q[2]), np.sin(q[2])
        half, spin = ROD / 2, v[2]
        away = np.array([q[0] + half * c - q[3], q[1] + half * s])
        # Concentric at the start, where the direction doesn't matter.
        size = max(np.linalg.norm(away), 1e-12)
        n = away / size
        joint = np.array([[1, 0, half * s, 0], [0, 1, -half * c, 0]])
        turning = spin**2 * half * np.array([c, s])
        centripetal = -(SPEED**2) * CRANK * np.array([np.cos(SPEED * t), np.sin(SPEED * t)])
        relative = np.array([[1, 0, -half * s, -1], [0, 1, half * c, 0]])
        rate = relative @ v
        across = np.array([-n[1], n[0]])
        # -d²|away|/dt² without accelerations.
        normal_rate = n @ turning - (across @ rate) ** 2 / size
        slip = across @ relative + np.array([0, 0, PIN, 0])
        return joint, centripetal - turning, -n @ relative, normal_rate, slip

    def solve(self, t, q, v):
        """Accelerations and the normal force, which is zero in flight; friction slides or is none."""
        joint, drift, normal, bend, slip = self.rows(t, q, v)
        pushes = normal - self.friction * np.sign(slip @ v) * slip
        rows, columns, right = [*joint], [*joint], [*drift]
        if self.held:
            rows, columns, right = [*rows, normal], [*columns, pushes], [*right, -bend]
        B, W = np.array(rows), np.array(columns)
        k = len(B)
        matrix = np.block([[self.MASS, -W.T], [B, np.zeros((k, k))]])
        whole = np.linalg.solve(matrix, np.concatenate((np.zeros(4), right)))
        return whole[:4], whole[-1] if self.held else 0.0

    def hit(self, t, q, v):
        """Newton's law and Coulomb's for one impact, with the crank's joint held."""
        joint, _, normal, _, slip = self.rows(t, q, v)
        inverse = np.linalg.inv(self.MASS)
        W = np.array([normal, slip])
        onto_joint = inverse @ joint.T @ np.linalg.solve(joint @ inverse @ joint.T, joint @ inverse @ W.T)
        change = inverse @ W.T - onto_joint
        G, u = W @ change, W @ v
        target = np.array([-(1 + self.restitution) * u[0], -u[1]])
        P = np.linalg.solve(G, target)
        if abs(P[1]) > self.friction * P[0]:
            P = max(
                (
                    np.array([1.0, -side * self.friction]) * target[0] / (G[0] @ [1.0, -side * self.friction])
                    for side in (1, -1)
                ),
                key=lambda P: -(u + G @ P)[1] * P[1],
            )
        return v + change @ P

    def run(self, end: float) -> None:
        angle = start()[1][0]
        q, v = np.array([CRANK + ROD / 2, 0, 0, CRANK + ROD]), np.array([0, SPEED * CRANK + angle * ROD / 2, angle, 0])
        t = 0.0

        def closes(t, y):
            return CLEARANCE - np.hypot(y[0] + ROD / 2 * np.cos(y[2]) - y[3], y[1] + ROD / 2 * np.sin(y[2]))

        def opens(t, y):
            return self.solve(t, y[:4], y[4:])[1]

        closes.terminal = opens.terminal = True
        closes.direction = opens.direction = -1
        while t < end:
            piece = solve_ivp(
                lambda t, y: np.concatenate((y[4:], self.solve(t, y[:4], y[4:])[0])), (t, end), np.concatenate((q, v)),
                events=opens if self.held else closes, method="DOP853", rtol=1e-12, atol=1e-14, max_step=TURN / 500,
                dense_output=True,
            )  # fmt: skip
            self.pieces.append(piece.sol)
            t, q, v = piece.t[-1], piece.y[:4, -1], piece.y[4:, -1]
            if piece.status == 1:
                self.instants.append((t, "opens" if self.held else "closes"))
                if self.held:
                    self.held = False
                else:
                    v = self.hit(t, q, v)
                    self.held = self.restitution == 0

    def velocity(self, t: float) -> np.ndarray:
        """Of the rod's angle and of the slider, at an instant that is none of an impact."""
        piece = next(each for each in self.pieces if each.t_min <= t <= each.t_max)
        return piece(t)[[6, 7]]


def by_hand(friction: float, restitution: float, end: float) -> ByHand:
    solution = ByHand(friction, restitution)
    solution.run(end)
    return solution


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("friction", "restitution", "count"),
    [(0.0, 0.9, 14), (0.1, 0.9, 14), (0.0, 0.0, 5)],
    ids=["bounces", "friction", "plastic"],
)
def test_impacts_of_the_pin_are_located(friction, restitution, count):
    """Instants and speeds against a formulation of its own; plastic impacts, and the pin that follows its hole."""
    exact = by_hand(friction, restitution, TURN)
    t1 = exact.instants[count - 1][0] + 1e-5
    solution = ph.simulate(slider_crank(friction, restitution), "rkmk54", t1=t1, state0=start(), rtol=1e-10)
    words = {"closes": "contact closes", "opens": "contact changes"}
    events = [solution.events.names[k] for k in np.asarray(solution.events.number, int)]
    instants = [(t, words[what]) for t, what in exact.instants[:count]]
    assert events[:count] == [what for _, what in instants]
    np.testing.assert_allclose(np.asarray(solution.events.t)[:count], [t for t, _ in instants], rtol=0, atol=1e-10)
    times = np.linspace(0, instants[-1][0], 60)[1:-1]
    t, v = np.asarray(solution.t), np.asarray(solution.state[1])
    for k in np.searchsorted(t, times):
        if np.abs(t[k] - [instant for instant, _ in instants]).min() > 1e-9:
            np.testing.assert_allclose(v[k], exact.velocity(t[k]), rtol=0, atol=1e-5 * SPEED * CRANK)
    if not (friction or restitution == 0):
        # Between impacts nothing pushes the slider: its speed is a staircase.
        flights = np.searchsorted([instant for instant, _ in instants], t + 1e-9)
        assert all(np.ptp(v[flights == k, 1]) < 1e-11 for k in range(count) if np.any(flights == k))
        assert np.ptp(v[flights < count, 1]) > 10.0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("friction", "restitution", "order"),
    [(0.0, 0.9, 2), (0.1, 0.9, 2), (0.0, 0.0, 1)],
)
def test_time_steps_converge_to_the_same_motion(friction, restitution, order):
    """Of order 2 across bounces, which are at their instants, and 1 across plastic impacts: mean speed errors."""
    exact = by_hand(friction, restitution, 9.5e-4 if restitution else TURN)
    end, errors = exact.instants[2][0], []
    for n in (1000, 4000):
        solution = ph.simulate(slider_crank(friction, restitution), "moreau", t1=TURN, h=TURN / n, state0=start())
        t = np.asarray(solution.t)
        inside = t < end - 2 * TURN / n
        speeds = np.array([exact.velocity(instant)[1] for instant in t[inside]])
        errors.append(np.abs(np.asarray(solution.state[1])[inside, 1] - speeds).mean())
    assert errors[0] < (2e-3 if restitution else 0.06)
    assert np.log2(errors[0] / errors[1]) / 2 > order - 0.2
