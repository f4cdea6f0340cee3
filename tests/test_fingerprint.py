"""What users' functions capture is seen by every run, however it changes between them."""

from __future__ import annotations

import array
import collections
import functools
import os
import subprocess
import sys
import textwrap
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler import fingerprint
from polhode.compiler.cache import program_cache
from polhode.compiler.fingerprint.object_walk import input_digest
from polhode.multibody.mechanism.user_functions import Constant, Function
from polhode.spaces import Rn

STIFFNESS = 1.0
SETTINGS = types.ModuleType("settings")
SETTINGS.stiffness = 1.0
SETTINGS.__file__ = "settings.py"


PACKAGE = types.ModuleType("springs_of_a_user")
PACKAGE.__path__ = ["springs_of_a_user"]
PACKAGE.sub = types.ModuleType("springs_of_a_user.sub")
PACKAGE.sub.k = 1.0
sys.modules.update({"springs_of_a_user": PACKAGE, "springs_of_a_user.sub": PACKAGE.sub})


class Spring:
    """An object of a user, no module."""

    def __init__(self, stiffness):
        self.stiffness = stiffness

    def __call__(self, t, y):
        return -self.stiffness * y

    def field(self, t, y):
        return -self.stiffness * y

    @property
    def doubled(self):
        return lambda t, y: -2 * self.stiffness * y


class ByGlobal(eqx.Module):
    """A module of a user whose numbers are not in its fields."""

    def __call__(self, t, y):
        return -STIFFNESS * y


def end(field):
    """The end of ẏ = field at t = 0.1 from y = 1."""
    system = ph.VectorField(Rn(1), field)
    return float(ph.simulate(system, "rk4", h=0.05, t1=0.1, state0=jnp.ones(1)).state[-1, 0])


def object_called():
    spring = Spring(1.0)
    return spring, lambda k: setattr(spring, "stiffness", k)


def method():
    spring = Spring(1.0)
    return spring.field, lambda k: setattr(spring, "stiffness", k)


def attribute_in_a_closure():
    spring = Spring(1.0)
    return lambda t, y: -spring.stiffness * y, lambda k: setattr(spring, "stiffness", k)


def entry_of_a_list():
    numbers = [1.0, 7.0]
    return lambda t, y: -numbers[0] * y, lambda k: numbers.__setitem__(0, k)


def entry_of_an_array():
    numbers = np.array([1.0, 7.0])
    return lambda t, y: -numbers[0] * y, lambda k: numbers.__setitem__(0, k)


def entry_of_nested_dictionaries():
    numbers = {"a": {"k": [1.0]}}
    return lambda t, y: -numbers["a"]["k"][0] * y, lambda k: numbers["a"].update(k=[k])


def variable_of_the_enclosing_function():
    stiffness = 1.0

    def change(k):
        nonlocal stiffness
        stiffness = k

    return lambda t, y: -stiffness * y, change


def function_in_a_closure():
    spring = Spring(1.0)

    def force(y):
        return -spring.stiffness * y

    return lambda t, y: force(y), lambda k: setattr(spring, "stiffness", k)


def argument_of_partial():
    numbers = [1.0]
    return functools.partial(lambda numbers, t, y: -numbers[0] * y, numbers), lambda k: numbers.__setitem__(0, k)


def default_of_an_argument():
    def field(t, y, k=1.0):
        return -k * y

    return field, lambda k: setattr(field, "__defaults__", (k,))


def global_number():
    return lambda t, y: -STIFFNESS * y, lambda k: globals().__setitem__("STIFFNESS", k)


def global_number_behind_a_method():
    return ByGlobal(), lambda k: globals().__setitem__("STIFFNESS", k)


def number_of_a_module():
    return lambda t, y: -SETTINGS.stiffness * y, lambda k: setattr(SETTINGS, "stiffness", k)


class OfClass:
    """An object whose numbers belong to its class."""

    k = 1.0
    several = (1.0,)

    def __call__(self, t, y):
        return -self.k * y

    def listed(self, t, y):
        return -self.several[0] * y


