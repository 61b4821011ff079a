"""The API against its own OpenAPI description: whatever is sent, nothing breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyformer.engine import PRESETS
from whyformer.methods import default_methods

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi import checks  # noqa: E402

OPERATIONS = [
    *(("GET", name) for name in ("models", "classes", "methods", "examples", "health")),
    ("GET", "examples/picture"),
    *(("POST", name) for name in ("explain", "blocks", "heads", "erase", "save", "recipe")),
]
OPINIONS = [checks.positive_data_acceptance, checks.negative_data_rejection]
MODES = list(schemathesis.GenerationMode)

#: what no description can tell: names that exist, and one input at a time
LIKELY = st.fixed_dictionaries(
    {"input": st.none(), "pair": st.none(), "model": st.none()},
    optional={
        "preset": st.sampled_from(list(PRESETS)),
        "methods": st.lists(st.sampled_from(default_methods()), max_size=3),
        "targets": st.lists(st.sampled_from([0, 1, "1", -1]), max_size=3),
    },
).flatmap(
    lambda fields: st.one_of(
        st.text(min_size=1, max_size=300).map(
            lambda text: {**fields, "text": text, "example": None}
        ),
        st.sampled_from(["two digits", "joyless"]).map(
            lambda name: {**fields, "text": None, "example": name}
        ),
    )
)


@pytest.fixture(scope="module")
def description(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")


def test_the_description_names_every_operation(description: Any) -> None:
    found = [result.ok() for result in description.get_all_operations()]
    named = {(operation.method.upper(), operation.path) for operation in found}
    assert named == {(method, f"/api/v1/{name}") for method, name in OPERATIONS}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("method", "name"), OPERATIONS)
def test_whatever_is_sent_is_answered_as_described(
    description: Any, method: str, name: str, mode: Any
) -> None:
    """Two checks less than there are: a description cannot tell which names exist, and in a form
    every value is a word.
    """
    operation = description[f"/api/v1/{name}"][method]
    if method == "GET" and mode is schemathesis.GenerationMode.NEGATIVE and not operation.query:
        pytest.skip("there is nothing to get wrong")

    @given(case=operation.as_strategy(generation_mode=mode), likely=st.none() | LIKELY)
    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any, likely: dict[str, Any] | None) -> None:
        is_question = case.media_type == "application/json" and name != "recipe"
        if likely and is_question and isinstance(case.body, dict):
            case.body = {**case.body, **likely}
        case.call_and_validate(excluded_checks=OPINIONS)

    answered()
