"""What random programs found, shrunk to a few lines: each must stay right, or refused by name.

Where a smaller test says the same better, it stands with what it tests, and not here.
"""

from tests.fuzz.checking import right_or_loud
from tests.fuzz.modules import BORDER


def kept(folder, body, parameters="x", arguments="[0.3, -0.5, 0.75][k],"):
    """Check a body of `f` in all ways."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    text = f"def f({parameters}):\n{lines}\ndef arguments(k):\n    return ({arguments}), {{}}\n"
    assert right_or_loud(folder, f"{text}\n{BORDER}\n")


def test_a_chosen_array_is_written_with_itself(tmp_path):
    kept(
        tmp_path,
        """
a = np.zeros(3)
if a.sum() > x:
    a = np.ones(3) * x
box = (a,)
a[np.arange(3)] = box[0]
return a.sum() + x""",
    )


def test_a_view_gets_the_array_that_it_shows(tmp_path):
    kept(
        tmp_path,
        """
a = 1.5 * x
b = np.flip(a)
np.copyto(b, a)
b += 1.5
np.add(b[1:], a[0], out=b[:-1])
return a""",
        arguments="np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 3.0], [2.0, 2.5, -0.5]][k]),",
    )
