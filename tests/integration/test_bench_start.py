"""What new processes cost, by the benchmark that speed is measured with."""

from tests.bench import start


def test_a_first_fingerprint_and_a_single_lookup_cost_little_beside_python_and_numpy():
    """Measured: 1.5 times Python's start, 2.0 and 2.3 times NumPy's import. Other programs disturb it."""
    (table,) = start.measure(0.2)
    ratios = {name: (to_pass, to_numpy) for name, _, to_pass, to_numpy in table.rows}
    assert ratios["first fingerprint, by the core"][0] < 5
    assert ratios["first fingerprint, by a profile"][1] < 1
    assert ratios["find --id"][1] < 5
    assert ratios["find --text"][1] < 5
