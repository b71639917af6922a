"""The version is the program's, which the project's CMakeLists.txt says; a wheel of tools/package holds the program."""

import pathlib
import re

from setuptools import setup
from setuptools.dist import Distribution

here = pathlib.Path(__file__).resolve().parent
program = here / "stagecraft" / "_program"


def version():
    for folder in here.parents:
        file = folder / "CMakeLists.txt"
        found = re.search(r"project\(stagecraft VERSION ([0-9.]+)", file.read_text()) if file.exists() else None
        if found:
            return found[1]
    return (here / "VERSION").read_text().strip()


class WithProgram(Distribution):
    """A wheel with the program in it is for one kind of machine, and for every Python 3."""

    def has_ext_modules(self):
        return program.exists()


setup(version=version(), distclass=WithProgram)
