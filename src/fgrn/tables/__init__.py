"""Tables in and out: dataframes, files and streams of any size become columns of codes, and answers become tables."""
