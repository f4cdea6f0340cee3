"""Models from files: URDF, MJCF and SDFormat.

In: a file, its XML, or a specification of MuJoCo. Out: an `ImportedModel`. `formats` has the table of readers, each
of which makes a `CompiledModel` from a `Source`; `load` makes a model from that, for all formats alike. Open
first: `load.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polhode import checks
from polhode.file_warning import ModelFileWarning as ModelFileWarning

if TYPE_CHECKING:
    from polhode.importers.imported_model import ImportedModel


def load_model(
    path: str | Path | Any,
    *,
    positions: Mapping[str, Any] | None = None,
    velocities: Mapping[str, Any] | None = None,
    keyframe: str | int | None = None,
    floating: bool = False,
    check_inertia: bool = False,
    controls: Mapping[str, Any] | None = None,
    limits: bool = True,
    stick_velocity: float | None = 0.01,
    mesh_paths: str | Path | Sequence[str | Path] | None = None,
    contacts: bool = False,
    floor: Any = None,
    friction: Any = None,
    joint_law: str = "smooth",
) -> ImportedModel:
    """Read URDF, MJCF or SDFormat as a model. MuJoCo compiles the file: `pip install 'polhode[import]'`.

    Links that are joined by fixed joints become one body. Equality constraints of MJCF become exact constraints.
    What changes the motion and has no place in a model is listed in `not_carried` of the result, with the reason.
    Shapes are for pictures; a `ModelFileWarning` names meshes that are missing.

    ```python
    arm = ph.load_model("arm.urdf", positions={"shoulder": 0.3}, velocities={"elbow": -1.0})
    solution = ph.simulate(arm.problem(t1=2.0))
    ```

    **Arguments:**

    - `path`: file that ends in .urdf, .xml, .mjcf, .sdf or .world, or .xacro if the package `xacro` is installed; XML
      as a string; or a `mujoco.MjSpec`, which stays as it is.
    - `positions`, `velocities`: initial values of joints by name, rad or length; a ball joint takes a quaternion
      (w, x, y, z) and an angular velocity in the frame of the child, a free one position and quaternion, inertial
      velocity and body-fixed angular velocity.
    - `keyframe`: name or number of a keyframe of MJCF to start from, instead of the file's default positions.
    - `floating`: let the root link of a URDF move freely; otherwise it is fixed to the ground.
    - `check_inertia`: whether to refuse moments of inertia that no distribution of mass has, judged with all that is
      fixed to a link; a `ModelFileWarning` names them otherwise.
    - `controls`: of actuators by name, numbers, functions of time, or of (t, positions, rates) with those of the
      joints by name; others keep what they have at the start.
    - `limits`: whether the ranges of joints end in stops, elastic and damped as the file says for MuJoCo's solver.
    - `stick_velocity`: joints with dry friction stick below it, rad or length per time: the friction is smooth around
      rest. None leaves dry friction out.
    - `mesh_paths`: folders in which meshes, textures and models of SDFormat are looked for besides the folder of the
      file and its package; `package://name/…` in `name` below them or in themselves. No file is read elsewhere. A
      specification of MuJoCo has its own.
    - `contacts`: whether the shapes of the file touch each other: in MJCF as its masks, pairs and exclusions say, else
      all but those of joined links.
    - `floor`: what all of them touch: True for a plane through their lowest point at the start, its height z, or
      a shape from `polhode.shapes`.
    - `friction`: coefficient in place of those of the file; 0.8 where it has none.
    - `joint_law`: "smooth" for stops and dry friction as above, which all methods take; "rigid" for stops without
      compliance, with the restitution of `solref`, and dry friction that sticks, which methods with contacts take.

    **Returns** an `ImportedModel` with `model`, `links`, `joints` and `not_carried`.

    **Raises** ValueError for files that can't be read and joints that have no counterpart, with the remedy;
    ImportError, with the command that helps, if MuJoCo is not installed.
    """
    try:
        from polhode.importers.contact_rules import ContactOptions, read_floor
        from polhode.importers.load import LoadRequest, load, mapping
        from polhode.importers.loads import ImportOptions
        from polhode.importers.mesh_files import folders
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mujoco":
            raise
        raise ImportError("Reading model files needs MuJoCo: pip install 'polhode[import]'", name="mujoco") from error
    if stick_velocity is not None:
        stick_velocity = float(checks.positive("stick_velocity", stick_velocity, (), "below which joints stick"))
    rigid = checks.choice("joint_law", joint_law, ("smooth", "rigid")) == "rigid"
    touch = ContactOptions(checks.flag("contacts", contacts), read_floor(floor), friction)
    if friction is not None and not touch.requested:
        raise ValueError("`friction` is of contacts, and nothing touches: give `floor` or `contacts=True` as well.")
    request = LoadRequest(
        mapping("positions", positions),
        mapping("velocities", velocities),
        keyframe,
        checks.flag("floating", floating),
        checks.flag("check_inertia", check_inertia),
        ImportOptions(mapping("controls", controls), checks.flag("limits", limits), stick_velocity, rigid),
        touch,
        folders(mesh_paths),
    )
    return load(path, request)
