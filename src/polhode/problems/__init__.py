"""Named initial-value problems of the literature, each complete with outputs, invariants and reference values."""

from polhode.problems.andrews import andrews as andrews
from polhode.problems.base import Problem as Problem
from polhode.problems.bennett import bennett as bennett
from polhode.problems.body_chain import body_chain as body_chain
from polhode.problems.flying_spaghetti import flying_spaghetti as flying_spaghetti
from polhode.problems.free_rigid_body import free_rigid_body as free_rigid_body
from polhode.problems.heavy_top import heavy_top as heavy_top
from polhode.problems.heavy_top_constrained import heavy_top_constrained as heavy_top_constrained
from polhode.problems.pendulum_chain import pendulum_chain as pendulum_chain
from polhode.problems.planar_four_bar import planar_four_bar as planar_four_bar
from polhode.problems.puma import puma as puma
from polhode.problems.quadrotor_control import Gains as Gains
from polhode.problems.quadrotor_control import LoadTracking as LoadTracking
from polhode.problems.quadrotor_control import PolynomialPath as PolynomialPath
from polhode.problems.quadrotor_model import AbstractController as AbstractController
from polhode.problems.quadrotor_model import Control as Control
from polhode.problems.quadrotor_model import Transport as Transport
from polhode.problems.quadrotor_model import TransportParameters as TransportParameters
from polhode.problems.quadrotors import quadrotors as quadrotors
from polhode.problems.registry import get as get
from polhode.problems.registry import names as names
from polhode.problems.registry import register as register
from polhode.problems.rigid_rotation import free_rigid_body_solution as free_rigid_body_solution
from polhode.problems.roll_up import roll_up as roll_up
from polhode.problems.rotor import rotor as rotor
from polhode.problems.slider_crank import slider_crank as slider_crank
