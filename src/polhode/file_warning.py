"""The warning of what a model file can't mean, or can't say of a model."""


class ModelFileWarning(UserWarning):
    """A model file says something that can't be meant, or can't say something of a model; the warning tells what."""
