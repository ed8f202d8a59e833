"""Proxies in the tester for values of the attempt that are not plain data: functions, objects, iterators, coroutines.

Standard library only. An operation on a proxy is executed in the attempt's process, and only data comes back. Comparisons with a value of the tests
are not decided there: a proxy equals no plain value. Answers of one object must agree, as answers of plain data do.
"""

from __future__ import annotations

import _collections_abc
from os import urandom

import setups
from decoys import decoys, extremes
from observations import MOST
from operations import COMPARING, CONVERSIONS, DIFFERENCES, IN_PLACE, PAIRWISE, SHOWN, WITHHELD, operator_of
from values import ABSTRACT, QUESTIONS, as_builtin, plain

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "METHODS",
    "EndedError",
    "Proxy",
    "combine",
    "comparison",
    "decide",
    "is_instance_of",
    "number_of",
    "observe",
    "operate",
    "own_class",
    "proxy_of",
]


class EndedError(Exception):
    """An iterator of the attempt is exhausted."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Proxy:
    """Proxy for a value that the attempt's process holds: operations are executed there, and only data comes back.

    A proxy is never equal to a value of the tests, whatever the attempt answers; the attempt compares two of its own values.
    """

    def __init__(self, channel: Any, number: int) -> None:
        object.__setattr__(self, "_origin", (channel, number))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__", "__wrapped__"):
            raise AttributeError(name)
        found = operate(self, "getattr", name)
        if name in QUESTIONS and isinstance(found, Proxy):
            decide(self)
        elif is_of_setup(self, name):
            if type(found) is bool:
                decide(self)
            elif isinstance(found, Proxy):
                channel, number = object.__getattribute__(found, "_origin")
                channel.setup_methods.add(number)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        operate(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        operate(self, "delattr", name)

    def __dir__(self) -> Any:
        return operate(self, "dir")

    def __copy__(self) -> Any:
        return operate(self, "copy")

    def __deepcopy__(self, _memo: Any) -> Any:
        return operate(self, "deepcopy")

    def __str__(self) -> str:
        return text_of(observe(self, "str"))

    def __repr__(self) -> str:
        return text_of(observe(self, "repr"))

    def __hash__(self) -> int:
        channel, number = object.__getattribute__(self, "_origin")
        return channel.hashes[number] if channel.shared.reading else operate(self, "__hash__")


def number_of(value: Proxy) -> int:
    """Return the number under which the attempt's process holds a value."""
    return object.__getattribute__(value, "_origin")[1]


def operate(value: Proxy, name: str, /, *args: Any, **named: Any) -> Any:
    """Execute an operation on a value in the attempt's process."""
    channel, number = object.__getattribute__(value, "_origin")
    return channel.call((name, number), args, named)


def decide(value: Proxy) -> None:
    """Record that code of the attempt decides this test: it got a value of the tests, or compared two of the attempt's objects."""
    object.__getattribute__(value, "_origin")[0].decided = True


def observe(value: Proxy, name: str, *args: Any) -> Any:
    """Execute an operation whose answers must agree with each other."""
    channel, number = object.__getattribute__(value, "_origin")
    try:
        answer = operate(value, name, *args)
    except IndexError:
        channel.observed.ended(number, args)
        raise
    channel.observed.record(number, name, args, answer)
    return answer


def iterate(value: Proxy) -> Iterator[Any]:
    """Return an iterator over an object of the attempt; its items must agree with those of other iterators over it."""
    channel, number = object.__getattribute__(value, "_origin")
    return channel.observed.items(number, operate(value, "__iter__"))


def contains(value: Proxy, item: Any) -> bool:
    """Return the answer of the attempt's ``__contains__``, and record that the attempt decides."""
    decide(value)
    return bool(operate(value, "__contains__", item))


def contains_among(value: Any, item: Any) -> bool:
    """Return the answer of the attempt's ``__contains__``, and record that the attempt decides, unless the object's items decide.

    The items decide if they end and give the same answer, and for an object that claims to contain everything (``OTHERS``).
    """
    try:  # by __getitem__ if there is no __iter__
        items = enumerate(iter(value))
        among = next((count for count, each in items if each is item or each == item or count == MOST), None)
    except Exception:  # as that of a mapping without the key 0
        among = MOST
    said = bool(operate(value, "__contains__", item))
    if among is None and said and all(claims(value, other) for other in OTHERS):
        return False
    if among == MOST or said is (among is None):
        decide(value)
    return said


