"""What a task answers, in every protocol: a class for each, and the table of all."""
