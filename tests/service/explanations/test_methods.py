from typing import get_args

from contract.manifest import GRADIENT_METHODS, Method
from service.explanations.methods import METHODS


def test_every_method_has_a_row():
    assert tuple(METHODS) == get_args(Method)


def test_the_methods_with_a_graph_of_their_own_are_those_of_the_manifest():
    assert [method for method, rules in METHODS.items() if rules.by_gradient] == [*GRADIENT_METHODS]
