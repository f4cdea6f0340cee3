"""Results by the names of a model: bodies, joints, outputs."""
