"""Compiled code of NumPy and SciPy that programs call by pointer."""
