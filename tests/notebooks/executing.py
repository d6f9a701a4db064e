"""Execute the notebooks: for the tests, and to write the committed `.ipynb` files.

A notebook is a pair: the `.py` file (jupytext, percent format) is what people edit; the `.ipynb`
file is made from it, with outputs. `python tests/notebooks/executing.py` rewrites all `.ipynb`
files. What two runs need not share (execution times, ids drawn at random) is left out, so that an
unchanged notebook gives an unchanged file, but for the outputs of cells with the tag `varies`: they
show times or machine code, and are executed but not compared.
"""

import os
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
SECONDS = 60
VARIES = "varies"


def pairs() -> list[Path]:
    """The `.py` halves of all notebooks, in order."""
    return sorted(FOLDER.glob("*.py"))


def execute(source: Path) -> nbformat.NotebookNode:
    """The notebook of a `.py` file, run from top to bottom; raises where a cell raises."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    folder = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        resources=folder,
        kernel_name="python3",
        coalesce_streams=True,
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    return cleaned(notebook)


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what differs from run to run or from machine to machine."""
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """The text of every output that does not vary, in order; error and warning streams included."""
    texts = []
    for cell in notebook.cells:
        if VARIES in cell.metadata.get("tags", ()):
            continue
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            texts.append(output.get("text") or data.get("text/plain") or output.output_type)
    return texts


def main() -> None:
    """Rewrite every `.ipynb` file from its `.py` file."""
    for source in pairs():
        nbformat.write(execute(source), source.with_suffix(".ipynb"))
        sys.stdout.write(f"{source.with_suffix('.ipynb').relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
