"""The training itself: transformers' Trainer, made to go on exactly where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_model as load_weights
from torch import nn
from torch.utils.data import Sampler
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerState,
    TrainingArguments,
)

from whyformer.errors import InputError, ModelError
from whyformer.explainer import Explainer
from whyformer.finetuning.callbacks import Progress, Watch, history_of, say
from whyformer.finetuning.classifier import Example, encode, load_classifier
from whyformer.finetuning.settings import CHECKPOINTS, Settings
from whyformer.finetuning.texts import Data
from whyformer.models.hugging_face import text_pipeline
from whyformer.models.pipeline import move

#: groups of similar length are made among this many batches, which keeps the order random
NEIGHBOURS = 50


class Tuner(Trainer):
    """Trainer whose order depends on the seed and the epoch alone, so that a run can be resumed.

    Its own groups by length are drawn from the global generator, which is another one when a run
    goes on inside an epoch.
    """

    def __init__(
        self,
        examples: dict[str, list[Example]],
        tokenizer: Any,
        facts: dict[str, Any],
        **options: Any,
    ) -> None:
        super().__init__(
            train_dataset=examples["train"],
            eval_dataset=sorted(examples["validation"], key=length_of),
            data_collator=DataCollatorWithPadding(tokenizer),
            processing_class=tokenizer,
            preprocess_logits_for_metrics=predicted,
            compute_metrics=accuracy,
            compute_loss_func=loss_of,
            **options,
        )
        self.examples, self.tokenizer, self.facts = examples, tokenizer, facts
        self.remove_callback(PrinterCallback)

    def _get_train_sampler(self, *_: Any) -> Sampler[int]:
        lengths = [length_of(example) for example in self.examples["train"]]
        together = self.args.train_batch_size * self.args.gradient_accumulation_steps
        together *= self.args.world_size
        return ByLength(lengths, together, self.args.seed, lambda: int(self.state.epoch or 0))


def training_arguments(settings: Settings, folder: Path, device: str | None) -> TrainingArguments:
    """Also joins the processes that ``torchrun`` started."""
    arguments = TrainingArguments(
        output_dir=str(folder.resolve() / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        greater_is_better=True,
        restore_callback_states_from_checkpoint=True,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=device == "cpu",
        dataloader_pin_memory=device != "cpu" and torch.cuda.is_available(),
        disable_tqdm=True,
        report_to="none",
        log_level="error",
        logging_nan_inf_filter=False,
    )
    if arguments.n_gpu > 1:
        # Several GPUs are for torchrun; Trainer would split each batch over all it sees.
        arguments._n_gpu = 1
    return arguments


def prepare(
    data: Data,
    source: Path,
    settings: Settings,
    arguments: TrainingArguments,
    device: str | None,
    allow_pickle: bool,
    talk: bool,
) -> Tuner:
    """The model, its tokenizer and what it will read, ready to train."""
    name = settings.model
    model, classes, kept = load_classifier(source, name, data.labels, settings.seed, allow_pickle)
    move(model, device)
    pipeline = text_pipeline(source, name, Explainer(model))
    tokenizer, longest = pipeline.tokenizer, min(settings.longest, pipeline.longest)
    if tokenizer.pad_token is None:
        raise ModelError(f"{name} has no padding token, so its texts cannot go into batches")
    special = tokenizer.num_special_tokens_to_add(pair=False)
    if longest <= special:
        raise InputError(f"longest is {longest}; expected more than the {special} special tokens")
    examples = {
        part: encode(texts, tokenizer, longest, settings.cut, classes)
        for part, texts in data.parts.items()
    }
    facts = {
        "head": "kept" if kept else "new",
        "classes": {label: model.config.id2label[i] for label, i in classes.items()},
        "longest_read": longest,
    }
    tuner = Tuner(examples, tokenizer, facts, model=model, args=arguments, callbacks=[Watch()])
    if settings.patience:
        tuner.add_callback(EarlyStoppingCallback(settings.patience))
    if talk:
        for note in (*data.notes, *notes_on(facts, name, settings.longest)):
            say(note)
        tuner.add_callback(Progress())
    return tuner


def notes_on(facts: dict[str, Any], name: str, asked: int) -> Iterator[str]:
    meant = ", ".join(
        label if label == own else f"{label} is {own}" for label, own in facts["classes"].items()
    )
    if facts["head"] == "kept":
        yield f"the head of {name} is kept: {meant}"
    else:
        yield f"{name} has no head for these classes and gets a new one: {meant}"
    if facts["longest_read"] < asked:
        yield f"{name} reads up to {facts['longest_read']} word pieces, not {asked}"


def train(tuner: Tuner, checkpoints: Path, patience: int) -> TrainerState:
    """Train, or go on; leaves the weights of the best epoch in the model."""
    last = last_checkpoint(checkpoints)
    state = None
    if last is not None:
        state = TrainerState.load_from_json(str(last / "trainer_state.json"))
    if state is None or not is_over(state, patience):
        tuner.train(resume_from_checkpoint=None if last is None else str(last))
        state = tuner.state
    best = checkpoints / f"checkpoint-{state.best_global_step}" / "model.safetensors"
    load_weights(cast(nn.Module, tuner.model), best)
    return state


def last_checkpoint(folder: Path) -> Path | None:
    """The last that is whole: its state is written last."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        try:
            whole.append(
                (json.loads((path / "trainer_state.json").read_text())["global_step"], path)
            )
        except (OSError, ValueError, KeyError):
            continue
    return max(whole)[1] if whole else None


