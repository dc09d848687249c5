"""Which module stands under the name pynvml."""

from types import ModuleType

import pynvml
import pytest

from rightslice.exporter.host.nvml.binding import NEEDED, wrong_binding_text


def module(*names: str) -> ModuleType:
    """Give a module of the name pynvml that has these names."""
    other = ModuleType("pynvml")
    other.__file__ = "/opt/packages/pynvml.py"
    for name in names:
        setattr(other, name, object())
    return other


def test_the_binding_that_is_installed_is_the_right_one() -> None:
    assert wrong_binding_text() == ""
    assert wrong_binding_text(pynvml) == ""


def test_a_module_with_all_that_is_needed_is_right() -> None:
    assert wrong_binding_text(module(*NEEDED)) == ""


@pytest.mark.parametrize("lacking", NEEDED)
def test_a_module_that_lacks_something_is_named_with_what_to_do(lacking: str) -> None:
    other = module(*(name for name in NEEDED if name != lacking))

    assert wrong_binding_text(other) == (
        f"the module pynvml at /opt/packages/pynvml.py is not of nvidia-ml-py 13.595 or later: it "
        f"has no {lacking}; install nvidia-ml-py>=13.595, after uninstalling any other package "
        "that brings a module of this name"
    )
