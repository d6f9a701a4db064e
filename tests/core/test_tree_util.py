"""Registration of classes, `Partial`, and the functions built on flatten and unflatten."""

import dataclasses
import functools
import operator
from typing import Any

import numpy as np
import pytest

from ftrace import tree, tree_util
from ftrace.core.errors import DtypeError, TreeError
from ftrace.tree_util import (
    DictKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    keystr,
    tree_leaves,
    tree_map,
    tree_structure,
)
from tests.core.trees import Keyed, Pair, Params, Special


class TestRegistration:
    def test_a_class_is_registered_once(self):
        for taken in (list, Special):
            with pytest.raises(TreeError, match=f"{taken.__name__} is already registered"):
                tree_util.register_pytree_node(taken, lambda x: ((), None), lambda d, c: None)

    def test_nonsense_is_refused_and_poisons_nothing(self):
        class Own:
            pass

        def flatten(x):
            return (), None

        node, data = tree_util.register_pytree_node, tree_util.register_dataclass
        values = (int, str, object, np.ndarray, np.float32, type(lambda: 0))
        for wrong in (
            *(lambda cls=cls: node(cls, flatten, flatten) for cls in values),
            lambda: node(int, 1, 2),
            lambda: tree_util.register_static(float),
            lambda: tree_util.register_leaf(dict),
        ):
            with pytest.raises(TreeError):
                wrong()
        for wrong, words in (
            (lambda: node(Own, 1, flatten), "flatten_func of Own must be a function, not 1"),
            (lambda: node(Own, flatten, 2), "unflatten_func of Own must be a function, not 2"),
            (lambda: node(Own, flatten, flatten, 3), "flatten_with_keys_func of Own"),
            (lambda: tree_util.register_pytree_with_keys(Own, 3, flatten), "flatten_with_keys of"),
            (lambda: tree_util.register_pytree_node_class(Own), "tree_flatten of Own must be"),
            (lambda: tree_util.register_pytree_with_keys_class(Own), "tree_flatten_with_keys of"),
            (lambda: tree_util.register_static(3), "this is 3, an object of int"),
            (lambda: data("Own", ["a"], []), "this is 'Own', an object of str"),
            (lambda: data(Own, "ab", []), "named by sequences of strings, not by 'ab'"),
            (lambda: data(Own, ["a"], [1]), r"named by sequences of strings, not by \[1\]"),
        ):
            with pytest.raises(DtypeError, match=words):
                wrong()
        assert tree_leaves([1, (2.0, "a")]) == [1, 2.0, "a"]
        node(Own, flatten, lambda data, children: Own())
        assert tree_leaves(Own()) == []

    def test_registering_after_use_takes_effect(self):
        @dataclasses.dataclass
        class Late:
            x: Any

        class Opaque:
            x = 1

        assert tree_leaves([Late(1), Opaque()])[0] == 1
        tree_util.register_pytree_node(Late, lambda v: ((), v.x), lambda x, _: Late(x))
        tree_util.register_pytree_node(Opaque, lambda v: ((v.x,), None), lambda d, c: Opaque())
        assert tree_leaves([Late(1), Opaque()]) == [1]

    def test_subclasses_are_not_registered_with_their_base(self):
        class Child(Special):
            pass

        child = Child(1, 2)
        assert tree_leaves([child])[0] is child

    @pytest.mark.parametrize("result", ["hello", (2, 3, 4), (7, 7), None])
    def test_a_flatten_function_must_return_a_pair(self, result):
        class Bad:
            pass

        tree_util.register_pytree_node(Bad, lambda x: result, lambda d, c: Bad())
        with pytest.raises(TreeError, match="The flatten function of Bad returned"):
            tree_leaves(Bad())

    def test_keys_given_at_registration_are_used(self):
        pairs, _ = tree_util.tree_flatten_with_path([Keyed(1, (2, 3)), Special(4, 5)])
        texts = [keystr(path) for path, _ in pairs]
        unnamed = ["[1][<flat index 0>]", "[1][<flat index 1>]"]
        assert texts == ["[0].x", "[0].y[0]", "[0].y[1]", *unnamed]

    def test_register_dataclass_takes_fields_of_any_class(self):
        class Layer:
            def __init__(self, w, size):
                self.w, self.size = w, size

        tree_util.register_dataclass(Layer, data_fields=["w"], meta_fields=["size"])
        layer = tree_map(lambda x: x + 1, Layer(1, 7))
        assert (layer.w, layer.size) == (2, 7)

    def test_register_dataclass_decorates_with_the_declared_fields(self):
        @tree_util.register_dataclass
        @dataclasses.dataclass
        class Layer:
            w: Any
            size: int = tree.static()

        assert tree_leaves(Layer(1, 7)) == [1]

    def test_register_dataclass_can_drop_fields(self):
        @functools.partial(
            tree_util.register_dataclass, data_fields=["w"], meta_fields=[], drop_fields=["cache"]
        )
        @dataclasses.dataclass
        class Layer:
            w: Any
            cache: Any = None

        assert vars(tree_map(lambda x: x, Layer(1, [2]))) == {"w": 1}

    @pytest.mark.parametrize(
        ("data", "meta", "phrase"),
        [
            (["w"], [], "do not name each field"),
            (["w", "size"], ["size"], "do not name each field"),
            (["w", "size", "other"], [], "do not name each field"),
            (["w", "size"], None, "Pass both data_fields and meta_fields"),
        ],
    )
    def test_register_dataclass_refuses_incomplete_fields(self, data, meta, phrase):
        @dataclasses.dataclass
        class Layer:
            w: Any
            size: Any

        with pytest.raises(TreeError, match=phrase):
            tree_util.register_dataclass(Layer, data, meta)

    def test_register_dataclass_of_an_unknown_class_needs_fields(self):
        class Unknown:
            pass

        with pytest.raises(TreeError, match="The fields of Unknown are not known"):
            tree_util.register_dataclass(Unknown)

    def test_a_class_and_its_kind_are_looked_up_once(self):
        looked = []

        class Meta(type):
            def __getattribute__(cls, name):
                if name == "__module__":
                    looked.append(name)
                return super().__getattribute__(name)

        class Watched(metaclass=Meta):
            pass

        tree_leaves([Watched(), Watched()])
        first = len(looked)
        tree_leaves([Watched(), Watched()])
        assert first > 0
        assert len(looked) == first


