"""Many inputs into a folder: goes on after a bad one, and goes on where it was interrupted."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whyformer import __version__
from whyformer.cli.inputs import Given, a, read_input, with_pair
from whyformer.cli.options import load_for, load_named, look_of
from whyformer.errors import InputError, OutputError
from whyformer.files import (
    FILE,
    FOLDER,
    IMAGE_ENDINGS,
    SOUND_ENDINGS,
    check_same,
    lock,
    what_is,
    write_whole,
)
from whyformer.methods import DEFAULT_METHOD, get_method
from whyformer.words import printable, shorten

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

SETTINGS, DONE, LOCK = ".whyformer-settings", ".whyformer-done.tsv", ".whyformer-lock"


@dataclass(frozen=True)
class Entry:
    """An input of many: what to read, its result's name without the ending, and what it was."""

    source: str
    name: str
    state: str
    text: str | None = None


def list_inputs(options: argparse.Namespace) -> list[Entry] | None:
    """The inputs where there are many, or None where there is one."""
    if options.lines:
        return _lines(options)
    given = options.input
    if len(given) == 1 and (not given[0].strip() or what_is(Path(given[0])) != FOLDER):
        return None
    files = [found for name in given for found in _files(Path(name), options.out)]
    return [
        Entry(str(file), name, file_state(file))
        for (file, _), name in zip(files, _names(files), strict=True)
    ]


def _files(path: Path, out: str | None) -> Iterator[tuple[Path, Path]]:
    """A file, or a folder's images and sounds; each with the name that it has below the folder."""
    kind = what_is(path)
    if kind is None:
        raise InputError(f"no such file: {path}; a text of several words goes into quotation marks")
    if kind == FILE:
        yield path, Path(path.name)
        return
    if not os.access(path, os.R_OK | os.X_OK):
        raise InputError(f"{path} may not be read: permission denied")
    results = Path(out).resolve() if out else None
    if path.resolve() == results:
        raise InputError(f"{out} holds the inputs; choose another folder for the results")
    within = results is not None and path.resolve() in results.parents
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in IMAGE_ENDINGS | SOUND_ENDINGS
        and not (within and results in file.resolve().parents)
    )
    if not found:
        endings = ", ".join(sorted(IMAGE_ENDINGS | SOUND_ENDINGS))
        raise InputError(f"{path} holds no images and no sounds ({endings})")
    yield from ((file, file.relative_to(path)) for file in found)


def _names(files: Sequence[tuple[Path, Path]]) -> list[str]:
    """Short names for results: with the ending, or the folder, only where two would be the same."""
    stems = [str(relative.with_suffix("")) for _, relative in files]
    alike = Counter(stems)
    names = [
        stem if alike[stem] == 1 else str(relative)
        for (_, relative), stem in zip(files, stems, strict=True)
    ]
    alike = Counter(names)
    names = [
        name if alike[name] == 1 else f"{file.resolve().parent.name}/{name}"
        for (file, _), name in zip(files, names, strict=True)
    ]
    seen: Counter[str] = Counter()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[i] = f"{name}-{seen[name]}"
    return names


def file_state(file: Path) -> str:
    """Something else when the file is another one, or was changed."""
    try:
        found = file.stat()
    except OSError:
        return "unreadable"
    return f"{file.resolve()} {found.st_size} {found.st_mtime_ns}"


def _lines(options: argparse.Namespace) -> list[Entry]:
    """Every line that is not blank, by its number; a second file's lines are counted on."""
    entries: list[Entry] = []
    before = 0
    for given in options.input:
        read = read_input(given, argparse.Namespace(pair=None))
        if read.kind != "text":
            raise InputError(f"{given} is {a(read.kind)}; --lines reads text files")
        for number, line in enumerate(io.StringIO(read.content, newline=None), before + 1):
            before, text = number, line.removesuffix("\n")
            if text.strip():
                state = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
                entries.append(Entry(shorten(text), f"{number:05d}", state, text))
    if not entries:
        raise InputError("the file holds no lines of text")
    return entries


def explain_many(entries: Sequence[Entry], options: argparse.Namespace) -> int:
    """Explain every entry; returns 2 if some could not be.

    What is wrong with an input is said, and the next one follows; what is wrong with the question
    or the model ends the run before anything is written.
    """
    from tqdm.auto import tqdm

    from whyformer.cli.explaining import explain_one, present
    from whyformer.engine.precision import is_fast
    from whyformer.engine.rules import get_preset

    get_preset(options.preset), is_fast(options.precision)
    why = load_named(options.model, options) if options.model else None
    results = Results(options, entries, why) if options.out else None
    waiting = [entry for entry in entries if results is None or not results.has(entry)]
    loaded = {why.kind: why} if why is not None else {}
    failed = 0
    silent = options.quiet or results is None or not waiting
    for entry in tqdm(waiting, desc="explaining", unit="input", disable=silent):
        try:
            given = _read(entry, options)
            if given.kind not in loaded:
                loaded[given.kind] = load_for(options, given.kind)
            sheet = explain_one(loaded[given.kind], given, options)
        except InputError as error:
            failed += 1
            where = "" if entry.source in str(error) else f"{entry.source}: "
            tqdm.write(f"whyformer: {printable(where + str(error))}", file=sys.stderr)
            continue
        one = argparse.Namespace(**vars(options))
        if results is not None:
            results.begin()
            one.out, one.quiet = str(results.path(entry)), True
        present(sheet, one)
        if results is not None:
            results.finish(entry)
    if results is not None and not (options.quiet or options.json):
        done, before = len(waiting) - failed, len(entries) - len(waiting)
        print(f"{results.folder}: {done} explained, {before} already there, {failed} failed")
    return 2 if failed else 0


