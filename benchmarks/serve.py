"""What the web page's server adds, and how it bears load: `python benchmarks/serve.py`.

Three figures for the embedded ViT, calls taking turns in one run, medians compared: the first map
of an image through the server against the bare explanation (at most 2), the map of another class of
the same image against that first one, and against a fresh bare explanation (both below 1). Then
clients that ask without a pause, about images, sentences and long texts: statuses, the process's
memory over time, and whether every answer equals what the library gives. `--text DIR` asks another
text classifier.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.render.document import document, png_bytes
from whyformer.render.sheets import make_sheet

CLIENTS = 16
BOUNDARY = "whyformer-benchmark"


def start_server(text: str) -> tuple[subprocess.Popen[str], int]:
    models = ["--model", "demo-vision", "--model", text]
    command = [sys.executable, "-m", "whyformer", "serve", "--port", "0", *models]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    said = server.stdout.readline()
    place = re.search(r":(\d+)/", said)
    assert place is not None, said
    return server, int(place[1])


def form(image: bytes, **fields: str) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
    return b"".join(parts) + head.encode() + image + f"\r\n--{BOUNDARY}--\r\n".encode()


def post(line: http.client.HTTPConnection, body: bytes, kind: str) -> tuple[int, Any, str | None]:
    line.request("POST", "/api/v1/explain", body, {"Content-Type": kind})
    answer = line.getresponse()
    data = json.loads(answer.read())
    return answer.status, data, answer.getheader("Retry-After")


def post_image(line: http.client.HTTPConnection, image: bytes, **fields: str) -> Any:
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return post(line, form(image, **fields), kind)


def seconds(act: Any) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def compare(port: int, rounds: int) -> None:
    why = whyformer.load("demo-vision")
    line = http.client.HTTPConnection("127.0.0.1", port)
    bare, first, switched = [], [], []
    for number in range(rounds + 3):
        image = png_bytes(draw_scene(1000 + number, 2).image)
        bare.append(seconds(lambda image=image: why(image, 3)))
        first.append(seconds(lambda image=image: post_image(line, image, targets="3", detail="1")))
        switched.append(
            seconds(lambda image=image: post_image(line, image, targets="8", detail="1"))
        )
    a, b, c = (statistics.median(times[3:]) for times in (bare, first, switched))
    print(
        f"bare explanation {1000 * a:.0f} ms; first map through the server {1000 * b:.0f} ms: "
        f"ratio {b / a:.2f}\nanother class of the same image {1000 * c:.0f} ms: {c / b:.2f} of the "
        f"first map, {c / a:.2f} of a bare explanation"
    )


def questions(model: str, words: int) -> list[tuple[bytes, str, Any]]:
    """Bodies, their types, and the scores that the library gives."""
    made: list[tuple[bytes, str, Any]] = []
    vision, text = whyformer.load("demo-vision"), whyformer.load(model)

    def ask_text(content: str) -> None:
        expected = scores(document(make_sheet(text(content, 1))))
        body = json.dumps({"text": content, "targets": [1]}).encode()
        made.append((body, "application/json", expected))

    for seed in range(6):
        image = png_bytes(draw_scene(seed, 2).image)
        for target in (seed, 9 - seed):
            expected = scores(document(make_sheet(vision(image, target))))
            body = form(image, targets=str(target))
            made.append((body, f"multipart/form-data; boundary={BOUNDARY}", expected))
        ask_text(f"The film number {seed} is warm and moving, but far too long.")
    for word in ("film", "plot", "cast", "song"):
        ask_text(f"{word} " * words)
    return made


def scores(answer: Any) -> Any:
    return [view["scores"] for view in answer["views"]]


def load(port: int, process: int, asked: list[tuple[bytes, str, Any]], duration: float) -> None:
    counts: Counter[str] = Counter()
    until = time.monotonic() + duration

    def client(number: int) -> None:
        line = http.client.HTTPConnection("127.0.0.1", port)
        turn = number
        while time.monotonic() < until:
            body, kind, expected = asked[turn % len(asked)]
            turn += 1
            try:
                status, answer, wait = post(line, body, kind)
            except (OSError, http.client.HTTPException, ValueError) as error:
                counts[f"error: {error!r}"] += 1
                line.close()
                continue
            counts[str(status)] += 1
            if status == 200 and scores(answer) != expected:
                counts["different"] += 1
            if status == 503 and wait is None:
                counts["503 without Retry-After"] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < until:
        time.sleep(duration / 12)
        memory.append(resident(process))
    for thread in threads:
        thread.join()
    print(f"{CLIENTS} clients for {duration:.0f} s: {dict(counts)}")
    print("server's memory, MiB: " + " ".join(str(amount) for amount in memory))


def resident(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    raise ValueError("the server has ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--text", default="demo-text", help="a text classifier")
    parser.add_argument("--words", type=int, default=2500, help="of a long text")
    options = parser.parse_args()
    asked = questions(options.text, options.words)
    server, port = start_server(options.text)
    try:
        compare(port, options.rounds)
        load(port, server.pid, asked, options.seconds)
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
