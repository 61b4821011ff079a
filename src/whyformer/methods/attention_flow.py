"""Attention flow (Abnar and Zuidema 2020): the maximum flow through the attention graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    import numpy as np

#: capacities are whole numbers to the solver: attention in units of this
RESOLUTION = 2**20


@register(
    "attention_flow",
    "maximum flow from each token to the output through the attention graph: slow "
    "(Abnar and Zuidema 2020)",
    class_specific=False,
    on_request=True,
    facts=Facts(
        "Abnar and Zuidema", 2020, "1 F, a maximum flow a token", "attention", works="one sequence"
    ),
)
def attention_flow(question: Question, *, progress: bool = False) -> Answer:
    """Max flow to every token, with (I + E_h A) / 2 as the capacities between the blocks."""
    import torch
    from tqdm.auto import tqdm

    layers = [attention.mean(1).double().cpu().numpy() for attention in question.attention]
    question.needs_one_sequence("attention_flow")
    rows = question.rows.double().cpu().numpy()
    batch, tokens = rows.shape
    flows = torch.zeros(batch, tokens, dtype=torch.float64)
    with tqdm(
        total=batch * tokens, desc="attention flow", unit="token", disable=not progress
    ) as bar:
        for sample in range(batch):
            graph = _graph([layer[sample] for layer in layers], rows[sample])
            for token in range(tokens):
                flows[sample, token] = _flow(graph, token)
                bar.update()
    return Answer(flows.to(question.attention[-1]))


def _graph(layers: list[np.ndarray], rows: np.ndarray):  # type: ignore[no-untyped-def]
    """Nodes: tokens * block for every side of every block, input first; then the source."""
    import numpy as np
    from scipy.sparse import coo_array

    tokens = len(rows)
    upper, lower, capacity = [], [], []
    for block, layer in enumerate(layers):
        mixed = (layer + np.eye(tokens)) / 2
        i, j = mixed.nonzero()
        upper.append(i + tokens * (block + 1))
        lower.append(j + tokens * block)
        capacity.append(mixed[i, j])
    source = tokens * (len(layers) + 1)
    pooled = rows.nonzero()[0]
    upper.append(np.full(len(pooled), source))
    lower.append(pooled + tokens * len(layers))
    capacity.append(rows[pooled])
    whole = np.rint(np.concatenate(capacity) * RESOLUTION).astype(np.int32)
    edges = (np.concatenate(upper).astype(np.int32), np.concatenate(lower).astype(np.int32))
    return coo_array((whole, edges), shape=(source + 1, source + 1)).tocsr()


def _flow(graph, token: int) -> float:  # type: ignore[no-untyped-def]
    from scipy.sparse.csgraph import maximum_flow

    return float(maximum_flow(graph, graph.shape[0] - 1, token).flow_value) / RESOLUTION
