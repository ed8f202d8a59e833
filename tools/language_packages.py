"""Print the Debian packages that the languages need."""

from upsolve.languages import languages

print(*sorted({package for language in languages().values() for package in language.install.split()}))
