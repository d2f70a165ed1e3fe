import pytest
from door_checks import GATES


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("gate", GATES)
def test_doors_pass(gate: str) -> None:
    GATES[gate]()
