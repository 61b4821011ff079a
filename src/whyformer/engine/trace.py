"""A recorded forward, and the backwards that can be asked of it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.abreast import go_down
from whyformer.engine.forward_record import ForwardRecord
from whyformer.engine.graph import kind, nodes
from whyformer.engine.inputs import (
    Inputs,
    as_call,
    as_ordinary,
    check_inputs,
    content,
    main_input,
    named,
    sample_counts,
)
from whyformer.engine.names import MOVING_NODES
from whyformer.engine.operations import Operation, Pass
from whyformer.engine.outputs import Output, as_output, check_samples
from whyformer.engine.precision import full_precision
from whyformer.engine.recorder import Recorder
from whyformer.engine.refusals import (
    innermost,
    refuse_non_finite,
    refuse_opaque,
    why_cut,
    why_no_backward,
)
from whyformer.engine.rules import Table
from whyformer.errors import InputError, ModelError, WhyformerError, first_line

#: where a backward starts: values of the graph, each with what is put into its slot
Start = Sequence[tuple[Tensor, Tensor]]


class Trace:
    """One forward: what it returned and revealed, with the graph that connects it.

    ``returned`` is all that the model returned, ``output`` the tensor that is asked about.
    """

    def __init__(
        self, current: Pass, seen: ForwardRecord, returned: Any, output: Tensor, batch: int
    ) -> None:
        self.current = current
        self.seen = seen
        self.returned = returned
        self.output = output
        self.batch = batch
        #: whether products of the backwards are in bfloat16
        self.fast = False
        self._lock = threading.Lock()
        operations, natives = set(), set()
        for node in nodes([output]):
            operation = getattr(node, "operation", None)
            operations.add(operation) if operation else natives.add(kind(node))
        self.operations = operations
        seen.crossed = any(operation.crosses for operation in operations)
        self.foreign = sorted(natives - MOVING_NODES)
        self.unrecognised = [shape for op, shape in seen.softmaxes if op in operations]

    def faster(self) -> Trace:
        """The same forward, whose backwards multiply in bfloat16."""
        other = copy.copy(self)
        other.fast = True
        return other

    def backward(
        self,
        table: Table,
        start: Start,
        of: Sequence[Tensor],
        keep: bool = False,
        passing: Mapping[Tensor, Callable[[Tensor], None]] | None = None,
        constants: Callable[[Operation, Tensor], None] | None = None,
    ) -> list[Tensor | None]:
        """What a table of rules puts into the slots of some values; None where nothing arrives.

        ``passing`` are called with the slots of values on the way, which are then forgotten;
        ``constants`` with each operation on the way that adds a bias or another constant, and the
        constant times its slot.
        """
        values = [value for value, _ in start]
        slots = [as_ordinary(slot) for _, slot in start]
        with self._running(table, values, keep, constants):
            hooks = [value.register_hook(given(seen)) for value, seen in (passing or {}).items()]
            try:
                found = torch.autograd.grad(
                    values, list(of), slots, retain_graph=True, allow_unused=True
                )
            finally:
                for hook in hooks:
                    hook.remove()
        return [None if slot is None else slot.detach() for slot in found]

    def backwards(
        self, table: Table, starts: Sequence[Start], of: Sequence[Tensor], keep: bool = False
    ) -> list[list[Tensor | None]]:
        """The same for several targets, each with a start from the same values."""
        if len(starts) == 1 or self.foreign:
            return [self.backward(table, start, of, keep) for start in starts]
        values = [value for value, _ in starts[0]]
        slots = [[as_ordinary(slot) for _, slot in start] for start in starts]
        with self._running(table, values, keep), torch.no_grad():
            each = [list(abreast) for abreast in zip(*slots, strict=True)]
            found = go_down(table, list(zip(values, each, strict=True)), of)
        return [list(each) for each in zip(*found, strict=True)]

    @contextmanager
    def _running(
        self,
        table: Table,
        values: Sequence[Tensor],
        keep: bool = False,
        constants: Callable[[Operation, Tensor], None] | None = None,
    ) -> Iterator[None]:
        """A table in force, for one backward at a time."""
        with self._lock:
            self.current.table, self.current.keep = table, keep
            self.current.constants, self.current.fast = constants, self.fast
            try:
                with torch.inference_mode(False), full_precision(self.output):
                    yield
            except WhyformerError:
                raise
            except Exception as error:
                raise ModelError(why_no_backward(values, error)) from None
            finally:
                self.current.table, self.current.keep = None, False
                self.current.constants, self.current.fast = None, False


def given(seen: Callable[[Tensor], None]) -> Callable[[Tensor | None], None]:
    """A hook that is not called where nothing arrives."""

    def hook(slot: Tensor | None) -> None:
        if slot is not None:
            seen(slot)

    return hook


def record(
    model: nn.Module,
    inputs: Inputs,
    output: Output = None,
    maps: bool = True,
    replaced: Mapping[int, Tensor] | None = None,
    changed: Mapping[int, Callable[[Tensor], Tensor]] | None = None,
    batch: int | None = None,
) -> Trace:
    """Run the model's own forward once and keep its graph.

    ``replaced`` are other values of its roots, ``changed`` functions of the results of its steps.
    The main input says how many samples there are. Where the output has as many rows as another
    input, that one does: the forward is run again.
    """
    refuse_opaque(model)
    args, kwargs = as_call(inputs)
    tensors = named(args, kwargs)
    check_inputs(tensors)
    main, counts = main_input(args, kwargs), sample_counts(args, kwargs)
    current = Pass()
    batch = len(main) if batch is None else batch
    recorder = Recorder(current, batch, maps, replaced, changed)
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            full_precision(main),
            untouched(model),
        ):
            args, kwargs = with_roots(recorder, args, kwargs)
            with recorder:
                returned = model(*args, **kwargs)
                answer = as_output(returned, output)
    except WhyformerError:
        raise
    except Exception as error:
        given = ", ".join(
            f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors.values()
        )
        raise InputError(
            f"the model's own forward failed on inputs of shape {given}: "
            f"{type(error).__name__}: {first_line(error)} (at {innermost(error)})"
        ) from None
    if len(answer) != batch and len(answer) in counts:
        return record(model, inputs, output, maps, replaced, changed, len(answer))
    check_samples(answer, batch)
    if not answer.requires_grad:
        raise ModelError(f"the logits are cut off from the model's graph: {why_cut(recorder.seen)}")
    refuse_non_finite(model, answer)
    return Trace(current, recorder.seen, returned, answer, batch)


def with_roots(
    recorder: Recorder, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The call with its content entered into the graph: floats as roots, ids to be followed."""
    wanted = content(args, kwargs)
    entered: dict[int, Tensor] = {}
    for name, value in wanted.items():
        if value.is_floating_point():
            entered[id(value)] = recorder.roots.enter(name, value)
        else:
            recorder.roots.give_ids(value, name)
    swap = lambda value: entered.get(id(value), value)  # noqa: E731
    return [swap(v) for v in args], {key: swap(v) for key, v in kwargs.items()}


class untouched:  # noqa: N801
    """Modules in training mode count batches and keep statistics: afterwards they are as before."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = [
            (buffer, buffer.detach().clone())
            for module in model.modules()
            if module.training
            for buffer in module.buffers(recurse=False)
        ]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with torch.no_grad():
            for buffer, before in self._buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
