"""Kernel IR: its checker, its printed forms and the interpreter that says what it means."""
