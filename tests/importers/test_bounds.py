"""Files that ask for too much, or that are none: refused with the size and the bound, before memory is taken."""

from __future__ import annotations

import os
import socket

import pytest

import polhode as ph

WORLD = '<worldbody><body name="b"><joint name="j"/><geom size="0.1" pos="0 0 1"/>{}</body></worldbody>'


@pytest.fixture
def _unread(monkeypatch):
    """MuJoCo, which takes the memory, is not asked."""

    def build_spec(source):
        raise AssertionError("MuJoCo was given the file")

    monkeypatch.setattr("polhode.importers.sources.Source.build_spec", build_spec)


def body(inner):
    return WORLD.format(inner)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (body('<replicate count="1000000000" offset="0 0 1"><site/></replicate>'), "more than 200000 elements"),
        (
            body('<replicate count="1000"><replicate count="1000"><site/></replicate></replicate>'),
            "more than 200000 elements",
        ),
        (
            body("") + '<asset><hfield name="f" nrow="1000000000" ncol="2" size="1 1 1 1"/></asset>',
            "<hfield> `f` asks for a size of 1e.09 × 2; at most 16777216",
        ),
        (body("") + '<asset><hfield name="f" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>', "at most 16777216"),
        ('<size nuser_body="1000000000"/>' + body(""), r"`nuser_body` = 1e\+09; at most 10000"),
        ('<size nuser_sensor="100000000"/>' + body(""), "`nuser_sensor`"),
        ('<size nuserdata="1000000000"/>' + body(""), "`nuserdata`"),
        ('<size nkey="1000000000"/>' + body(""), "`nkey`"),
        ('<size memory="1000G"/>' + body(""), "`memory`"),
        (
            body("") + '<asset><texture name="t" builtin="flat" width="100000" height="100000"/></asset>',
            "<texture> `t` asks for a size of 100000 × 100000",
        ),
        (body("") + '<asset><mesh name="m" builtin="sphere" params="30"/></asset>', "faces; at most"),
        (body('<flexcomp name="f" type="grid" count="10000 10000 10000" dim="3"/>'), "<flexcomp> `f`"),
        (body("") + '<custom><numeric name="n" size="1000000000"/></custom>', "<numeric> `n`"),
        (body("") + '<actuator><motor name="m" joint="j" delay="1" nsample="1000000000"/></actuator>', "`nsample`"),
    ],
)
@pytest.mark.usefixtures("_unread")
def test_sizes_beyond_their_bounds_are_refused(inside, said):
    with pytest.raises(ValueError, match=said):
        ph.load_model(f"<mujoco>{inside}</mujoco>")


@pytest.mark.usefixtures("_unread")
def test_copies_of_files_within_files_count(tmp_path):
    copies = '<replicate count="1000"><include file="{}.xml"/></replicate>'
    (tmp_path / "c.xml").write_text("<mujocoinclude><site/></mujocoinclude>")
    (tmp_path / "b.xml").write_text(f"<mujocoinclude>{copies.format('c')}</mujocoinclude>")
    (tmp_path / "a.xml").write_text(f"<mujoco>{body(copies.format('b'))}</mujoco>")
    with pytest.raises(ValueError, match="files within it included"):
        ph.load_model(tmp_path / "a.xml")


@pytest.mark.usefixtures("_unread")
def test_files_that_include_themselves_end(tmp_path):
    (tmp_path / "a.xml").write_text(f'<mujoco><include file="a.xml"/>{body("")}</mujoco>')
    with pytest.raises(ValueError, match="20 deep"):
        ph.load_model(tmp_path / "a.xml")


def _make(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
def test_what_is_no_file_is_refused_wherever_it_is_named(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _make(tmp_path / "odd.xml", kind)
    with pytest.raises(ValueError, match="no regular file"):
        ph.load_model(tmp_path / "odd.xml")
    for text in (
        f'<mujoco><include file="odd.xml"/>{body("")}</mujoco>',
        f'<mujoco><asset><model name="m" file="odd.xml"/></asset>{body("")}</mujoco>',
    ):
        (tmp_path / "main.xml").write_text(text)
        for given in (tmp_path / "main.xml", text):
            with pytest.raises(ValueError, match="no regular file"):
                ph.load_model(given)
    (tmp_path / "odd.xml").rename(tmp_path / "odd.stl")
    mesh = '<asset><mesh name="m" file="odd.stl"/></asset>'
    shape = '<geom type="mesh" mesh="m" mass="0"/>'
    (tmp_path / "main.xml").write_text(f"<mujoco>{mesh}{body(shape)}</mujoco>")
    with pytest.warns(ph.importers.ModelFileWarning, match="not drawn: odd.stl"):
        ph.load_model(tmp_path / "main.xml")


def test_files_of_gigabytes_are_refused(tmp_path):
    with open(tmp_path / "large.xml", "wb") as file:
        file.truncate(2**33)
    with pytest.raises(ValueError, match="8192 MB; at most 256 MB"):
        ph.load_model(tmp_path / "large.xml")
