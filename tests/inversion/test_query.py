"""The query syntax: round trip, normal form, clear errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgfi.errors import QueryError
from sgfi.inversion import Query

numbers = st.integers(0, 2000)
queries = st.builds(
    Query,
    target=st.one_of(st.none(), st.from_regex(r"[a-z_]+[0-9]*(\.[a-z0-9_]+){0,4}", fullmatch=True)),
    channels=st.one_of(st.none(), st.lists(numbers, min_size=1, max_size=12).map(tuple)),
    coords=st.one_of(
        st.none(),
        st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[numbers] * n), min_size=1, max_size=4).map(tuple)),
    ),
).filter(lambda q: q != Query())


@given(queries)
def test_text_and_query_say_the_same(query: Query) -> None:
    assert Query.parse(str(query)) == query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("layer3.1.add", Query("layer3.1.add")),
        ("layer3.1.add:17", Query("layer3.1.add", (17,))),
        ("layer3.1.add:0-2,12", Query("layer3.1.add", (0, 1, 2, 12))),
        ("layer3.1.add:17@2,3", Query("layer3.1.add", (17,), ((2, 3),))),
        ("x@12", Query("x", None, ((12,),))),
        (" x@2,3;4,5 ", Query("x", None, ((2, 3), (4, 5)))),
        (":17", Query(None, (17,))),
        ("@0,0", Query(None, None, ((0, 0),))),
    ],
)
def test_examples(text: str, query: Query) -> None:
    assert Query.parse(text) == query


def test_normal_form() -> None:
    assert str(Query.parse("a:0,1,2,3,7")) == "a:0-3,7"
    assert str(Query.parse("a: 4 , 5")) == "a:4,5"


@pytest.mark.parametrize(
    "text", ["", "  ", "a:", "a:x", "a:5-3", "a:-1", "a:1.5", "a@", "a@1,", "a@1;2,3", "a@1@2", "a:1:2", "a@1:2", "a b"]
)
def test_malformed_text_is_an_error_that_shows_the_syntax(text: str) -> None:
    with pytest.raises(QueryError, match="<node>"):
        Query.parse(text)