OTHERS = ("7f3a91c0", 10**30 + 7, 10**30 + 8, -0.37)
"""Values that no honest object contains all together."""


def claims(value: Proxy, item: Any) -> bool:
    """Return the answer of the attempt's ``__contains__`` for an item; False if it raises."""
    try:
        return bool(operate(value, "__contains__", item))
    except Exception:
        return False


def text_of(value: Any) -> str:
    """Return a value that must be a string."""
    if type(value) is not str:
        raise TypeError("__str__ returned non-string")
    return value


def next_of(value: Proxy) -> Any:
    """Return the next item of an iterator of the attempt."""
    try:
        return operate(value, "__next__")
    except EndedError:
        raise StopIteration from None


def method(name: str, do: Any = operate) -> Any:
    """Return a special method that the attempt's process executes; with ``observe``, its answers must agree with each other."""
    return lambda value, /, *args, **named: do(value, name, *args, **named)  # pyright: ignore[reportUnknownLambdaType]


def called(value: Proxy, /, *args: Any, **named: Any) -> Any:
    """Call a value of the attempt. A bool from a method of the setup is decided by the attempt, which may have replaced the method."""
    answer = operate(value, "__call__", *args, **named)
    channel, number = object.__getattribute__(value, "_origin")
    if type(answer) is bool and (number in channel.setup_methods or is_of_setup(value, "__call__")):
        decide(value)
    return answer


def truth(value: Proxy) -> Any:
    """Return the truth of a value of the attempt."""
    if is_of_setup(value, "__bool__"):
        decide(value)
    return observe(value, "__bool__")


def is_of_setup(value: Proxy, name: str) -> bool:
    """Return whether a value's class of the setup, or one that it extends, defines a method or property; the attempt does not decide these."""
    defined = getattr(own_class.get(type(value)), name, None)
    code, is_abstract = (
        getattr(getattr(defined, "fget", defined), "__code__", None),
        getattr(defined, "__isabstractmethod__", False),
    )
    return code is not None and "NotImplementedError" not in code.co_names and not is_abstract


def left(value: Proxy, name: str) -> None:
    """Leave a context manager of the attempt. Its return value is dropped, because it could suppress a failed assertion."""
    operate(value, name, None, None, None)


def awaited(name: str) -> Any:
    """Return an asynchronous special method that the attempt's process executes to its end."""

    async def done(value: Proxy, *_: Any) -> Any:
        try:
            return left(value, name) if name == "__aexit__" else operate(value, name)
        except EndedError:
            raise StopAsyncIteration from None

    return done


def between_proxies(name: str) -> Any:
    """Return a special method for two values of the attempt; values of the tests, which may be answers, are never sent.

    The operators of a class of the setup are those of this process, and objects without ``__eq__`` are equal to themselves alone.
    """

    def done(value: Proxy, other: Any) -> Any:
        own = setup_class.get(type(value))
        if own is not None and getattr(own, name, None) is not getattr(object, name, None):
            return getattr(own, name)(value, other)
        if isinstance(other, Proxy) and object.__getattribute__(value, "_origin")[0].shared.reading:
            return value is other  # keys of one dict or set, which differ
        if type(value) in equal_kinds:
            return operator_of(name)(data_of(value), data_of(other))
        if isinstance(other, Proxy):
            if name in EQUALITY and not comparing.intersection((type(value), type(other))):
                return (number_of(value) == number_of(other)) is (name == "__eq__")
            answer = operate(value, name, other)
            if not isinstance(answer, Proxy) and not is_of_fields(value, other, name, answer):
                decide(value)
            return answer
        return combine(value, name, other)

    return done


def in_place(name: str) -> Any:
    """Return an augmented assignment, such as ``+=``, of a value whose class defines it."""

    def done(value: Any, other: Any) -> Any:
        own = setup_class.get(type(value))
        if hasattr(own, name):
            return getattr(own, name)(value, other)
        return operate(value, name, other) if isinstance(other, Proxy) else combine(value, name, other)

    return done


