"""Copies in the tester of the attempt's instances of subclasses of builtin types: each holds the value, and asks for what the subclass defines.

Standard library only. Data is compared here; methods that the subclass overrides are executed in the attempt's process.
"""

from __future__ import annotations

import setups
from operations import ANSWERING, COMBINING, COMPARING, IN_PLACE
from proxies import METHODS, Proxy, combine, decide, is_instance_of, observe, operate, own_class
from values import SCALARS

TYPE_CHECKING = False  # the module typing is not imported: the fewer modules, the faster a fork
if TYPE_CHECKING:
    from typing import Any

__all__ = ["OVERRIDABLE", "TEXTS", "copied_proxy", "is_copied_proxy"]

SUBCLASS_METHODS: dict[str, Any] = {
    **{name: METHODS[name] for name in ("__call__", "__setitem__", "__delitem__", "__next__", "__enter__", "__exit__")},
    "__str__": Proxy.__str__,
    "__repr__": Proxy.__repr__,
    "__missing__": lambda value, key: operate(value, "__getitem__", key),  # pyright: ignore[reportUnknownLambdaType]
}
TEXTS = ("__str__", "__repr__", "__missing__", "__call__")
"""Methods that count as overridden even if a class of the standard library, such as ``Enum``, overrides them."""
OVERRIDABLE = (*SUBCLASS_METHODS, *ANSWERING, *COMBINING, *COMPARING)
"""Special methods of subclasses of builtin types that proxies forward if the subclass overrides them."""
BINARY = frozenset((*COMBINING, *COMPARING))
FORWARDED = ("_replace", "copy")
"""Methods of builtin types whose result is another instance of the subclass."""


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
        if object.__getattribute__(value, "_origin")[0].shared.reading:
            return own(value, *args)  # keys of a dict or set that is being decoded
        is_of_tests = name in BINARY and not (isinstance(args[0], Proxy) or is_copied_proxy(args[0]))
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


def forwarded(name: str) -> Any:
    """Return a property that is a method of the attempt's instance."""
    return property(lambda value: Proxy.__getattr__(value, name))  # pyright: ignore[reportUnknownLambdaType]


def plain_copy(base: Any, value: Any) -> Any:
    """Return the builtin value of an instance of a subclass; none of the subclass's methods runs."""
    if issubclass(base, dict):
        return dict(dict.items(value))
    if hasattr(base, "__iter__") and base is not str:
        return base(base.__iter__(value))
    return getattr(base, f"__{base.__name__}__")(value)


kinds: dict[tuple[str, ...], Any] = {}
"""Types of copies, by the name of the original type, the builtin type and its overridden methods."""


def copied_proxy(proxy: Any, value: Any, about: list[Any]) -> Any:
    """Return the proxy for an instance of a subclass of a builtin type. It holds the value, and asks the attempt's process for other attributes.

    Operators and comparisons are those of the builtin type.
    """
    name, methods, own = about
    kind: Any = type(value)
    if kind is dict and name == "defaultdict":
        from collections import defaultdict as kind
    key = (name, kind.__name__, own, *methods)
    if key not in kinds:
        shown = {name: overriding(name, kind) for name in methods if name in OVERRIDABLE or name[0] != "_"}
        copied = lambda own, _protocol: (same_value, (kind, same_value(kind, own)))  # pyright: ignore[reportUnknownLambdaType] # noqa: E731
        hooks = {
            "__getattr__": Proxy.__getattr__,
            "__setattr__": Proxy.__setattr__,
            "__reduce_ex__": copied,
            "__hash__": kind.__hash__,
        }
        hooks |= {name: forwarded(name) for name in FORWARDED if hasattr(kind, name)}
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
