"""A holder is called by namespace and pod, as far as they are known."""

from dataclasses import replace

import pytest
from support.usage import holder

from rightslice.profile.usage import Holder


@pytest.mark.parametrize(
    ("held", "name"),
    [
        pytest.param(holder(), "serving/chat-0", id="pod"),
        pytest.param(replace(holder(), namespace=""), "chat-0", id="no namespace"),
        pytest.param(replace(holder(), namespace="", pod=""), "", id="nothing known"),
    ],
)
def test_a_holder_is_named_by_what_is_known_of_it(held: Holder, name: str) -> None:
    assert str(held) == name
