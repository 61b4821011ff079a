"""HTML from the templates of this folder: whatever is put into one stays text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from whyformer.render.colour import hexadecimal

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("whyformer.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["hexadecimal"] = hexadecimal
    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = compact
    return environment
