"""One test over many items: a loop that names the item which fails."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps


def for_each(names: str | tuple[str, ...], items: Iterable) -> Callable:
    """Call a test with every item in turn, as one case; a failure carries a note that names its item.

    For one fact that holds of many seeds, networks or texts. Where every item is a fact of its own,
    `pytest.mark.parametrize` makes cases of them. Fixtures are made once, for all items.

    Parameters
    ----------
    names
        The argument that takes an item; several: an item is a tuple of their values.
    items
        At least one.
    """
    keys, items = (names,) if isinstance(names, str) else names, list(items)
    if not items:
        raise ValueError(f"no {', '.join(keys)} to test")

    def decorate(test: Callable) -> Callable:
        @wraps(test)
        def loop(*args, **given):
            for item in items:
                values = (item,) if isinstance(names, str) else item
                at = dict(zip(keys, values, strict=True))
                try:
                    test(*args, **at, **given)
                except BaseException as error:
                    error.add_note(f"for {', '.join(f'{key} = {value!r}' for key, value in at.items())}")
                    raise

        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        loop.__signature__ = signature.replace(parameters=others)
        del loop.__wrapped__  # pytest would ask it for the arguments
        return loop

    return decorate
