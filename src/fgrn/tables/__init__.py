"""Input and output of tables: dataframes, files and streams become columns of codes, and results become tables."""
