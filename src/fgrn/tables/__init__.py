"""Tables in and out: frames, files and streams of any size become columns of codes, and answers become tables again."""
