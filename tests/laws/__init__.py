"""Laws that every row of the table must obey, generated from the rows' own samples."""
