"""A loaded artifact of each task: its sessions, its lanes, and what it predicts."""
