"""Many inputs into a folder: goes on after a bad one, and goes on where it was interrupted."""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from whyformer.cli.asked import check_drawn, load_named
from whyformer.cli.inputs import a, read_input
from whyformer.cli.results import Entry, Results
from whyformer.cli.rows import Rows
from whyformer.data_sets import HUB, is_data_set, is_saved
from whyformer.errors import InputError
from whyformer.files import FILE, FOLDER, IMAGE_ENDINGS, SOUND_ENDINGS, what_is
from whyformer.words import printable, shorten

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

Inputs = list[Entry] | Rows
#: of many PNG files: a plain screen's, which is more than most models see of a photo
MANY_DPI = 96


def list_inputs(options: argparse.Namespace) -> Inputs | None:
    """The inputs where there are many, or None where there is one."""
    given = options.input
    if len(given) == 1 and not options.lines and _is_data_set(given[0]):
        return Rows(given[0], options)
    for name in ("split", "column"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} goes with one data set, such as {HUB}NAME or rows.parquet")
    if options.lines:
        return _lines(options)[: options.limit]
    if len(given) == 1 and (not given[0].strip() or what_is(Path(given[0])) != FOLDER):
        return None
    files = [found for name in given for found in _files(Path(name), options.out)]
    gallery = ["index"] if (options.format or "").lstrip(".") == "html" else []
    return [
        Entry(str(file), name, file_state(file), str(relative))
        for (file, relative), name in zip(files, _names(files, gallery), strict=True)
    ][: options.limit]


def _is_data_set(given: str) -> bool:
    """A folder of images is none, though a table may lie beside them."""
    path = Path(given)
    if not given.strip() or not is_data_set(given):
        return False
    if what_is(path) != FOLDER or is_saved(path):
        return True
    return not any(file.suffix.lower() in IMAGE_ENDINGS | SOUND_ENDINGS for file in path.rglob("*"))


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


def _names(files: Sequence[tuple[Path, Path]], taken: Iterable[str]) -> list[str]:
    """Short names for results: with the ending, or the folder, only where two would be the same.

    ``taken`` are names that no result may have.
    """
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
    seen = Counter(taken)
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
                name = f"{number:05d}"
                entries.append(Entry(shorten(text), name, state, name, text))
    if not entries:
        raise InputError("the file holds no lines of text")
    return entries


def explain_many(inputs: Inputs, options: argparse.Namespace) -> int:
    """Explain every entry; returns 2 if some could not be.

    An input that cannot be explained is named, and the next one follows; a question or a model that
    cannot be used ends the run before anything is written. Under ``torchrun`` every process takes
    its share, and the first one writes the gallery of all.
    """
    from whyformer.engine.precision import is_fast
    from whyformer.engine.rules import get_preset
    from whyformer.sharing import processes, total, wait

    get_preset(options.preset), is_fast(options.precision)
    if options.out is None:
        check_drawn(options, ".json" if options.json else None)
    elif options.dpi is None and (options.format or "png").lstrip(".") == "png":
        options.dpi = MANY_DPI
    rank, size = processes()
    why = load_named(options.model, options) if options.model else None
    if options.out is None:
        if options.parquet:
            raise InputError("--parquet is written into a folder; name it with --out")
        if size > 1:
            raise InputError("several processes share a folder of results; name it with --out")
        return 2 if _explain(inputs, why, options, None)[2] else 0
    data = inputs.about(why) if isinstance(inputs, Rows) else None
    listed = () if isinstance(inputs, Rows) else inputs
    results = Results(options, listed, why, rank, data)
    wait()
    if size > 1:
        results.begin()
    try:
        counts = _explain(inputs, why, options, results, size)
        done, before, failed = total(*counts)
    finally:
        results.close()
    if rank == 0 and not (options.quiet or options.json):
        print(f"{results.folder}: {done} explained, {before} already there, {failed} failed")
        if what_is(results.gallery) is not None:
            print(f"{results.gallery} shows them")
    wait()
    return 2 if counts[2] else 0


def _explain(
    inputs: Inputs,
    why: Pipeline | None,
    options: argparse.Namespace,
    results: Results | None,
    processes: int = 1,
) -> tuple[int, int, int]:
    """Explain every input that has no result yet.

    Returns how many were explained, were there before, and could not be explained.
    """
    from tqdm.auto import tqdm

    from whyformer.cli.steps import Steps

    class Bar(tqdm):  # type: ignore[misc]
        """Starts no thread that watches over it: processes may yet be forked."""

        monitor_interval = 0

    rank = 0 if results is None else results.rank
    if isinstance(inputs, Rows):
        share, known = inputs.share(why, rank, processes), inputs.count()
    else:
        share, known = iter(inputs[rank::processes]), len(inputs)
    known = None if known is None else len(range(known)[rank::processes])
    silent = options.quiet or results is None or rank > 0
    label = "explaining" + (f" 1/{processes}" if processes > 1 else "")
    done = before = failed = 0

    def after() -> int | None:
        return None if known is None else known - done - before - failed - 1

    def waiting() -> Iterator[Entry]:
        nonlocal before
        for entry in share:
            if results is not None and results.has(entry):
                before += 1
            else:
                yield entry

    told = Steps(options, why, results, after, alone=processes == 1).run(waiting())
    drawn = {"desc": label, "unit": "input", "miniters": 1, "disable": silent}
    with Bar(total=known, **drawn) as bar, closing(told):
        for entry, wrong in told:
            if wrong is None:
                done += 1
            else:
                failed += 1
                where = "" if entry.source in str(wrong) else f"{entry.source}: "
                tqdm.write(f"whyformer: {printable(where + str(wrong))}", file=sys.stderr)
            bar.update(done + before + failed - bar.n)
        bar.update(done + before + failed - bar.n)
    return done, before, failed