def _read(entry: Entry, options: argparse.Namespace) -> Given:
    if entry.text is not None:
        return Given(entry.source, "text", with_pair(entry.text, options), entry.source)
    return read_input(entry.source, options)


def own_code(options: argparse.Namespace) -> dict[str, str]:
    """Settings for a method or a preset of one's own: results of older code are not its results."""
    from whyformer.code import code_of, rules_of

    name = options.method or DEFAULT_METHOD
    method = {} if get_method(name).built_in else {"code": code_of(name)}
    return {**method, **rules_of(options.preset)}


class Results:
    """A folder of results: the settings that they were made with, and what each was made from."""

    def __init__(
        self, options: argparse.Namespace, entries: Sequence[Entry], why: Pipeline | None
    ) -> None:
        from whyformer.render.saving import WRITERS, writer

        self.folder = Path(options.out)
        self.ending = ("png" if options.format is None else options.format).lstrip(".")
        writer(Path(f"result.{self.ending}"))
        if what_is(self.folder) == FILE or self.folder.suffix.lower() in WRITERS:
            raise InputError(f"{self.folder} is a file's name; many inputs go into a folder")
        self._begun = False
        self._settings = {
            "whyformer": __version__,
            "model": options.model,
            "weights": why and why.weights,
            "preparation": why and why.preparation,
            "target": options.target,
            "rather than": options.rather_than,
            "position": options.position,
            "chat": options.chat,
            "method": options.method or (why.usual if why else DEFAULT_METHOD),
            "preset": options.preset,
            "precision": options.precision,
            **own_code(options),
            "pair": options.pair,
            "text": options.text,
            "similar_to": options.similar_to,
            "pieces": options.pieces,
            "look": vars(look_of(options)),
        }
        self._done = dict(self._read_done())
        self._outdated: list[Path] = []
        self._overwrite = options.overwrite
        if options.overwrite:
            self._outdated = [self.path(e) for e in entries if e.name in self._done]
            self._done = {}
        else:
            self._check_settings()
        self._spare_others(entries, options.overwrite)

    def _check_settings(self) -> None:
        mark = self.folder / SETTINGS
        if what_is(mark) is None:
            return
        try:
            before = dict(json.loads(mark.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InputError(f"{mark} is damaged; choose another folder, or --overwrite") from error
        advice = "choose another folder, or --overwrite"
        check_same(self.folder, before, self._settings, "results made", advice)

    def _read_done(self) -> Iterator[tuple[str, str]]:
        path = self.folder / DONE
        if what_is(path) is None:
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            name, _, state = line.partition("\t")
            yield name, state

    def _spare_others(self, entries: Sequence[Entry], overwrite: bool) -> None:
        """No result may take the place of an input, nor of a file that is no result."""
        inputs = {Path(entry.source).resolve() for entry in entries if entry.text is None}
        for entry in entries:
            result = self.path(entry)
            if result.resolve() in inputs:
                raise InputError(f"{result} is an input; choose another folder for the results")
            if not overwrite and entry.name not in self._done and what_is(result) is not None:
                raise InputError(
                    f"{result} exists and is no result of these settings; choose another folder, "
                    "or --overwrite"
                )

    def path(self, entry: Entry) -> Path:
        return self.folder / f"{entry.name}.{self.ending}"

    def has(self, entry: Entry) -> bool:
        """Whether there is a result of this very input."""
        return self._done.get(entry.name) == entry.state and what_is(self.path(entry)) == FILE

    def begin(self) -> None:
        """With the first result: old ones that it replaces go, and the folder is marked anew.

        From then on the folder is this process's alone, as far as the system has locks.
        """
        if self._begun:
            return
        self._begun = True
        self._lock = lock(self.folder / LOCK)
        if not self._overwrite:
            self._check_settings()
        for path in self._outdated:
            path.unlink(missing_ok=True)
        write_whole(self.folder / SETTINGS, json.dumps(self._settings, indent=1) + "\n")
        kept = "".join(f"{name}\t{state}\n" for name, state in self._done.items())
        write_whole(self.folder / DONE, kept)

    def finish(self, entry: Entry) -> None:
        try:
            with open(self.folder / DONE, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"{entry.name}\t{entry.state}\n")
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / DONE}: {error.strerror}") from error
