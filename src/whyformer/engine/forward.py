"""The model's output as a function of its input, for methods that vary the input itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from whyformer.engine.calls import function_name
from whyformer.engine.following import tensors_in
from whyformer.engine.multiplying import by_onednn
from whyformer.engine.outputs import Output, as_output, check_samples
from whyformer.engine.precision import CASTS, full_precision, widen, widen_cast
from whyformer.errors import InputError, ModelError


class Forward:
    """The output by the pixels, the features, or the embeddings of a text's token ids.

    ``root`` is that input as it was recorded. ``sides`` are the tensors given beside it that have
    a row for every sample, such as token ids and masks: they are arguments too, so that more rows
    than were recorded can go through at once.
    """

    def __init__(
        self,
        model: nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        root: Tensor,
        batch: int,
        lookup: int | None,
        output: Output = None,
    ) -> None:
        """``lookup``: for texts, which of the forward's embedding calls reads the token ids."""
        self._model, self._lookup, self._output = model, lookup, output
        self._leaves, self._spec = tree_flatten((list(args), dict(kwargs)))
        tensors = {i: leaf for i, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)}
        self._own = next((i for i, leaf in tensors.items() if leaf is root), None)
        self._places = [
            i for i, leaf in tensors.items() if i != self._own and leaf.shape[:1] == (batch,)
        ]
        self._versions = {i: leaf._version for i, leaf in tensors.items()}
        self._root, self._batch = root.detach(), batch

    def refuse_changed(self) -> None:
        """The inputs have to be what was recorded."""
        for place, version in self._versions.items():
            if self._leaves[place]._version != version:
                raise InputError(
                    "the inputs were changed in place after they were recorded; record them again"
                )

    @property
    def root(self) -> Tensor:
        self.refuse_changed()
        if self._root.shape[:1] != (self._batch,):
            raise ModelError(
                f"the input enters as {tuple(self._root.shape)}, whose first axis is not the batch "
                f"of {self._batch}: methods that vary the input cannot tell the samples apart"
            )
        return self._root

    @property
    def sides(self) -> tuple[Tensor, ...]:
        return tuple(self._leaves[place].detach() for place in self._places)

    def __call__(self, root: Tensor, *sides: Tensor) -> Tensor:
        root = root.clone()  # the model may write into what it is given
        leaves = list(self._leaves)
        for place, side in zip(self._places, sides, strict=True):
            leaves[place] = side
        if self._own is not None:
            leaves[self._own] = root
        args, kwargs = tree_unflatten(leaves, self._spec)
        tracked = torch.is_grad_enabled()
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(tracked),
            full_precision(root),
            Replay(root, self._lookup),
        ):
            output = self._model(*args, **kwargs)
        return check_samples(as_output(output, self._output), len(root))


class Replay(TorchFunctionMode):
    """Runs a forward as it was recorded: single precision at least, with given embeddings."""

    def __init__(self, embeddings: Tensor, lookup: int | None) -> None:
        super().__init__()
        self._embeddings, self._lookup = embeddings, lookup
        self._lookups = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        if name == "embedding":
            self._lookups += 1
            if self._lookups - 1 == self._lookup:
                return self._embeddings
        tensors = list(tensors_in((*args, *kwargs.values())))
        if name in CASTS and tensors and tensors[0].dtype in (torch.float32, torch.float64):
            return widen_cast(func(*args, **kwargs), args[0])
        if len({t.dtype for t in tensors if t.is_floating_point()}) > 1:
            own = lambda value: value.grad_fn is not None  # noqa: E731
            args, kwargs = widen(name, args, kwargs, tensors, own)
        if name == "linear" and not torch.is_grad_enabled():
            product = by_onednn(*args, **kwargs)
            if product is not None:
                return product
        return func(*args, **kwargs)
