"""The interface: routes, what requests say and what answers look like."""
