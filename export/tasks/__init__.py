"""What each task exports: the plan of its graphs and what they take and return."""
