"""The exceptions of this package."""


class ModelError(Exception):
    """What is asked cannot be done; one sentence that names the module and says what to change."""


class UsageError(Exception):
    """A command that is written wrongly; exit code 2."""
