"""The warning about model files."""


class ModelFileWarning(UserWarning):
    """A model file contains something implausible, or can't express something of a model; the message names it."""
