"""The one exception of this package."""


class ModelError(Exception):
    """What is asked cannot be done; one sentence that names the module and says what to change."""