class Inherits(OfClass):
    """Has nothing itself."""


class ModuleOfClass(eqx.Module):
    """A module whose number belongs to its class."""

    k = 1.0

    def __call__(self, t, y):
        return -self.k * y


class InheritingModule(ModuleOfClass):
    """Has nothing itself."""


class WithMethods:
    """Has no attributes."""

    def g(self, y):
        return -y

    def __call__(self, t, y):
        return self.g(y)

    @staticmethod
    def fixed(t, y):
        return -STIFFNESS * y

    @classmethod
    def of_class(cls, t, y):
        return -STIFFNESS * y


class Several(list):
    """A list with attributes."""


class Mapped(dict):
    """A dictionary with attributes."""


class Any_:
    """Has every attribute that it is asked for."""

    __slots__ = ("k",)

    def __init__(self):
        self.k = 1.0

    def __getattr__(self, name):
        if name == "missing":
            raise KeyError(name)
        return 3.0


class Table:
    """Numbers that only an array shows."""

    __slots__ = ()

    def __array__(self, dtype=None, copy=None):
        return np.array(Hidden.numbers())


class Hidden:
    """Where a table keeps its numbers, in a generator that can't be looked into."""

    @staticmethod
    def _kept(k):
        while True:
            k = (yield k) or k

    @classmethod
    def begin(cls):
        cls.kept = cls._kept(1.0)
        next(cls.kept)

    @classmethod
    def numbers(cls):
        return [next(cls.kept)]


def set_k(kind):
    return lambda k: setattr(kind, "k", k)


def attribute_of_the_class():
    return OfClass(), set_k(OfClass)


def inherited_attribute_of_the_class():
    return Inherits(), set_k(OfClass)


def list_on_the_class():
    OfClass.several = [1.0]
    return OfClass().listed, lambda k: OfClass.several.__setitem__(0, k)


def attribute_of_the_class_of_a_module():
    return ModuleOfClass(), set_k(ModuleOfClass)


def inherited_attribute_of_the_class_of_a_module():
    return InheritingModule(), set_k(ModuleOfClass)


def attribute_of_a_global_class():
    return lambda t, y: -OfClass.k * y, set_k(OfClass)


def attribute_of_a_captured_class():
    class Local:
        k = 1.0

    return lambda t, y: -Local.k * y, set_k(Local)


def method_replaced_on_the_class():
    return WithMethods(), lambda k: setattr(WithMethods, "g", lambda self, y: -k * y)


def global_number_behind_a_static_method():
    empty = WithMethods()
    return lambda t, y: empty.fixed(t, y), lambda k: globals().__setitem__("STIFFNESS", k)


def global_number_behind_a_class_method():
    return lambda t, y: WithMethods.of_class(t, y), lambda k: globals().__setitem__("STIFFNESS", k)


def number_of_a_submodule():
    return lambda t, y: -PACKAGE.sub.k * y, set_k(PACKAGE.sub)


def number_of_a_module_in_a_closure():
    sub = PACKAGE.sub
    return lambda t, y: -sub.k * y, set_k(PACKAGE.sub)


def number_of_a_module_in_an_attribute():
    spring = Spring(PACKAGE.sub)
    return lambda t, y: -spring.stiffness.k * y, set_k(PACKAGE.sub)


def number_imported_by_the_function():
    def field(t, y):
        from springs_of_a_user.sub import k

        return -k * y

    return field, set_k(PACKAGE.sub)


def module_imported_by_the_function():
    def field(t, y):
        import springs_of_a_user

        return -springs_of_a_user.sub.k * y

    return field, set_k(PACKAGE.sub)


def entry_of_a_deque():
    numbers = collections.deque([1.0])
    return lambda t, y: -numbers[0] * y, lambda k: numbers.__setitem__(0, k)