class TestPartial:
    def test_arguments_are_children_and_the_function_is_static(self):
        bound = Partial(operator.sub, 10)
        assert tree_leaves(bound) == [10]
        assert tree_map(lambda x: 2 * x, bound)(1) == 19
        assert tree_structure(Partial(operator.add, 1)) != tree_structure(bound)
        assert tree_structure(Partial(operator.sub, 3.0)) == tree_structure(bound)

    def test_keywords_are_children_too(self):
        bound = Partial(dict, a=1, b=2)
        assert tree_map(lambda x: x + 1, bound)() == {"a": 2, "b": 3}
        pairs, _ = tree_util.tree_flatten_with_path(bound)
        assert [keystr(path) for path, _ in pairs] == [".keywords['a']", ".keywords['b']"]

    def test_an_inner_partial_is_not_merged(self):
        inner = functools.partial(operator.sub, 10)
        bound = Partial(inner, 3)
        assert bound.args == (3,)
        assert bound() == 7
        assert tree_structure(bound) == tree_structure(Partial(inner, 4))
        assert hash(tree_structure(bound)) == hash(tree_structure(Partial(inner, 4)))


class TestMap:
    def test_other_trees_may_have_subtrees_where_the_first_has_leaves(self):
        first, second = ((1, 2), (3,)), (([3], None), ({"foo": "bar"},))
        mapped = tree_map(lambda *xs: xs, first, second)
        assert mapped == (((1, [3]), (2, None)), ((3, {"foo": "bar"}),))

    def test_none_is_an_empty_node(self):
        assert tree_map(lambda x: x + 1, {"a": None, "b": 1}) == {"a": None, "b": 2}

    def test_is_leaf_applies_to_the_first_tree(self):
        mapped = tree_map(lambda x, y: (x, y), [None, 1], [5, 6], is_leaf=lambda x: x is None)
        assert mapped == [(None, 5), (1, 6)]

    def test_map_with_path(self):
        mapped = tree_util.tree_map_with_path(
            lambda path, x, y: f"{keystr(path)}:{x + y}", {"a": (1, 2)}, {"a": (10, 20)}
        )
        assert mapped == {"a": ("['a'][0]:11", "['a'][1]:22")}

    def test_is_leaf_can_take_the_path(self):
        def stops(path, node):
            return path == (DictKey("a"),)

        pairs, treedef = tree_util.tree_flatten_with_path(
            {"a": (1, 2), "b": (3,)}, is_leaf=stops, is_leaf_takes_path=True
        )
        assert [leaf for _, leaf in pairs] == [(1, 2), 3]
        assert treedef == tree_structure({"a": 0, "b": (0,)})
        pairs, _ = tree_util.tree_flatten_with_path([(1, 2)], is_leaf=lambda x: type(x) is tuple)
        assert pairs == [((SequenceKey(0),), (1, 2))]

    def test_leaves_with_path(self):
        assert tree.leaves_with_path(Pair(1, [2])) == [
            ((GetAttrKey("first"),), 1),
            ((GetAttrKey("second"), SequenceKey(0)), 2),
        ]


