"""Makes the modules of a repository importable from their texts, with an attempt in the place of one of them.

Standard library only: the setup of a task contains the text of this file, and runs in the sandbox before the attempt and before the tests.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

__all__ = ["install"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)  # the fewer modules are imported, the faster an attempt starts


VERSION = "version = __version__ = '0'\nversion_tuple = __version_tuple__ = (0,)\n"
"""Text of a generated ``_version``."""


def loading() -> bool:
    """Return whether the attempt's own statements are being executed."""
    frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame:
        if (frame.f_code.co_filename, frame.f_code.co_name) == ("<attempt>", "<module>"):
            return True
        frame = frame.f_back
    return False


class Package(ModuleType):
    """A package that contains the attempt. Its ``__init__`` runs when one of its names is first used.

    In a normal interpreter ``__init__`` runs first and imports the module that the attempt replaces; here the attempt is loaded first.
    """

    def __getattr__(self, name: str) -> "Any":
        space = self.__dict__
        child = f"{space['__name__']}.{name}"
        children = space.get("__children__", ())
        if child in children and loading():
            return import_module(child)
        if (code := space.pop("__code__", None)) is not None:
            names = {*space}
            try:
                exec(code, space)
            except BaseException as error:
                space["__code__"] = code  # the next use tries again, as an import would
                if not (isinstance(error, ImportError) and loading()):
                    for other in {*space} - names - {"__code__"}:
                        del space[other]
                    raise
                # else it imports a name that the attempt, still loading, has not defined yet
        if name not in space and child in children:
            return import_module(child)
        try:
            return space[name]
        except KeyError:
            raise AttributeError(f"module {space['__name__']!r} has no attribute {name!r}") from None


class Stubs(ModuleType):
    """The attempt's module in the tester's process: it has the functions that the tests call, which are stubs."""

    def __getattr__(self, name: str) -> "Any":
        space = self.__dict__["__stubs__"]
        if name.startswith("__") or name not in space:
            raise AttributeError(name)
        return space[name]


class Finder:
    """Finds and loads modules in a mapping: name -> (path, text)."""

    def __init__(self, modules: "Mapping[str, tuple[str, str]]", attempted: str) -> None:
        """Set the modules, and the name of the module that the attempt replaces."""
        self.modules, self.attempted = modules, attempted

    def is_package(self, name: str) -> bool:
        """Return whether a module is a package: its file is ``__init__.py``, or another module is in it."""
        path = self.modules.get(name, ("",))[0]
        return path.endswith("__init__.py") or any(one.startswith(f"{name}.") for one in (*self.modules, self.attempted))

    def is_generated(self, name: str) -> bool:
        """Return whether a module is ``_version`` of the repository's own package, which its build would write."""
        return name == f"{self.attempted.partition('.')[0]}._version"

    def find_distributions(self, context: "Any") -> "list[Any]":
        """Return the metadata of the repository's own package for ``importlib.metadata``, which an installation would write."""
        from importlib.metadata import Distribution

        own = self.attempted.partition(".")[0]

        class Installed(Distribution):
            def read_text(self, filename: str) -> "str | None":
                return f"Name: {own}\nVersion: 0\n" if filename == "METADATA" else None

            def locate_file(self, path: "Any") -> "Any":
                return path

        return [Installed()] if (context.name or "").lower().replace("-", "_") == own.lower() else []

    def find_spec(self, fullname: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":  # noqa: ARG002
        """Return the spec of a module of the repository; None for any other."""
        if fullname in self.modules or self.is_package(fullname) or self.is_generated(fullname):
            return ModuleSpec(fullname, self, is_package=self.is_package(fullname))  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> "ModuleType | None":
        """Return a ``Package`` for a package that contains the attempt."""
        return Package(spec.name) if self.attempted.startswith(f"{spec.name}.") else None

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module; the code of a ``Package`` is only stored."""
        made = VERSION if self.is_generated(module.__name__) else ""
        path, text = self.modules.get(module.__name__, (module.__name__.replace(".", "/") + "/__init__.py", made))
        code = compile(text, path, "exec", dont_inherit=True)
        module.__file__ = path
        if isinstance(module, Package):
            names = (*self.modules, self.attempted)
            module.__dict__.update(__children__=frozenset(names), __code__=code)
        else:
            exec(code, module.__dict__)


def install(space: "dict[str, Any]", attempted: str, path: str, modules: "Mapping[str, tuple[str, str]]") -> None:
    """Make modules importable; the attempt's namespace becomes that of the module ``attempted``.

    Args:
        space: namespace of the attempt, or of the tests in the tester's process (``__name__`` is then ``tests``).
        attempted: name of the module that the attempt replaces, such as ``pkg.text``.
        path: its file, such as ``src/pkg/text.py``.
        modules: name -> (path, text) of the other modules.
    """
    sys.meta_path.insert(0, Finder(modules, attempted))
    if space["__name__"] == "tests":
        stubs = Stubs(attempted)
        stubs.__dict__.update(__stubs__=space, __path__=[])
        sys.modules[attempted] = stubs
        return
    package = path.endswith("__init__.py")
    space["__package__"] = attempted if package else attempted.rpartition(".")[0]
    if package:
        space["__path__"] = []
    sys.modules[attempted] = sys.modules[space["__name__"]]
    space["__name__"] = attempted
    space["__file__"] = path
