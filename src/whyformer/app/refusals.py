"""What the server says no to: a status, and a sentence that says what to do."""

from __future__ import annotations

import json

from starlette.responses import Response


class RefusalError(Exception):
    """A request that is not answered; ``wait`` is how many seconds later it may be tried again."""

    def __init__(self, status: int, sentence: str, wait: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.wait = status, sentence, wait

    def response(self) -> Response:
        headers = {} if self.wait is None else {"Retry-After": str(self.wait)}
        return json_response({"error": self.sentence}, self.status, headers)


def json_response(
    content: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Plain JSON without another look at every number in it."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode("utf-8", "replace")
    return Response(data, status, headers, media_type="application/json")