class TestReductions:
    def test_all(self):
        assert tree.all({"a": True, "b": [1]})
        assert not tree.all({"a": True, "b": [0]})
        assert tree.all(())
        assert not tree.all([None], is_leaf=lambda x: x is None)

    def test_reduce_goes_from_left_to_right(self):
        assert tree.reduce(operator.add, ["a", ("b", {"c": "c"})]) == "abc"
        assert tree.reduce(operator.add, [], 5) == 5
        assert tree.reduce(lambda total, x: total - x, [1, 2], 10) == 7

    def test_reduce_of_nothing_is_an_error(self):
        with pytest.raises(TypeError, match="empty"):
            tree.reduce(operator.add, [])

    @pytest.mark.parametrize("size", range(1, 12))
    def test_associative_reduction_keeps_the_order(self, size):
        letters = [chr(97 + i) for i in range(size)]
        assert tree.reduce_associative(operator.add, letters) == "".join(letters)

    def test_associative_reduction_has_logarithmic_depth(self):
        depth = tree.reduce_associative(lambda a, b: max(a, b) + 1, [0] * 1000)
        assert depth == 10

    def test_associative_reduction_of_nothing_needs_an_identity(self):
        assert tree.reduce_associative(operator.add, (), identity=3) == 3
        with pytest.raises(TreeError, match="without leaves was to be reduced"):
            tree.reduce_associative(operator.add, ())


class TestTranspose:
    def test_turns_a_tree_inside_out(self):
        example = {"a": (1, [2, 3]), "b": (4, [5, 6])}
        outer, inner = tree_structure({"a": 0, "b": 0}), tree_structure((0, [0, 0]))
        expected = ({"a": 1, "b": 4}, [{"a": 2, "b": 5}, {"a": 3, "b": 6}])
        assert tree.transpose(outer, inner, example) == expected
        assert tree.transpose(outer, None, example) == expected

    def test_twice_is_the_identity(self):
        example = [(1, 2, 3), (4, 5, 6)]
        outer, inner = tree_structure([0, 0]), tree_structure((0, 0, 0))
        once = tree.transpose(outer, inner, example)
        assert tree.transpose(inner, outer, once) == example

    def test_without_outer_leaves_the_inner_structure_is_filled_with_empty_ones(self):
        assert tree.transpose(tree_structure([]), tree_structure((0, 0)), []) == ([], [])

    def test_inner_trees_must_agree(self):
        with pytest.raises(TreeError, match=r"at \[1\]: expected a tuple of 2, got a tuple of 3"):
            tree.transpose(tree_structure([0, 0]), None, [(1, 2), (3, 4, 5)])

    def test_the_outer_structure_must_fit(self):
        with pytest.raises(TreeError, match="expected a list of 2, got a tuple of 2"):
            tree.transpose(tree_structure([0, 0]), tree_structure(0), (1, 2))


class TestSingleLevels:
    def test_flatten_one_level(self):
        children, data = tree_util.flatten_one_level({"b": 1, "a": (2,)})
        assert (list(children), data) == ([(2,), 1], ("a", "b"))
        pairs, data = tree_util.flatten_one_level_with_keys(Keyed(1, [2]))
        assert (pairs, data) == ([(GetAttrKey("x"), 1), (GetAttrKey("y"), [2])], None)

    def test_a_leaf_has_no_level(self):
        with pytest.raises(TreeError, match="leaf of type float has no children"):
            tree_util.flatten_one_level(1.0)

    def test_is_tree_node(self):
        nodes = [dict, list, tuple, type(None), Pair, Params, Special, Partial]
        assert [tree_util.is_tree_node(cls) for cls in nodes] == [True] * len(nodes)
        assert not tree_util.is_tree_node(np.ndarray)

    def test_treedef_functions(self):
        treedef = tree_structure(((1, 2, (3, 4)), (5,)))
        assert tree_util.treedef_tuple(tree_util.treedef_children(treedef)) == treedef
        assert tree_util.treedef_tuple([tree_structure(3)]) == tree_structure((3,))
        assert tree_util.treedef_is_leaf(tree_structure(3))
        assert not tree_util.treedef_is_leaf(tree_structure(None))
