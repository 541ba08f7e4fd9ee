"""`simhbase plan`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from simhbase.cli.options import FiniteRange, command, converted, count, option, profile_options
from simhbase.cli.output import Output, json_option, message

_MOST = 1e9


@command(
    epilog="""\b
Examples:
  simhbase plan 10000000000 --lookups 500
  simhbase plan 1000000000 --sample rocksdb:news.db --set layout=2x1p1
"""
)
@click.argument("documents", metavar="DOCUMENTS", callback=converted(count))
@option(
    "--sample URL",
    "Store with at least 20,000 such documents, to measure how they fill drawers. [default: as Chinese news]",
    name="sample",
)
@option("--lookups N", "Lookups a second.", type=FiniteRange(min=0, max=_MOST), default=0.0)
@option("--memory GB", "Memory of one machine.", type=FiniteRange(min=1, max=_MOST), default=64.0)
@option("--disk GB", "Disk of one machine.", type=FiniteRange(min=1, max=_MOST), default=4000.0)
@option(
    "--characters N",
    "Mean length of a text, for the hours of loads.",
    type=FiniteRange(min=1, max=_MOST),
    default=150.0,
)
@option("--processors N", "Processors of one machine.", type=click.IntRange(min=1), default=16)
@option("--replication N", "Copies of each file of HBase.", type=click.IntRange(min=1), default=3)
@profile_options
@json_option
def plan(
    documents: int,
    sample: str | None,
    lookups: float,
    memory: float,
    disk: float,
    processors: int,
    replication: int,
    characters: float,
    profile: Mapping[str, object],
    output: Output,
) -> None:
    """Estimate what a number of documents needs, in each kind of store.

    Prints rows, bytes, memory, processor time, machines, and how many documents each kind of store can hold.
    With --sample the profile is that of the store, except for layout, k, reach, bands and threshold (--set).
    docs/planning.md says what the figures rest on.
    """
    from simhbase.admin import plan as planning
    from simhbase.index import open_index
    from simhbase.profile.profile import make_profile

    if sample is None:
        wanted = make_profile(profile)
        spread = planning.spread_as_news(wanted.index_scheme)
    else:
        with open_index(sample, access="read") as index:
            wanted = index.profile.reindexed(profile)
            spread = planning.measured_spread(index, wanted.index_scheme)
    found = planning.plan(
        documents,
        wanted,
        spread,
        lookups=lookups,
        memory_gb=memory,
        disk_gb=disk,
        processors=processors,
        replication=replication,
        characters=characters,
    )
    for warning in found.warnings:
        message(f"warning: {warning}")
    output.summary(found)
