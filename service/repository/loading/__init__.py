"""Loading an artifact: tried in a child process first, then opened here."""
