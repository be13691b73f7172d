"""What a model calls while it is attached."""


class Hook:
    """Of the model's own, which copies and files of the model take along: there it does nothing."""

    def __init__(self, method=None):
        self._method = method

    def __call__(self, *arguments):
        if self._method is not None:
            self._method(*arguments)

    def __deepcopy__(self, _):
        return Hook()

    def __reduce__(self):
        return Hook, ()