def combine(value: Any, name: str, *others: Any) -> Any:
    """Return the answer of an attempt's operator to a value of the tests; NotImplemented unless operators get such values in this run."""
    channel, _ = object.__getattribute__(value, "_origin")
    never = name in WITHHELD or (name in EQUALITY and isinstance(value, Proxy) and type(value) not in comparing)
    if never or not channel.tells:
        channel.isolated, channel.withheld = type(value).__name__, channel.withheld or not never
        return NotImplemented
    if name in COMPARING:
        return compared(value, name, others[0])
    if name in DIFFERENCES:
        others = (channel.varied(others[0]),)
        channel.deciding.append(channel.places)
    return operate(value, name, *others)


def compared(value: Any, name: str, given: Any) -> Any:
    """Return the attempt's comparison of an object with a value of the tests; NotImplemented if the answer does not depend on that value.

    The value is sent among decoys, in random order. An equal object must differ from all decoys. An order must change for one of them, and be the
    order of one number. If the value itself is a decoy, an object that is equal to any value is equal to it, so that the test may pass.
    """
    channel, number = object.__getattribute__(value, "_origin")
    other, equality, equal = channel.varied(given), name in EQUALITY, name == "__eq__"
    sent = [other, *(decoys(other)[:2] if equality else [*decoys(other), *extremes(other)])]
    if equality and other is not given:
        sent = [one for one in [*sent, *decoys(other)[2:]] if one != given]
    answers: dict[int, Any] = {}
    for place in sorted(range(len(sent)), key=lambda _place: urandom(8)):
        answers[place] = operate(value, name, sent[place])
        if type(answers[place]) is not bool:
            return NotImplemented
        if not equality and not channel.observed.fits(number, sent[place], below=(name[2] == "l") is answers[place]):
            return NotImplemented
    answer, others = answers[0], {answers[place] for place in range(1, len(sent))}
    if not equality:
        return answer if (not answer) in others else NotImplemented
    if other is not given:
        return equal if equal in (answer, *others) else not equal
    if answer is not equal:
        return answer
    channel.deciding.append(channel.places)
    return answer if others == {not equal} else NotImplemented


EQUALITY = COMPARING[:2]


def data_of(value: Any) -> Any:
    """Return the plain data that a value of the tests or of the attempt is equal to; without such data, the value itself."""
    if isinstance(value, Proxy):
        if type(value) not in equal_kinds:
            return value
        channel, number = object.__getattribute__(value, "_origin")
        data = operate(value, "equal")
        channel.observed.compare((number, "equal"), plain(data))
        return data
    return as_builtin(value)


def reflected(name: str) -> Any:
    """Return a special method for a value of the tests on the left of a value of the attempt."""

    def done(value: Proxy, other: Any) -> Any:
        is_data = type(value) in equal_kinds
        return operator_of(name)(other, data_of(value)) if is_data else combine(value, f"__r{name[2:]}", other)

    return done


def comparison(proxy: Proxy) -> dict[str, Any]:
    """Return the members by which an exception with its own ``__eq__`` is compared, as its proxy is; {} for any other exception."""

    def equal(_error: Any, other: Any) -> Any:
        return proxy == getattr(type(other), "_proxy", other)

    return {"_proxy": proxy, "__eq__": equal, "__hash__": lambda _: hash(proxy)} if type(proxy) in comparing else {}  # pyright: ignore[reportUnknownLambdaType]


def is_of_fields(value: Proxy, other: Proxy, name: str, answer: Any) -> bool:
    """Return whether the attempt's answer about two of its objects agrees with a comparison of their attributes as data."""
    if name not in EQUALITY:
        return False
    try:
        fields = operate(value, "fields"), operate(other, "fields")
    except TypeError:  # no attributes
        return False
    return all(type(each) is dict for each in fields) and answer is ((fields[0] == fields[1]) is (name == "__eq__"))


