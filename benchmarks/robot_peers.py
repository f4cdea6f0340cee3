"""Steps of the codes that robots are measured beside, in µs of processor time of this thread."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

REPEATS = 7


def thread_time(call: Callable[[], object]) -> float:
    """Seconds of this thread's processor time: other work on the machine counts little."""
    began = time.thread_time()
    call()
    return time.thread_time() - began


def forward_dynamics(path: Path, floating: bool, calls: int = 2000) -> Callable[[], float]:
    """What measures four calls of Pinocchio's articulated-body algorithm from Python: a step of order 4 has four."""
    pinocchio: Any = importlib.import_module("pinocchio")

    model = pinocchio.buildModelFromUrdf(str(path), *([pinocchio.JointModelFreeFlyer()] if floating else []))
    data, q = model.createData(), pinocchio.neutral(model)
    v, effort = 0.1 * np.random.default_rng(0).normal(size=model.nv), np.zeros(model.nv)

    def call() -> None:
        for _ in range(calls):
            pinocchio.aba(model, data, q, v, effort)

    return lambda: 4e6 * thread_time(call) / calls


def implicit_step(path: Path, steps: int) -> Callable[[], float]:
    """What measures a step of MuJoCo's `implicitfast` without contacts, on the way from the start that the file has."""
    mujoco: Any = importlib.import_module("mujoco")

    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT

    def march() -> float:
        data = mujoco.MjData(model)
        return 1e6 * thread_time(lambda: mujoco.mj_step(model, data, steps)) / steps

    return march