def is_over(state: TrainerState, patience: int) -> bool:
    """Whether nothing is left to train: Trainer would add an epoch to a run that stopped early."""
    callbacks = cast(dict[str, Any], state.stateful_callbacks)
    stopping = callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    waited = stopping.get("early_stopping_patience_counter", 0)
    return state.global_step >= state.max_steps or (patience > 0 and waited >= patience)


def measure(tuner: Tuner, state: TrainerState) -> dict[str, Any]:
    tested = None
    if "test" in tuner.examples:
        examples: Any = sorted(tuner.examples["test"], key=length_of)
        tested = (tuner.predict(examples).metrics or {})["test_accuracy"]
    return {
        **tuner.facts,
        "counts": {part: len(examples) for part, examples in tuner.examples.items()},
        "validation_accuracy": state.best_metric,
        "test_accuracy": tested,
        "history": history_of(state.log_history),
    }


def loss_of(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """The mean over all texts of a step, on all processes and in all its batches.

    Trainer believes that the model divides by their number. BERT and others do not, and the
    gradient would be larger by as much as there are batches and processes to a step.
    """
    total = F.cross_entropy(outputs["logits"], labels, reduction="sum")
    return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)


def predicted(logits: Any, labels: Any) -> Any:
    return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)


def accuracy(given: Any) -> dict[str, float]:
    return {"accuracy": float((given.predictions == given.label_ids).mean())}


def length_of(example: Example) -> int:
    return len(example["input_ids"])


class ByLength(Sampler[int]):
    """A random order in which the texts of a step are of similar length."""

    def __init__(
        self, lengths: Sequence[int], together: int, seed: int, epoch: Callable[[], int]
    ) -> None:
        self.lengths, self.together, self.seed, self.epoch = lengths, together, seed, epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        random = np.random.default_rng([self.seed, self.epoch()])
        order = random.permutation(len(self)).tolist()
        span = self.together * max(1, min(NEIGHBOURS, len(self) // (4 * self.together)))
        groups: list[list[int]] = []
        for i in range(0, len(order), span):
            near = sorted(order[i : i + span], key=self.lengths.__getitem__)
            groups += [near[j : j + self.together] for j in range(0, len(near), self.together)]
        last = groups.pop() if len(groups[-1]) < self.together else []
        random.shuffle(groups)
        return iter([place for group in (*groups, last) for place in group])
