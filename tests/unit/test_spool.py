import os

import pytest

from simhbase.corpus.spool import Spool
from simhbase.errors import SimhbaseError


def add_to_what_refuses_it(folder):
    with Spool(folder) as spool:
        os.close(spool._file.fileno())  # refuses what is written to it, as a full disk does
        spool.put_aside([b"text"])


def test_what_could_not_be_written_is_told_once_and_clearly(tmp_path):
    with pytest.raises(SimhbaseError, match=tmp_path.name):
        add_to_what_refuses_it(tmp_path)