setup_class: dict[type, type] = {}
"""Proxy type -> the class of the setup that its value is an instance of, if exactly that class."""
own_class: dict[type, type] = {}
"""Proxy type -> the class of the setup that its values have or extend."""
equal_kinds: set[type] = set()
"""Proxy types whose values are equal to data (``values.as_builtin``)."""
comparing: set[type] = set()
"""Proxy types whose values have their own ``__eq__`` or ``__ne__``."""
for special in PAIRWISE:
    setattr(Proxy, f"__{special}__", between_proxies(f"__{special}__"))
for special in PAIRWISE[6:]:
    setattr(Proxy, f"__r{special}__", reflected(f"__{special}__"))
ATTRIBUTES = property(lambda value: operate(value, "getattr", "__dict__"))
DOC = property(lambda value: operate(value, "getattr", "__doc__"))
METHODS = {name: method(name) for name in SHOWN} | {
    **{name: method(name, observe) for name in ("__len__", "__getitem__", *CONVERSIONS)},
    "__bool__": truth,
    "__call__": called,
    "__next__": next_of,
    "__iter__": iterate,
    "__contains__": contains,
    "__exit__": lambda value, *_: left(value, "__exit__"),  # pyright: ignore[reportUnknownLambdaType]
    "__anext__": awaited("__anext__"),
    "__aenter__": awaited("__aenter__"),
    "__aexit__": awaited("__aexit__"),
    **{name: in_place(name) for name in IN_PLACE},
}


kinds: dict[tuple[str, ...], Any] = {}
"""Proxy types, by the name of the original type and its special methods."""


def proxy_of(channel: Any, number: int, about: list[Any]) -> Any:
    """Return the proxy for a value of the attempt: an iterator or coroutine of the same type if possible.

    Args:
        channel: connection to the attempt's process.
        number: number of the value.
        about: name of its type, special methods that it has, and class of the setup that it is or extends (empty if there is none).
    """
    name, methods, own = about
    proxy = Proxy(channel, number)
    if name == "generator":
        return generator(proxy)
    if name == "coroutine":
        return coroutine(proxy)
    if name == "map":
        return map(lambda item: item, generator(proxy))  # noqa: C417  the type is what matters
    if name == "filter":
        return filter(lambda _: True, generator(proxy))
    key = (name, own, *methods)
    if key not in kinds:
        kinds[key] = new_kind(name, methods, setups.objects.get(own))
    return kinds[key](channel, number)


def new_kind(name: str, methods: list[str], own: Any) -> type:
    """Return a proxy type; a subclass of ``own`` if ``own`` is a class of the setup."""
    shown = {special: METHODS[special] for special in methods if special in METHODS}
    if "__contains__" in methods and not {"__iter__", "__getitem__"}.isdisjoint(methods):
        shown["__contains__"] = contains_among
    if "__next__" in methods and "__iter__" in methods:
        shown["__iter__"] = method("__iter__")
    if hasattr(own, "__bool__"):
        shown["__bool__"] = truth  # also if the attempt has defined the class without
    kind = type(name, (Proxy,), {"__doc__": DOC, "__dict__": ATTRIBUTES, **shown, **is_instance_of(own)})
    if "__eq__" in methods:
        comparing.add(kind)
    if "equal" in methods:
        equal_kinds.add(kind)
    for base in (base for base in ABSTRACT if base in methods):
        getattr(_collections_abc, base).register(kind)
    if isinstance(own, type):
        own_class[kind] = own
        if own.__name__ == name:
            setup_class[kind] = own
    return kind


def is_instance_of(own: Any) -> dict[str, Any]:
    """Return the attribute by which ``isinstance`` takes an object for an instance of a class."""
    return {"__class__": property(lambda _value: own)} if isinstance(own, type) else {}


def generator(proxy: Proxy) -> Any:
    """Yield the values of a generator of the attempt, and forward sent values and ``close``."""
    try:
        sent = yield operate(proxy, "__next__")
        while True:
            sent = yield operate(proxy, "__next__", *([] if sent is None else [sent]))
    except EndedError as end:
        return end.value
    except GeneratorExit:
        channel, number = object.__getattribute__(proxy, "_origin")
        channel.close(number)
        raise


async def coroutine(proxy: Proxy) -> Any:
    """Await a coroutine that runs in the attempt's process."""
    return operate(proxy, "await")
