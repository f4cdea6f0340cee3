"""Modal data of a deformable body: mass, stiffness and nodes."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class ModalBody(eqx.Module):
    r"""Mass, stiffness and nodes of a body in its modes, in a frame at the centre of mass without deformation.

    With amplitudes η the moments of inertia are
    $\Theta = \Theta^0 + \eta_a\Theta^1_a + \eta_a\eta_b\Theta^2_{ab}$, the angular momentum of the modes is Hη̇ with
    $H = H^0 + \eta_aH^1_a$, and mass times the place of the centre of mass is Sη.

    - `mass`; `inertia`, `inertia_slopes`, `inertia_curvatures`: Θ⁰, Θ¹, Θ² (symmetric in a and b).
    - `spins`, `spin_slopes`: H⁰, H¹; `first_moments`: S; `modal_mass`: that of η̇.
    - `stiffness`, `damping`: of η and η̇; no damping if None.
    - `points`, `shapes`, `turns`: of the nodes for attachments, the centre of mass first: undeformed positions, and
      displacements and small rotations in each mode.
    - `rotates`: which nodes rotate relative to the frame; others keep its axes, and their `turns` are unused.
    """

    mass: Float[Array, ""]
    inertia: Float[Array, "3 3"]
    inertia_slopes: Float[Array, "k 3 3"]
    inertia_curvatures: Float[Array, "k k 3 3"]
    spins: Float[Array, "3 k"]
    spin_slopes: Float[Array, "k 3 k"]
    first_moments: Float[Array, "3 k"]
    modal_mass: Float[Array, "k k"]
    stiffness: Float[Array, "k k"]
    damping: Float[Array, "k k"] | None
    points: Float[Array, "nodes 3"]
    shapes: Float[Array, "nodes 3 k"]
    turns: Float[Array, "nodes 3 k"]
    rotates: tuple[bool, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        """The number of modes."""
        return self.modal_mass.shape[0]

    def slopes(self, eta: Float[Array, " k"]) -> Float[Array, "k 3 3"]:
        """∂Θ/∂η."""
        return self.inertia_slopes + 2.0 * jnp.einsum("abij,b->aij", self.inertia_curvatures, eta)

    def moments(self, eta: Float[Array, " k"], slopes: Float[Array, "k 3 3"]) -> Float[Array, "3 3"]:
        """Θ, from its slopes."""
        return self.inertia + 0.5 * jnp.einsum("a,aij->ij", eta, self.inertia_slopes + slopes)

    def coupling(self, eta: Float[Array, " k"]) -> Float[Array, "3 k"]:
        """H."""
        return self.spins + jnp.einsum("a,aik->ik", eta, self.spin_slopes)
