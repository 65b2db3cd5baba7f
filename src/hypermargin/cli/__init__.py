"""The command `hypermargin`: what the package does, for people with a file and a terminal."""
