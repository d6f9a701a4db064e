"""Pytrees: round trips, structures, paths, prefixes, and the words of the errors."""

import collections
import copy
import dataclasses
import enum
import functools
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftrace import tree, tree_util
from ftrace.core.errors import TreeError
from ftrace.core.tree import LEAF, broadcast_prefix, paths, tree_mismatch
from ftrace.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    keystr,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from tests.core.trees import (
    TREES,
    Frozen,
    Fussy,
    Keyed,
    OnlyStatic,
    Pair,
    Params,
    Special,
    StaticTuple,
    SubPair,
    describe,
)


@pytest.mark.parametrize("example", TREES, ids=describe)
class TestEveryKindOfNode:
    def test_unflatten_undoes_flatten(self, example):
        leaves, treedef = tree_flatten(example)
        assert tree_unflatten(treedef, leaves) == example

    def test_containers_are_new_and_of_the_same_class(self, example):
        again = tree_map(lambda x: x, example)
        assert type(again) is type(example)
        if isinstance(example, (list, dict, Special)):
            assert again is not example

    def test_leaves_can_be_given_by_any_iterable(self, example):
        leaves, treedef = tree_flatten(example)
        assert treedef.unflatten(iter(leaves)) == example

    def test_equal_trees_have_equal_structures_and_hashes(self, example):
        first, second = tree_structure(example), tree_structure(copy.deepcopy(example))
        assert first == second
        assert hash(first) == hash(second)

    def test_a_structure_survives_pickling_and_copying(self, example):
        treedef = tree_structure(example)
        assert pickle.loads(pickle.dumps(treedef)) == treedef
        assert copy.deepcopy(treedef) == treedef

    def test_counts_agree_with_the_leaves(self, example):
        leaves, treedef = tree_flatten(example)
        assert treedef.num_leaves == len(leaves)
        assert treedef.num_nodes == 1 + sum(sub.num_nodes for sub in treedef.children())

    def test_flatten_up_to_itself_gives_the_leaves(self, example):
        leaves, treedef = tree_flatten(example)
        assert treedef.flatten_up_to(example) == leaves

    def test_paths_name_each_leaf_once_and_in_order(self, example):
        pairs, treedef = tree_util.tree_flatten_with_path(example)
        assert [leaf for _, leaf in pairs] == tree_leaves(example)
        assert treedef == tree_structure(example)
        texts = [keystr(path) for path, _ in pairs]
        assert len(set(texts)) == len(texts)

    def test_flattening_until_nothing_agrees_with_flattening(self, example):
        never = tree_flatten(example, is_leaf=lambda x: False)
        assert never == tree_flatten(example)

    def test_it_does_not_differ_from_itself(self, example):
        assert tree_mismatch(example, copy.deepcopy(example)) == ""