def entry_of_an_array_of_python():
    numbers = array.array("d", [1.0])
    return lambda t, y: -numbers[0] * y, lambda k: numbers.__setitem__(0, k)


def entry_of_bytes():
    numbers = bytearray([1])
    return lambda t, y: -float(numbers[0]) * y, lambda k: numbers.__setitem__(0, int(k))


def entry_of_a_proxy():
    numbers = {"k": 1.0}
    proxy = types.MappingProxyType(numbers)
    return lambda t, y: -proxy["k"] * y, lambda k: numbers.update(k=k)


def entry_behind_a_method_of_a_dictionary():
    numbers = {"k": 1.0}
    get = numbers.get
    return lambda t, y: -get("k") * y, lambda k: numbers.update(k=k)


def attribute_of_a_list():
    several = Several([1.0])
    several.k = 1.0
    return lambda t, y: -several.k * y, set_k(several)


def attribute_of_a_dictionary():
    mapped = Mapped(a=1.0)
    mapped.k = 1.0
    return lambda t, y: -mapped.k * y, set_k(mapped)


def attribute_of_what_has_every_attribute():
    thing = Any_()
    return lambda t, y: -thing.k * y, set_k(thing)


def numbers_of_a_table():
    table = Table()
    Hidden.begin()
    return lambda t, y: -np.asarray(table)[0] * y, lambda k: Hidden.kept.send(k)


def one_of_many_numbers():
    numbers = [1.0] * 300_000
    return lambda t, y: -numbers[-1] * y, lambda k: numbers.__setitem__(-1, k)


def helper_compiled_by_the_user():
    numbers = [1.0]
    helper = jax.jit(lambda y: -numbers[0] * y)
    helper(jnp.ones(1))
    return lambda t, y: helper(y), lambda k: numbers.__setitem__(0, k)


def helper_compiled_by_equinox():
    numbers = [1.0]
    helper = eqx.filter_jit(lambda y: -numbers[0] * y)
    helper(jnp.ones(1))
    return lambda t, y: helper(y), lambda k: numbers.__setitem__(0, k)


class Static(eqx.Module):
    """A module with a plain object among its static parts."""

    spring: Spring = eqx.field(static=True)

    def __call__(self, t, y):
        return self.spring(t, y)


def object_in_a_static_field():
    spring = Spring(1.0)
    return Static(spring), lambda k: setattr(spring, "stiffness", k)


class Holds(eqx.Module):
    """A module with a plain object among its leaves."""

    numbers: types.SimpleNamespace

    def __call__(self, t, y):
        return -self.numbers.k * y


class Numbers:
    """Plain and hashable."""

    k = 1.0


def object_in_a_field():
    numbers = Numbers()
    return Holds(numbers), set_k(numbers)


WAYS = (
    object_called,
    method,
    attribute_in_a_closure,
    entry_of_a_list,
    entry_of_an_array,
    entry_of_nested_dictionaries,
    variable_of_the_enclosing_function,
    function_in_a_closure,
    argument_of_partial,
    default_of_an_argument,
    global_number,
    global_number_behind_a_method,
    number_of_a_module,
    attribute_of_the_class,
    inherited_attribute_of_the_class,
    list_on_the_class,
    attribute_of_the_class_of_a_module,
    inherited_attribute_of_the_class_of_a_module,
    attribute_of_a_global_class,
    attribute_of_a_captured_class,
    method_replaced_on_the_class,
    global_number_behind_a_static_method,
    global_number_behind_a_class_method,
    number_of_a_submodule,
    number_of_a_module_in_a_closure,
    number_of_a_module_in_an_attribute,
    number_imported_by_the_function,
    module_imported_by_the_function,
    entry_of_a_deque,
    entry_of_an_array_of_python,
    entry_of_bytes,
    entry_of_a_proxy,
    entry_behind_a_method_of_a_dictionary,
    attribute_of_a_list,
    attribute_of_a_dictionary,
    attribute_of_what_has_every_attribute,
    numbers_of_a_table,
    one_of_many_numbers,
    helper_compiled_by_the_user,
    helper_compiled_by_equinox,
    object_in_a_static_field,
    object_in_a_field,
)


