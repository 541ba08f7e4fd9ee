"""Everybody at once on the same documents, while servers, connections, clocks, workers and disks fail.

Workers (workers.py) add, delete and claim shared ids, load files, migrate, vacuum, repair and look up; one
moves a crowd of documents with equal fingerprints. Each operation is noted before it begins and when it is
acknowledged, and so is each error. Meanwhile faults happen, up to three at once (faults.py):

- faults that interrupt: workers are killed and replaced, connections are cut, and what each store's module
  adds. Workers see passing errors, and repeat what failed.
- faults that damage (damage.py): rows, files and logs are cut, flipped, removed. While the damage lasts every
  operation on what is damaged must fail with an error that names it; then it is undone.

- rocksdb.py, a process that writes beside readers: power cuts; data files that are flipped, cut or missing; a
  flipped log;
- redis.py, a server with a replica that acknowledges: kills, hangs, lost answers, lost replicas, failovers;
  all keys gone; the bitmap of documents gone;
- postgresql.py, a server with a synchronous standby: kills, hangs, lost answers, lost standbys, failovers;
- hbase.py, servers behind relays that repeat calls late: gateways and region servers that are killed, hang,
  or hang until their regions are elsewhere; regions that split and move; snapshots.

- strangers.py, no store but a service and jobs over folders: hostile clients, texts, pages and archives
  beside honest ones.

Afterwards (judging.py, tests/history.py) every document must be as one of its last operations left it, in
snapshots as while they were taken, every lookup must have shown what was there meanwhile, and every error
that does not pass must have come while the damage was there that it names. Half of the fingerprints are
given to documents by claims and unique loads only: of these no two stored documents may be near each other.

    python -m tests.adversary --seconds 300 --seed 1 [STORE ...]

runs all stores side by side, each in its process, and prints what each has counted.
"""