class TestStructures:
    def test_printed_form(self):
        example = [(1,), {"a": None}, Pair(1, 2), Params(1, 2), collections.OrderedDict(b=1)]
        assert str(tree_structure(example)) == (
            "PyTreeDef([(*,), {'a': None}, CustomNode(namedtuple[Pair], [*, *]), "
            "CustomNode(Params[('tanh',)], [*, *]), CustomNode(OrderedDict[('b',)], [*])])"
        )

    def test_equal_structures_of_strings_are_the_same_object(self):
        assert tree_structure({"a": (1, 2)}) is tree_structure({"a": (3.0, 4)})
        assert tree_structure(Params(1, 2)) is tree_structure(Params(3, 4))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ((1, 2), [1, 2]),
            ((1, 2), (1, 2, 3)),
            ({"a": 1}, {"b": 1}),
            ({"a": 1}, collections.OrderedDict(a=1)),
            (None, ()),
            (1, (1,)),
            (Pair(1, 2), SubPair(1, 2)),
            (Pair(1, 2), (1, 2)),
            (Params(1, 2), Params(1, 2, "relu")),
            (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=1, a=2)),
            (collections.defaultdict(list, a=1), collections.defaultdict(dict, a=1)),
            (Special(1, 2), Keyed(1, 2)),
            (StaticTuple((1, 2)), StaticTuple((1, 3))),
            (SimpleNamespace(a=1), SimpleNamespace(b=1)),
            (SimpleNamespace(a=1), {"a": 1}),
            (collections.deque([1, 2]), [1, 2]),
            (collections.deque([1, 2]), collections.deque([1, 2], maxlen=2)),
            (collections.deque([1]), collections.deque([1, 2])),
        ],
    )
    def test_different_containers_differ(self, one, other):
        assert tree_structure(one) != tree_structure(other)
        assert tree_mismatch(one, other)

    @pytest.mark.parametrize(
        ("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), (1.0, 2)), (1, "1")]
    )
    def test_static_fields_that_only_compare_equal_are_kept_apart(self, one, other):
        first, second = Params(1, 2, one), Params(1, 2, other)
        assert tree_structure(first) != tree_structure(second)
        for example in (first, second):
            again = tree_map(lambda x: x, example)
            assert type(again.activation) is type(example.activation)
            assert repr(again.activation) == repr(example.activation)

    def test_a_static_nan_equals_itself(self):
        nan = float("nan")
        assert tree_structure(Params(1, 2, nan)) == tree_structure(Params(1, 2, -nan))

    def test_keys_that_only_compare_equal_come_back_as_they_were(self):
        for example in ({1: "a"}, {True: "a"}, {1.0: "a"}):
            assert repr(tree_map(lambda x: x, example)) == repr(example)

    def test_a_dict_gives_its_leaves_in_the_order_of_its_sorted_keys(self):
        assert tree_leaves({"b": 1, "a": 2}) == [2, 1]
        assert tree_leaves(collections.OrderedDict([("b", 1), ("a", 2)])) == [1, 2]

    def test_namespaces_and_deques_are_containers_and_come_back_as_they_were(self):
        example = SimpleNamespace(b=1, a=collections.deque([2, 3], maxlen=5))
        leaves, treedef = tree_flatten(example)
        assert leaves == [2, 3, 1]
        assert str(treedef) == "PyTreeDef(namespace(a=CustomNode(deque[5], [*, *]), b=*))"
        for t in (treedef, pickle.loads(pickle.dumps(treedef))):
            assert repr(t.unflatten(leaves)) == repr(example)
        assert paths(treedef, "p") == ["p.a[0]", "p.a[1]", "p.b"]
        assert tree_structure(SimpleNamespace(a=1, b=2)) == tree_structure(
            SimpleNamespace(b=2, a=1)
        )

    def test_the_difference_of_namespaces_and_deques_in_words(self):
        one, other = SimpleNamespace(a=1, b=2), SimpleNamespace(a=1, c=2)
        assert "a SimpleNamespace with other names: missing b; unexpected c" in tree_mismatch(
            one, other
        )
        assert "got a SimpleNamespace with names a, b" in tree_mismatch([1], one)
        assert "got a SimpleNamespace without names" in tree_mismatch([1], SimpleNamespace())
        assert "got a deque of 1 and at most 3" in tree_mismatch((), collections.deque([1], 3))

    @pytest.mark.parametrize("cls", [dict, functools.partial(collections.defaultdict, list)])
    def test_a_dict_keeps_its_order_and_equal_structures_may_differ_in_it(self, cls):
        mixed, ordered = ([{"k": cls(a), "j": 0}] for a in ({"b": 1, "a": 2}, {"a": 2, "b": 1}))
        for given_ in (mixed, ordered, mixed):
            treedef = tree_structure(given_)
            for t in (treedef, pickle.loads(pickle.dumps(treedef))):
                made = t.unflatten([0, 2, 1])[0]
                assert made == given_[0]
                assert list(made) == ["k", "j"]
                assert list(made["k"]) == list(given_[0]["k"])
        first, second = tree_structure(mixed), tree_structure(ordered)
        assert first == second
        assert hash(first) == hash(second)
        assert first.order != second.order
        assert first.order == tree_structure(mixed).order is not None
        assert tree_structure({"a": 1, "b": [2]}).order is None
        assert tree_structure({2: 0, 1: 0}) == tree_structure({1: 0, 2: 0})
        assert tree_structure({2: 0, 1: 0}) != tree_structure({2: 0, True: 0})

    def test_compose_puts_a_structure_at_every_leaf(self):
        outer, inner = tree_structure((1, None, [2])), tree_structure({"a": 1, "b": 2})
        expected = tree_structure(({"a": 1, "b": 2}, None, [{"a": 1, "b": 2}]))
        assert outer.compose(inner) == expected

    def test_node_data_names_the_class_and_the_static_data(self):
        assert tree_structure({"a": 1}).node_data() == (dict, ("a",))
        assert tree_structure(1.0).node_data() is None

    def test_a_structure_is_not_equal_to_other_objects(self):
        assert tree_structure(()) != ()

    def test_more_structures_than_the_table_holds_stay_equal(self):
        first = tree_structure({"first": 1})
        for number in range(5000):
            tree_structure({f"key{number}": (1, 2)})
        assert tree_structure({"first": 2}) == first
        assert hash(tree_structure({"first": 2})) == hash(first)

    def test_the_structure_of_unhashable_static_data_works_until_it_is_hashed(self):
        example = [Params(1, 2, ["a", "list"])]
        leaves, treedef = tree_flatten(example)
        assert treedef.unflatten(leaves) == example
        with pytest.raises(TreeError, match=r"\['a', 'list'\],\) of a Params cannot be hashed"):
            hash(treedef)

    def test_static_arrays_cannot_be_compared(self):
        one, other = (tree_structure(Params(1, 2, np.ones(2))) for _ in range(2))
        with pytest.raises(TreeError, match="class ndarray cannot be compared"):
            one == other  # noqa: B015


class TestLeaves:
    @pytest.mark.parametrize(
        "leaf",
        [1, 2.5, "text", b"bytes", {1, 2}, np.ones(2), np.float64(1.0), range(3), object(), int],
        ids=lambda leaf: type(leaf).__name__,
    )
    def test_everything_else_is_a_leaf(self, leaf):
        assert tree_leaves(leaf)[0] is leaf
        assert tree_structure(leaf) is LEAF

    def test_subclasses_of_containers_are_leaves(self):
        class MyList(list):
            pass

        class MyDict(dict):
            pass

        for leaf in (MyList([1]), MyDict(a=1)):
            assert tree_leaves([leaf]) == [leaf]

    def test_dataclasses_themselves_and_enums_are_leaves(self):
        class Colour(Params, enum.Enum):
            RED = (1, 2)

        assert tree_leaves([Params, Colour.RED]) == [Params, Colour.RED]

    def test_own_records_are_leaves(self):
        assert tree_leaves(SequenceKey(1)) == [SequenceKey(1)]

    def test_register_leaf_opts_a_dataclass_out(self):
        @tree_util.register_leaf
        @dataclasses.dataclass
        class Config:
            rate: float

        config = Config(0.1)
        assert tree_leaves((config, 1)) == [config, 1]

    def test_is_leaf_stops_above_containers_and_at_none(self):
        assert tree_leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
        stop_at_tuples = tree_flatten([(1, 2), [3]], is_leaf=lambda x: type(x) is tuple)
        assert stop_at_tuples == ([(1, 2), 3], tree_structure([0, [0]]))

    def test_is_leaf_sees_the_root_first(self):
        seen = []
        tree_leaves([(1,)], is_leaf=lambda x: seen.append(x) is not None)
        assert seen == [[(1,)], (1,), 1]

    def test_all_leaves(self):
        assert tree_util.all_leaves([1, "a", np.ones(2)])
        assert not tree_util.all_leaves([1, None])
        assert tree_util.all_leaves([(1,)], is_leaf=lambda x: isinstance(x, tuple))


class TestDataclasses:
    def test_constructors_are_not_run(self):
        mapped = tree_map(float, Fussy(1))
        assert mapped.x == 1.0
        assert type(mapped.x) is float

    def test_fields_without_init_are_children(self):
        assert tree_leaves(Frozen(3)) == [3, 6]
        assert tree_map(lambda x: x + 1, Frozen(3)).doubled == 7

    def test_a_field_that_was_never_set_is_named(self):
        broken = object.__new__(Params)
        with pytest.raises(TreeError, match="'Params' object has no attribute 'w'"):
            tree_leaves(broken)

    def test_undecorated_subclasses_inherit_the_fields(self):
        class Child(Params):
            def twice(self) -> Any:
                return 2 * self.w

        assert tree_map(lambda x: x + 1, Child(1, 2)).twice() == 4

    def test_classes_with_attrs_fields_need_no_registration(self):
        @dataclasses.dataclass
        class Attribute:
            name: str
            metadata: dict[str, bool]

        class Model:
            __attrs_attrs__ = (Attribute("w", {}), Attribute("size", {"static": True}))

        model = Model()
        model.w, model.size = 1.0, 3
        doubled = tree_map(lambda x: 2 * x, model)
        assert (doubled.w, doubled.size) == (2.0, 3)

    def test_static_keeps_other_metadata(self):
        (field,) = dataclasses.fields(OnlyStatic)
        assert field.metadata == {"unit": "m", "static": True}


class TestPrefixes:
    def test_leaves_are_repeated_below(self):
        assert tree.broadcast((1, 2), (0, {"a": 0, "b": (0, 0)})) == (1, {"a": 2, "b": (2, 2)})
        assert tree.broadcast(7, [0, (0,), None]) == [7, (7,), None]

    def test_none_can_be_a_leaf_of_the_prefix(self):
        axes = broadcast_prefix((None, 0), ((1, 2), 3), is_leaf=lambda x: x is None)
        assert axes == [None, None, 0]

    def test_an_error_names_the_place(self):
        with pytest.raises(TreeError, match=r"at in_axes\[1\]: expected a list of 1, got a leaf"):
            broadcast_prefix((0, [1]), (1.0, 2.0), name="in_axes")

    @pytest.mark.parametrize(
        ("expected", "actual", "words"),
        [
            ([1, 2], [7], "at the root: expected a list of 2, got a list of 1"),
            ((1,), [1], "at the root: expected a tuple of 1, got a list of 1"),
            ([[1]], [7.0], "at [0]: expected a list of 1, got a leaf of type float"),
            (None, 3, "at the root: expected None, got a leaf of type int"),
            ({"w": Pair(1, None)}, {"w": Pair(1, 2)}, "at ['w'].second: expected None, got a leaf"),
            ({"w": 1}, [1], "at the root: expected a dict with keys 'w', got a list of 1"),
            ({}, [1], "at the root: expected a dict without keys, got a list of 1"),
            ([{"a": 1, "b": 1}], [{"a": 1, "c": 1, "d": 1}], "missing 'b'; unexpected 'c', 'd'"),
            ({"a": 1}, {}, "at the root: a dict with other keys: missing 'a'"),
            (
                collections.OrderedDict(a=1, b=2),
                collections.OrderedDict(b=1, a=2),
                "expected an OrderedDict with keys 'a', 'b', got an OrderedDict with keys 'b', 'a'",
            ),
            (Params(1, [2]), Params(1, (2,)), "at .b: expected a list of 1, got a tuple of 1"),
            (
                Params(1, 2, "relu"),
                Params(1, 2),
                "expected a Params with static data ('relu',), got a Params with static data",
            ),
            (Special(1, [2]), Special(1, ()), "at [<flat index 1>]: expected a list of 1"),
        ],
    )
    def test_mismatches_are_said_in_words(self, expected, actual, words):
        with pytest.raises(TreeError) as caught:
            tree_map(lambda *xs: xs, expected, actual)
        assert words in str(caught.value)
        assert "test_tree.py" in str(caught.value)

    def test_tree_mismatch_gives_the_first_difference(self):
        words = tree_mismatch({"a": 1, "w": (1, 2)}, {"a": 2, "w": [1, 2, 3]}, "params")
        assert words.startswith("at params['w']: expected a tuple of 2, got a list of 3; the trees")

    def test_tree_mismatch_wants_leaves_at_leaves(self):
        words = tree_mismatch([1], [(1,)])
        assert words == "at [0]: expected a leaf, got a tuple of 1; the trees are [*] and [(*,)]"

    def test_tree_mismatch_accepts_structures(self):
        assert tree_mismatch(tree_structure([1]), [1]) == ""
        assert tree_mismatch(tree_structure([1]), tree_structure([])).startswith("at the root")


class TestPaths:
    def test_paths_of_a_structure(self):
        treedef = tree_structure(({"w": Params(1, [2, 3])}, Special(4, 5)))
        assert paths(treedef, "args") == [
            "args[0]['w'].w",
            "args[0]['w'].b[0]",
            "args[0]['w'].b[1]",
            "args[1][<flat index 0>]",
            "args[1][<flat index 1>]",
        ]
        assert paths(tree_structure(1.0), "x") == ["x"]

    def test_paths_through_every_builtin_container(self):
        example = [collections.OrderedDict(a=1), collections.defaultdict(int, {1: 2}), Pair(3, 4)]
        assert paths(tree_structure(example)) == ["[0]['a']", "[1][1]", "[2].first", "[2].second"]

    def test_keystr(self):
        path = (SequenceKey(0), DictKey("a"), GetAttrKey("b"), FlattenedIndexKey(2), "plain")
        assert keystr(path) == "[0]['a'].b[<flat index 2>]plain"
        assert keystr(path, simple=True, separator="/") == "0/a/b/2/plain"
        assert keystr(path[:2], separator="/") == "[0]/['a']"

    def test_keys_print_their_fields(self):
        assert repr(SequenceKey(0)) == "SequenceKey(idx=0)"
        assert repr(DictKey("a")) == "DictKey(key='a')"
        assert repr(GetAttrKey("b")) == "GetAttrKey(name='b')"


class TestErrors:
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_unflatten_counts_the_leaves(self, count):
        with pytest.raises(TreeError, match=f"with 2 leaves was to be made from {count}"):
            tree_structure([1, [2]]).unflatten([0] * count)

    def test_a_leaf_takes_one_value(self):
        with pytest.raises(TreeError, match="with 1 leaves was to be made from 2"):
            LEAF.unflatten([1, 2])

    def test_keys_that_cannot_be_sorted_are_named(self):
        with pytest.raises(TreeError, match=r"must be sortable, got \[1, 'a'\]"):
            tree_leaves([{1: 0, "a": 0}])
        assert tree_leaves(collections.OrderedDict([(1, 0), ("a", 5)])) == [0, 5]

    def test_flattening_keeps_nothing_alive(self):
        class Thing:
            pass

        thing = Thing()
        alive = weakref.ref(thing)
        treedef = tree_structure({"thing": [thing]})
        del thing
        assert alive() is None
        assert treedef.num_leaves == 1


names = st.text("abc", min_size=1, max_size=2)


def extend(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(names, children, max_size=3),
        st.dictionaries(names, children, max_size=3).map(collections.OrderedDict),
        st.builds(Pair, children, children),
        st.builds(Params, children, children, names),
        st.builds(Special, children, children),
        st.none(),
    )


trees = st.recursive(st.integers(), extend, max_leaves=12)


class TestLaws:
    @given(trees)
    def test_flatten_and_unflatten_are_inverse(self, example):
        leaves, treedef = tree_flatten(example)
        assert treedef.unflatten(leaves) == example
        assert tree_flatten(treedef.unflatten(leaves)) == (leaves, treedef)

    @given(trees)
    def test_map_composes(self, example):
        two_steps = tree_map(lambda x: x + 1, tree_map(lambda x: 2 * x, example))
        assert tree_map(lambda x: 2 * x + 1, example) == two_steps

    @given(trees, trees)
    def test_structures_are_equal_exactly_if_no_difference_is_found(self, one, other):
        same = tree_structure(one) == tree_structure(other)
        assert same == (tree_mismatch(one, other) == "")
        if same:
            assert hash(tree_structure(one)) == hash(tree_structure(other))
            assert str(tree_structure(one)) == str(tree_structure(other))

    @given(trees, trees)
    def test_a_tree_is_a_prefix_of_itself_with_subtrees_for_leaves(self, outer, inner):
        full = tree_map(lambda x: inner, outer)
        treedef = tree_structure(outer)
        assert treedef.flatten_up_to(full) == [inner] * treedef.num_leaves
        assert treedef.compose(tree_structure(inner)) == tree_structure(full)
        size = tree_structure(inner).num_leaves
        expected = [leaf for leaf in tree_leaves(outer) for _ in range(size)]
        assert broadcast_prefix(outer, full) == expected

    @given(trees)
    def test_every_path_leads_to_its_leaf(self, example):
        def follow(node, key):
            if isinstance(key, GetAttrKey):
                return getattr(node, key.name)
            if isinstance(key, FlattenedIndexKey):
                return (node.x, node.y)[key.key]
            return node[key.idx if isinstance(key, SequenceKey) else key.key]

        pairs, treedef = tree_util.tree_flatten_with_path(example)
        assert [functools.reduce(follow, path, example) for path, _ in pairs] == [
            leaf for _, leaf in pairs
        ]
        assert [keystr(path) for path, _ in pairs] == paths(treedef)


def test_results_of_scipy_stats_are_trees() -> None:
    import scipy.stats

    found = scipy.stats.linregress([1.0, 2.0, 3.0], [1.0, 2.5, 2.0])
    leaves, tree = tree_flatten(found)
    assert len(leaves) == 6
    doubled = tree_unflatten(tree, [2 * x for x in leaves])
    assert type(doubled) is type(found)
    assert doubled.slope == 2 * found.slope
    assert doubled.intercept_stderr == 2 * found.intercept_stderr
    tested = scipy.stats.ttest_1samp([1.0, 2.0, 4.0], 1.5)
    again = tree_unflatten(*reversed(tree_flatten(tested)))
    assert again.confidence_interval(0.9) == tested.confidence_interval(0.9)
