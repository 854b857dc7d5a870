"""The one kind of error that people see as a sentence."""


class UserError(ValueError):
    """What was asked for cannot be done, and the message says what to do instead.

    It becomes one line of a command or one sentence on the page. Any other exception is a bug and
    keeps its traceback.
    """
