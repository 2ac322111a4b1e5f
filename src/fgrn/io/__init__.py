"""Files: networks going out of the program and coming back."""
