"""Proxies in the tester for values of the attempt that are not plain data: functions, objects, iterators, coroutines.

Standard library only. An operation on a proxy is executed in the attempt's process, and only data comes back. Comparisons with a value of the tests
are not decided there: a proxy equals no plain value. Answers of one object must agree, as answers of plain data do.
"""

from __future__ import annotations

import _collections_abc
import operator

import setups
from observations import MOST
from operations import ANSWERING, COMBINING, CONVERSIONS, IN_PLACE, PAIRWISE, SENT, SHOWN
from values import ABSTRACT, QUESTIONS, SCALARS, as_builtin, plain

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "OVERRIDABLE",
    "TEXTS",
    "EndedError",
    "Proxy",
    "comparison",
    "copied_proxy",
    "is_copied_proxy",
    "number_of",
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
            return getattr(operator, name)(data_of(value), data_of(other))
        if isinstance(other, Proxy):
            if name in ("__eq__", "__ne__") and not comparing.intersection((type(value), type(other))):
                return (number_of(value) == number_of(other)) is (name == "__eq__")
            answer = operate(value, name, other)
            if not isinstance(answer, Proxy) and not is_of_fields(value, other, name, answer):
                decide(value)
            return answer
        return combine(value, name, other)

    return done


def combine(value: Any, name: str, *others: Any) -> Any:
    """Return the answer of an attempt's operator that may receive a value of the tests; NotImplemented for others, comparisons and differences."""
    channel, _ = object.__getattribute__(value, "_origin")
    if channel.tells and name in SENT:
        return operate(value, name, *others)
    channel.isolated, channel.withheld = type(value).__name__, channel.withheld or name in SENT
    return NotImplemented


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
        return getattr(operator, name)(other, data_of(value)) if is_data else combine(value, f"__r{name[2:]}", other)

    return done


def comparison(proxy: Proxy) -> dict[str, Any]:
    """Return the members by which an exception with its own ``__eq__`` is compared, as its proxy is; {} for any other exception."""

    def equal(_error: Any, other: Any) -> Any:
        return proxy == getattr(type(other), "_proxy", other)

    return {"_proxy": proxy, "__eq__": equal, "__hash__": lambda _: hash(proxy)} if type(proxy) in comparing else {}  # pyright: ignore[reportUnknownLambdaType]


def is_of_fields(value: Proxy, other: Proxy, name: str, answer: Any) -> bool:
    """Return whether the attempt's answer about two of its objects agrees with a comparison of their attributes as data."""
    if name not in ("__eq__", "__ne__"):
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
}
SUBCLASS_METHODS: dict[str, Any] = {
    **{name: METHODS[name] for name in ("__call__", "__setitem__", "__delitem__", "__next__", "__enter__", "__exit__")},
    "__str__": Proxy.__str__,
    "__repr__": Proxy.__repr__,
    "__missing__": lambda value, key: operate(value, "__getitem__", key),  # pyright: ignore[reportUnknownLambdaType]
}
TEXTS = ("__str__", "__repr__", "__missing__", "__call__")
"""Methods that count as overridden even if a class of the standard library, such as ``Enum``, overrides them."""
OVERRIDABLE = (*SUBCLASS_METHODS, *ANSWERING, *COMBINING)
"""Special methods of subclasses of builtin types that proxies forward if the subclass overrides them."""


def overriding(name: str, base: Any) -> Any:
    """Return the member of a proxy that stands for a method which a subclass of ``base`` overrides.

    The attempt decides (``decide``) if the override contradicts the method of ``base``.
    """
    if name in SUBCLASS_METHODS:
        return SUBCLASS_METHODS[name]
    if not name.startswith("__"):
        return property(lambda value: public_method(value, name, base))  # pyright: ignore[reportUnknownLambdaType]
    own = getattr(base, name, lambda *_: NotImplemented)  # pyright: ignore[reportUnknownLambdaType]

    def done(value: Any, *args: Any) -> Any:
        is_of_tests = name in COMBINING and not (isinstance(args[0], Proxy) or is_copied_proxy(args[0]))
        if is_of_tests and (answer := combine(value, name, *args)) is not NotImplemented:
            return answer
        try:
            known = own(value, *args) if is_of_tests or name not in IN_PLACE else NotImplemented
        except Exception:
            known = NotImplemented
        if is_of_tests:
            return known
        answer = observe(value, name, *args)
        if known is not NotImplemented and not (type(answer) in SCALARS and type(answer) is type(known) and answer == known):
            decide(value)
        return answer

    return done


def public_method(value: Any, name: str, base: Any) -> Any:
    """Return a public method of an instance of a subclass of ``base``; the attempt decides (``decide``) if its result contradicts the builtin type's."""
    found: Any = Proxy.__getattr__(value, name)
    if not isinstance(found, Proxy):
        return found

    def call(*args: Any, **named: Any) -> Any:
        plain_value = plain_copy(base, value)
        answer: Any = found(*args, **named)  # pyright: ignore[reportCallIssue]
        try:
            known = getattr(plain_value, name)(*args) if all(type(given) in SCALARS for given in args) else None
        except Exception:
            known = answer
        if answer is not None and (named or known != answer):
            decide(value)
        return answer

    return call


def plain_copy(base: Any, value: Any) -> Any:
    """Return the builtin value of an instance of a subclass; none of the subclass's methods runs."""
    if issubclass(base, dict):
        return dict(dict.items(value))
    if hasattr(base, "__iter__") and base is not str:
        return base(base.__iter__(value))
    return getattr(base, f"__{base.__name__}__")(value)


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


def copied_proxy(proxy: Any, value: Any, about: list[Any]) -> Any:
    """Return the proxy for an instance of a subclass of a builtin type. It holds the value, and asks the attempt's process for other attributes.

    Operators and comparisons are those of the builtin type.
    """
    name, methods, own = about
    kind: Any = type(value)
    if kind is dict and name == "defaultdict":
        from collections import defaultdict as kind
    key = (name, kind.__name__, own, *methods, "like")
    if key not in kinds:
        shown = {name: overriding(name, kind) for name in methods if name in OVERRIDABLE or name[0] != "_"}
        copied = lambda own, _protocol: (same_value, (kind, same_value(kind, own)))  # pyright: ignore[reportUnknownLambdaType] # noqa: E731
        hooks = {"__getattr__": Proxy.__getattr__, "__setattr__": Proxy.__setattr__, "__reduce_ex__": copied}
        base = setups.objects.get(own)
        kinds[key] = type(name, (kind,), {**hooks, **shown, **is_instance_of(base)})
        if isinstance(base, type):
            own_class[kinds[key]] = base
    copied = same_value(kinds[key], value)
    object.__setattr__(copied, "_origin", object.__getattribute__(proxy, "_origin"))
    return copied


def is_copied_proxy(value: Any) -> bool:
    """Return whether a value is a proxy made by ``copied_proxy``."""
    return type(value).__dict__.get("__getattr__") is Proxy.__getattr__


def same_value(kind: Any, value: Any) -> Any:
    """Return an instance of a type that has the value of another instance."""
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make(value)
    return kind(None, value) if hasattr(kind, "default_factory") else kind(value)


def generator(proxy: Proxy) -> Any:
    """Yield the values of a generator of the attempt, and forward sent values."""
    try:
        sent = yield operate(proxy, "__next__")
        while True:
            sent = yield operate(proxy, "__next__", *([] if sent is None else [sent]))
    except EndedError as end:
        return end.value


async def coroutine(proxy: Proxy) -> Any:
    """Await a coroutine that runs in the attempt's process."""
    return operate(proxy, "await")