@pytest.fixture(autouse=True)
def _numbers_of_the_module():
    yield
    globals()["STIFFNESS"] = 1.0
    SETTINGS.stiffness = 1.0
    OfClass.k = ModuleOfClass.k = PACKAGE.sub.k = 1.0


@pytest.mark.sampled(42)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_captured_number_that_has_changed_is_seen(way):
    field, change = way()
    assert end(field) == pytest.approx(np.exp(-0.1), abs=1e-7)
    change(5.0)
    assert end(field) == pytest.approx(np.exp(-0.5), abs=1e-4)
    change(1.0)
    assert end(field) == pytest.approx(np.exp(-0.1), abs=1e-7)


@pytest.mark.exhaustive
def test_forces_of_models_see_what_has_changed_also_in_new_models():
    strength = [1.0]

    def force(t):
        return jnp.array([strength[0], 0.0, 0.0])

    def speed(model=None):
        if model is None:
            model = ph.Model()
            block = model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0, 0, 0))
            model.add(ph.forces.PointForce(block, force))
        return model, float(ph.simulate(model.problem("SE3", t1=0.5), "rkmk4", h=0.25).state[1][-1, 3])

    model, before = speed()
    strength[0] = 100.0
    assert before == pytest.approx(0.5)
    assert speed(model)[1] == pytest.approx(50.0)
    assert speed()[1] == pytest.approx(50.0)


def test_equal_functions_share_a_program(monkeypatch):
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(100))

    def made(k):
        return lambda t, y: -k * y

    end(made(3.0))
    count = len(program_cache._PROGRAMS._programs)
    end(made(3.0))
    assert len(program_cache._PROGRAMS._programs) == count
    end(made(4.0))
    assert len(program_cache._PROGRAMS._programs) > count


def test_programs_are_dropped_beyond_a_number():
    found = program_cache._Programs(3)
    made = []

    def make(k):
        made.append(k)
        return lambda inputs: k

    for k in (1, 2, 3, 1, 4):
        assert found.find(k, lambda k=k: make(k))(None) == k
    assert found.find(1, lambda: make(1))(None) == 1
    assert made == [1, 2, 3, 4]
    found.find(2, lambda: make(2))
    assert made[-1] == 2


def test_captured_arrays_that_are_differentiated_stay_inputs():
    def stretch(k):
        system = ph.VectorField(Rn(1), lambda t, y: -k * y)
        return ph.simulate(system, "rk4", h=0.05, t1=0.1, state0=jnp.ones(1), save_every=None).state[-1, 0]

    assert float(jax.grad(stretch)(2.0)) == pytest.approx(-0.1 * np.exp(-0.2), rel=1e-5)


def made(source, filename="<made>"):
    """`make()` of a text, as if it had been written in a file."""
    scope = {"__name__": "made"}
    exec(compile(textwrap.dedent(source), filename, "exec"), scope)
    return scope["make"]()


