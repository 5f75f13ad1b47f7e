"""Queues: what is admitted, and batches that form while another runs."""