CHANGES = {
    "a comprehension": ("def make(): return lambda x: [K * v for v in x]", "1.0", "-9.0"),
    "an inner function": (
        """
        def make():
            def outer(x):
                def inner(v):
                    return K * v
                return inner(x)
            return outer
        """,
        "1.0",
        "2.0",
    ),
    "an attribute of a class": (
        """
        class C:
            k = K
        def make(): return lambda x: C.k * x
        """,
        "1.0",
        "2.0",
    ),
    "a method": (
        """
        class C:
            def f(self, x): return [K * v for v in x]
        def make(): return C().f
        """,
        "1.0",
        "2.0",
    ),
    "a set of functions": (
        """
        def f(x): return K * x
        def g(x): return 3 * x
        def make(): return lambda x: {f, g, len, "a", "b"}
        SET = {f, g, "a", "b", "c"}
        def make(): return lambda x: SET
        """,
        "1.0",
        "2.0",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_lasting_signature_sees_changes_of_the_text(change):
    text, before, after = CHANGES[change]
    one, other = (fingerprint.fingerprint(made(text.replace("K", k))) for k in (before, after))
    assert one != other
    assert one == fingerprint.fingerprint(made("\n\n" + textwrap.dedent(text.replace("K", before)), "/elsewhere.py"))


@pytest.mark.exhaustive
def test_a_lasting_signature_is_the_same_in_other_processes():
    texts = [textwrap.dedent(text.replace("K", k)) for text, k, _ in CHANGES.values()]
    code = f"""
from polhode.compiler.fingerprint import fingerprint
for text in {texts!r}:
    scope = {{"__name__": "made"}}
    exec(compile(text, "/another/file.py", "exec"), scope)
    print(fingerprint(scope["make"]()))
"""
    here = [fingerprint.fingerprint(made(text)) for text in texts]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.split() == here


@pytest.mark.parametrize("name", [fingerprint.fingerprint, fingerprint.persistent_key])
def test_what_lasts_does_not_tell_one_object_from_two_equal_ones(name):
    def pair(other):
        body = (np.arange(3.0), ph.spaces.Rn(3))
        return [body, other(body)]

    assert name(pair(lambda body: body)) == name(pair(lambda _: (np.arange(3.0), ph.spaces.Rn(3))))
    assert name(pair(lambda body: body)) != name(pair(lambda _: (np.arange(3.0), ph.spaces.Rn(4))))


def test_keys_for_random_numbers_can_be_captured():
    first, second = (fingerprint.fingerprint([jax.random.key(n)]) for n in (0, 1))
    assert first != second


class Holding(eqx.Module):
    held: object


@pytest.mark.parametrize(
    ("tree", "stays"),
    [
        ((1.0, np.zeros(2), None, "word"), True),
        (ph.PiecewiseLinear((0.0, 1.0), (1.0, 2.0)), True),
        (Function(ph.PiecewiseLinear((0.0, 1.0), (1.0, 2.0))), True),
        (Function(lambda t: t), False),
        ([1.0], False),
        ({"a": 1.0}, False),
        (Holding(1.0), False),
        (lambda t: t, False),
    ],
)
def test_what_stays_as_it_is(tree, stays):
    assert fingerprint.is_immutable(tree) is stays


def test_arguments_have_the_arrays_of_their_trees_in_order():
    known = ph.PiecewiseLinear((0.0, 1.0), (1.0, 2.0))
    args = (
        (Function(known), Holding(known), known, jnp.zeros(3), (np.ones(2), 4.0)),
        {"b": jnp.ones(1), "a": (None, np.zeros(1))},
    )
    for _ in range(2):
        found = program_cache.Arguments(*args).arrays
        wanted = [x for x in jax.tree.leaves(args) if eqx.is_array(x)]
        assert len(found) == len(wanted)
        assert all(a is b for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    "other", [(1.0, None), (None, 1), (None, np.float32(1.0)), (None, jnp.ones(1)), ((None, 1.0),), (None, 1.0, ())]
)
def test_arguments_that_differ_in_more_than_numbers_have_programs_of_their_own(other):
    def key(args):
        return program_cache.Arguments(args)._key

    assert key((None, 1.0)) == key((None, 1.0))
    assert key((None, 1.0)) != key(other)


def test_functions_of_the_library_have_quick_keys_unlike_those_of_users():
    key = lambda function: input_digest(Function(function))  # noqa: E731
    of_number = key(Constant(jnp.asarray(1.0)))
    assert of_number is not None
    assert of_number == key(Constant(jnp.asarray(2.0)))
    assert of_number != key(Constant(jnp.zeros(2)))
    assert key(ph.PiecewiseLinear([0.0, 1.0], [0.0, 1.0])) not in (None, of_number)

    class Mine(Constant):
        pass

    assert key(lambda t: 1.0) is None
    assert key(Mine(jnp.asarray(1.0))) is None
